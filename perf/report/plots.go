package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/stats"
)

// Plots returns the plots that the results have figures for.
func Plots(recorded []*results.Recorded) []Chart {
	rates, bytesRates := throughputBySize(recorded)
	charts := []Chart{rates, bytesRates, latencyPercentiles(recorded), memoryOverTime(recorded)}
	return slices.DeleteFunc(charts, Chart.empty)
}

// label names the line of a result: the release and the broker.
func label(r *results.Recorded) string {
	broker := strings.TrimSpace(r.Head.Versions.BrokerProduct + " " + r.Head.Versions.BrokerVersion)
	return strings.TrimSpace(cmp.Or(r.Release, r.Head.Environment.Time.Format("2006-01-02")) + " " + broker)
}

// suiteSize finds the size of an end-to-end figure of the suite.
var suiteSize = regexp.MustCompile(`^end-to-end-(\d+)(Ki|Mi)?B$`)

// isEndToEnd: one publisher, one consumer, auto-ack, as fast as it goes.
func isEndToEnd(o *results.ThroughputLoad) bool {
	return o.Publishers == 1 && o.Consumers == 1 && o.AckEvery == 0 && o.ConfirmWindow == 0 && o.TxPublishes == 0 &&
		o.PublishRate == 0 && o.ConsumeRate == 0 && !o.Poll
}

// throughputBySize gathers the end-to-end rates of each release by body size,
// medians of the runs.
func throughputBySize(recorded []*results.Recorded) (rates, bytesRates Chart) {
	bySize := map[string]map[float64][]float64{}
	var labels []string
	add := func(r *results.Recorded, size, rate float64) {
		name := label(r)
		if bySize[name] == nil {
			bySize[name] = map[float64][]float64{}
			labels = append(labels, name)
		}
		bySize[name][size] = append(bySize[name][size], rate)
	}
	for _, r := range recorded {
		switch {
		case r.Throughput != nil && isEndToEnd(r.Throughput.Options):
			add(r, float64(r.Throughput.Options.Size), r.Throughput.ConsumedPerSecond)
		case r.Suite != nil:
			for _, figure := range r.Suite.Figures {
				if parts := suiteSize.FindStringSubmatch(figure.Name); parts != nil {
					if size, err := cli.ParseQuantity(parts[1] + parts[2]); err == nil {
						add(r, float64(size), figure.Value)
					}
				}
			}
		}
	}
	chart := Chart{XTitle: "body, bytes", XLog: true, YLog: true, XFormat: bytesTick}
	rates, bytesRates = chart, chart
	rates.Name, rates.Title = "throughput-by-size", "End to end: messages a second by message size"
	rates.YTitle, rates.YFormat = "messages/s", countTick
	bytesRates.Name, bytesRates.Title = "bytes-by-size", "End to end: body bytes a second by message size"
	bytesRates.YTitle, bytesRates.YFormat = "bytes/s", countTick
	sizes := map[float64]bool{}
	for _, name := range labels {
		line, bytesLine := Line{Name: name}, Line{Name: name}
		for _, size := range sortedKeys(bySize[name]) {
			rate := stats.Median(bySize[name][size])
			line.X, line.Y = append(line.X, size), append(line.Y, rate)
			bytesLine.X, bytesLine.Y = append(bytesLine.X, size), append(bytesLine.Y, rate*size)
			sizes[size] = true
		}
		rates.Lines, bytesRates.Lines = append(rates.Lines, line), append(bytesRates.Lines, bytesLine)
	}
	for _, size := range sortedKeys(sizes) {
		if size > 0 {
			rates.XTicks = append(rates.XTicks, tick{size, bytesTick(size)})
		}
	}
	bytesRates.XTicks = rates.XTicks
	return rates, bytesRates
}

