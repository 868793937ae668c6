package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
)

// update writes the golden files anew: go test ./perf/report -update.
var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what it was (-update writes it anew):\n%s", path, got)
	}
}

// recorded is a release with every kind of figure that is drawn, and a name
// that has to be escaped.
func recorded() []*results.Recorded {
	head := func(product string) results.Head {
		return results.Head{
			Versions: results.Versions{BrokerProduct: product, BrokerVersion: "1"},
			Environment: results.Environment{
				CPU: results.CPU{Model: "Example CPU", Cores: 2}, Kernel: "Linux 6.1", Filesystem: "xfs", IOBackend: "sockets: epoll",
				Durability: "fsync", Commit: "0123", GoVersion: "go1.26", GOARCH: "arm64", Time: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC),
			},
		}
	}
	throughput := func(product string, size uint64, rate float64) *results.Recorded {
		return &results.Recorded{Release: "2026-05-01-0123", Name: "end-to-end", Head: head(product), Throughput: &results.Throughput{
			ConsumedPerSecond: rate, Options: &results.ThroughputLoad{Publishers: 1, Consumers: 1, Size: size},
		}}
	}
	paced := throughput("Basalt<MQ>", 16, 100000)
	paced.Name = "latency"
	paced.Throughput.Options.PublishRate = 100000
	paced.Throughput.Latency = &results.Latency{P50: 50, P75: 80, P90: 120, P95: 150, P99: 400, P999: 2000, P9999: 9000, Max: 20000}
	fraction := 0.5
	return []*results.Recorded{
		throughput("Basalt<MQ>", 16, 10000000), throughput("Basalt<MQ>", 16, 12000000), throughput("Basalt<MQ>", 1024, 2000000),
		throughput("Basalt<MQ>", 131072, 16000), throughput("OtherMQ", 16, 500000), throughput("OtherMQ", 1024, 300000), paced,
		{Release: "2026-05-01-0123", Name: "backlog", Head: head("Basalt<MQ>"), Backlog: &results.Backlog{
			Fill:  &results.BacklogPhase{Seconds: 3, Samples: []uint64{5 << 20, 9 << 20, 11 << 20, 10 << 20}},
			Drain: &results.BacklogPhase{Seconds: 2, Samples: []uint64{10 << 20, 12 << 20, 6 << 20}},
		}},
		{Release: "2026-05-01-0123", Name: "suite", Head: head("Basalt<MQ>"), Suite: &results.Suite{
			Figures: []results.Figure{
				{Name: "end-to-end-16B", Value: 11000000, Unit: "messages/s", Better: results.More, Yardstick: "relay", Fraction: &fraction},
				{Name: "end-to-end-16KiB", Value: 120000, Unit: "messages/s", Better: results.More},
				{Name: "latency-250k-p50", Value: 60, Unit: "µs", Better: results.Less}, {Name: "latency-250k-p99", Value: 1500, Unit: "µs", Better: results.Less},
				{Name: "latency-250k-p99.9", Value: 2500, Unit: "µs", Better: results.Less},
			},
			Yardsticks: []results.Yardstick{{Name: "relay", Unit: "messages/s", Before: 20000000, After: 21000000}},
			LeftOut:    []results.LeftOut{{Figure: "rss-idle", Reason: "needs the broker's process (--broker-pid)"}},
			Series:     []results.Series{{Name: "rss", Section: "many", Unit: "bytes", Seconds: []float64{40, 41, 42}, Values: []float64{6 << 20, 30 << 20, 28 << 20}}},
		}},
		{Release: "2026-05-01-0123", Name: "open-loop", Head: head("Basalt<MQ>"), Latencies: &results.Latencies{Rows: []*results.LatencyRow{
			{Rate: 50000, Latency: &results.Latency{P50: 40, P75: 60, P90: 90, P95: 100, P99: 300, P999: 900, P9999: 3000, Max: 9000}}, {Rate: 1},
		}}},
		{Release: "2026-05-01-0123", Name: "features", Head: head("Basalt<MQ>"), Features: &results.Features{
			Rows: []*results.FeatureRow{
				{Name: "plain", Load: "1 publisher", Unit: "messages", PerSecond: 9000000, Relay: &results.RelayFraction{Fraction: 0.4}},
				{Name: "ttl <1 s>", Load: "1 publisher", Unit: "messages", PerSecond: 8100000, Base: "plain", OfBase: &fraction},
			},
			LeftOut: []results.LeftOut{{Figure: "stream", Reason: "refused <540>"}},
		}},
	}
}