func sortedKeys[V any](m map[float64]V) []float64 {
	keys := make([]float64, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// percentiles in their order on the axis, evenly spaced: the tail is what
// matters.
var percentiles = []struct {
	name string
	get  func(*results.Latency) float64
}{
	{"50", func(l *results.Latency) float64 { return l.P50 }},
	{"75", func(l *results.Latency) float64 { return l.P75 }},
	{"90", func(l *results.Latency) float64 { return l.P90 }},
	{"95", func(l *results.Latency) float64 { return l.P95 }},
	{"99", func(l *results.Latency) float64 { return l.P99 }},
	{"99.9", func(l *results.Latency) float64 { return l.P999 }},
	{"99.99", func(l *results.Latency) float64 { return l.P9999 }},
	{"max", func(l *results.Latency) float64 { return l.Max }},
}

// suitePercentile finds the percentiles of the suite's latency section.
var suitePercentile = regexp.MustCompile(`^(latency-.*)-p([0-9.]+)$`)

func latencyPercentiles(recorded []*results.Recorded) Chart {
	chart := Chart{
		Name: "latency", Title: "Latency from the intended send time, open loop", XTitle: "percentile", YTitle: "latency",
		YLog: true, YFormat: microsecondsTick,
	}
	for i, p := range percentiles {
		chart.XTicks = append(chart.XTicks, tick{float64(i), p.name})
	}
	groups := map[string][]*results.Latency{}
	var names []string
	for _, r := range recorded {
		if r.Throughput != nil && r.Throughput.Latency != nil {
			name := label(r) + ", " + r.Name
			if groups[name] == nil {
				names = append(names, name)
			}
			groups[name] = append(groups[name], r.Throughput.Latency)
		}
		if r.Latencies != nil {
			for _, row := range r.Latencies.Rows {
				if row.Latency == nil {
					continue
				}
				name := fmt.Sprintf("%s, %s, %s/s", label(r), r.Name, results.HumanCount(row.Rate))
				if groups[name] == nil {
					names = append(names, name)
				}
				groups[name] = append(groups[name], row.Latency)
			}
		}
	}
	for _, name := range names {
		line := Line{Name: name}
		for i, p := range percentiles {
			var values []float64
			for _, latency := range groups[name] {
				values = append(values, p.get(latency))
			}
			line.X, line.Y = append(line.X, float64(i)), append(line.Y, stats.Median(values))
		}
		chart.Lines = append(chart.Lines, line)
	}
	for _, r := range recorded {
		if r.Suite != nil {
			chart.Lines = append(chart.Lines, suiteLatency(r)...)
		}
	}
	return chart
}

// suiteLatency makes lines of the percentiles that a suite has.
func suiteLatency(r *results.Recorded) (lines []Line) {
	for _, figure := range r.Suite.Figures {
		parts := suitePercentile.FindStringSubmatch(figure.Name)
		if parts == nil {
			continue
		}
		name := label(r) + ", " + r.Name + ", " + parts[1]
		at := slices.IndexFunc(lines, func(line Line) bool { return line.Name == name })
		if at < 0 {
			lines, at = append(lines, Line{Name: name}), len(lines)
		}
		for i, p := range percentiles {
			if p.name == parts[2] {
				lines[at].X, lines[at].Y = append(lines[at].X, float64(i)), append(lines[at].Y, figure.Value)
			}
		}
	}
	return lines
}

func memoryOverTime(recorded []*results.Recorded) Chart {
	chart := Chart{
		Name: "rss", Title: "The broker's resident memory over time", XTitle: "seconds since the load began", YTitle: "VmRSS",
		XFormat: countTick, YFormat: bytesTick, YBinary: true,
	}
	for _, r := range recorded {
		switch {
		case r.Backlog != nil:
			for _, phase := range []struct {
				name string
				*results.BacklogPhase
			}{{"filling", r.Backlog.Fill}, {"draining", r.Backlog.Drain}} {
				if len(phase.Samples) < 2 {
					continue
				}
				line := Line{Name: fmt.Sprintf("%s, %s, %s", label(r), r.Name, phase.name)}
				for i, sample := range phase.Samples {
					line.X = append(line.X, phase.Seconds*float64(i)/float64(len(phase.Samples)-1))
					line.Y = append(line.Y, float64(sample))
				}
				chart.Lines = append(chart.Lines, line)
			}
		case r.Suite != nil:
			for _, series := range r.Suite.Series {
				if len(series.Values) < 2 || series.Unit != "bytes" {
					continue
				}
				line := Line{Name: fmt.Sprintf("%s, %s, %s", label(r), r.Name, series.Section), Y: series.Values}
				for _, at := range series.Seconds {
					line.X = append(line.X, at-series.Seconds[0])
				}
				chart.Lines = append(chart.Lines, line)
			}
		}
	}
	return chart
}