// checkXML reads a drawing or a page as a browser would.
func checkXML(t *testing.T, name string, text []byte) {
	t.Helper()
	decoder := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s is not well-formed: %v\n%s", name, err, text)
		}
	}
}

func TestPlots(t *testing.T) {
	t.Parallel()
	var names []string
	for _, chart := range Plots(recorded()) {
		var drawn bytes.Buffer
		if err := chart.WriteSVG(&drawn); err != nil {
			t.Fatal(err)
		}
		checkXML(t, chart.Name, drawn.Bytes())
		golden(t, chart.Name+".svg", drawn.Bytes())
		names = append(names, chart.Name)
	}
	if want := []string{"throughput-by-size", "bytes-by-size", "latency", "rss"}; !slices.Equal(names, want) {
		t.Errorf("plots %q, want %q", names, want)
	}
	if plots := Plots(nil); len(plots) > 0 {
		t.Errorf("plots of nothing: %v", plots)
	}
}

func TestHTML(t *testing.T) {
	t.Parallel()
	var page bytes.Buffer
	if err := WriteHTML(&page, "Figures & more", recorded()); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.html", page.Bytes())
	text := page.String()
	for _, want := range []string{"Figures &amp; more", "<svg", "&lt;MQ&gt;", "reached", "needs the broker&#39;s process"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing", want)
		}
	}
	for _, not := range []string{"Basalt<MQ>", "<script", "src=", "@import", "url("} {
		if strings.Contains(text, not) {
			t.Errorf("%q must not be in it", not)
		}
	}
	page.Reset()
	if err := WriteHTML(&page, "x", nil); err != nil || !strings.Contains(page.String(), "None of the results") {
		t.Errorf("%v: %s", err, page.String())
	}
}

// Whatever the values, what is drawn is inside the frame and well-formed.
func TestChartsStayInside(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	strange := []float64{0, -5, math.NaN(), math.Inf(1), math.Inf(-1), 1e-300, 1e300}
	value := func() float64 {
		if random.IntN(6) == 0 {
			return strange[random.IntN(len(strange))]
		}
		return math.Exp(20*random.Float64() - 5)
	}
	for range 300 {
		chart := Chart{Name: "x", Title: "x", XLog: random.IntN(2) == 0, YLog: random.IntN(2) == 0, XFormat: countTick, YFormat: countTick}
		for range random.IntN(12) {
			line := Line{Name: "l"}
			for range random.IntN(8) {
				line.X, line.Y = append(line.X, value()), append(line.Y, value())
			}
			chart.Lines = append(chart.Lines, line)
		}
		var drawn bytes.Buffer
		if err := chart.WriteSVG(&drawn); err != nil {
			t.Fatal(err)
		}
		checkXML(t, "a strange chart", drawn.Bytes())
		if strings.Contains(drawn.String(), "NaN") || strings.Contains(drawn.String(), "Inf") {
			t.Fatalf("%s", drawn.String())
		}
		x, y := chart.scales()
		yTicks, xTicks := y.niceTicks(countTick), x.niceTicks(countTick)
		if len(yTicks) > 12 || len(xTicks) > 12 {
			t.Fatalf("%d and %d ticks", len(xTicks), len(yTicks))
		}
		for _, line := range chart.Lines {
			for i := range line.X {
				if !x.drawable(line.X[i]) || !y.drawable(line.Y[i]) {
					continue
				}
				if px, py := x.at(line.X[i]), y.at(line.Y[i]); px < 0 || px > chartWidth || py < marginTop-1 || py > marginTop+plotHeight+1 {
					t.Fatalf("%v, %v is drawn at %v, %v", line.X[i], line.Y[i], px, py)
				}
			}
		}
	}
}

func TestNiceStep(t *testing.T) {
	t.Parallel()
	for value, want := range map[float64]float64{1: 1, 1.1: 2, 2: 2, 3: 5, 7: 10, 0.3: 0.5, 140: 200} {
		if got := niceStep(value); math.Abs(got-want) > 1e-9 {
			t.Errorf("%v: %v, want %v", value, got, want)
		}
	}
}
