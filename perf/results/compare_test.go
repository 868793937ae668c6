package results

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update writes the golden files anew: go test ./perf/results -update.
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

// recordRuns writes runs of a throughput with these rates.
func recordRuns(t *testing.T, release string, rates ...float64) string {
	t.Helper()
	files := map[string]any{}
	for i, rate := range rates {
		files[fmt.Sprintf("%s-end-to-end-run%d.json", release, i+1)] = testThroughput(rate)
	}
	return writeResults(t, files)
}

func compareDirectories(t *testing.T, a, b string) *Comparison {
	t.Helper()
	runsA, err := ReadRuns(a)
	if err != nil {
		t.Fatal(err)
	}
	runsB, err := ReadRuns(b)
	if err != nil {
		t.Fatal(err)
	}
	return Compare("A", runsA, "B", runsB)
}

func findRow(t *testing.T, c *Comparison, figure string) Row {
	t.Helper()
	for _, row := range c.Rows {
		if row.Figure == figure {
			return row
		}
	}
	t.Fatalf("no row %s in %+v", figure, c.Rows)
	return Row{}
}

func TestCompareText(t *testing.T) {
	t.Parallel()
	a := recordRuns(t, "2026-05-01-aaaa", 1000000, 1100000, 1050000, 1020000, 1080000)
	b := recordRuns(t, "2026-05-02-bbbb", 1300000, 1210000, 1250000, 1230000, 1290000)
	extra := testConfirm(1)
	extra.Environment.Durability = "os"
	if err := WriteFile(filepath.Join(b, "2026-05-02-bbbb-confirm.json"), extra); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	compareDirectories(t, a, b).WriteText(&out)
	golden(t, "compare.txt", out.Bytes())
}

func TestCompareVerdicts(t *testing.T) {
	t.Parallel()
	const figure = "consumed_per_s"
	for _, test := range []struct {
		a, b []float64
		want string
	}{
		{[]float64{100, 101, 102, 103, 104}, []float64{110, 111, 112, 113, 114}, VerdictBetter},
		{[]float64{110, 111, 112, 113, 114}, []float64{100, 101, 102, 103, 104}, VerdictWorse},
		{[]float64{100, 110, 120, 130, 140}, []float64{101, 111, 119, 129, 141}, VerdictSame},
		{[]float64{100, 101, 102}, []float64{200, 201, 202}, VerdictFew},
		{[]float64{0, 1, 2, 3}, []float64{4, 5, 6, 7}, VerdictNone},
	} {
		c := compareDirectories(t, recordRuns(t, "2026-05-01-a", test.a...), recordRuns(t, "2026-05-02-b", test.b...))
		if row := findRow(t, c, figure); row.Verdict != test.want {
			t.Errorf("%v against %v: %+v, want %s", test.a, test.b, row, test.want)
		}
	}
	// CPU is better when it is less.
	c := compareDirectories(t, recordRuns(t, "2026-05-01-a", 1, 2, 3, 4), recordRuns(t, "2026-05-02-b", 5, 6, 7, 8))
	if row := findRow(t, c, "broker_cpu_ns_per_message"); row.Better != Less || row.Ratio != 1 || row.Verdict != VerdictSame {
		t.Errorf("%+v", row)
	}
}

// Two single files are compared whatever they are called; files whose names
// begin alike are found.
func TestCompareFiles(t *testing.T) {
	t.Parallel()
	dir := writeResults(t, map[string]any{"before.json": testThroughput(100), "after.json": testThroughput(150)})
	a, err := ReadRuns(filepath.Join(dir, "before.json"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := ReadRuns(filepath.Join(dir, "aft"))
	if err != nil {
		t.Fatal(err)
	}
	c := Compare("a", a, "b", b)
	if row := findRow(t, c, "consumed_per_s"); math.Abs(row.Ratio-1.5) > 1e-9 || len(c.OnlyA)+len(c.OnlyB)+len(c.Warnings) != 0 {
		t.Errorf("%+v %+v", row, c)
	}
	if _, err := ReadRuns(filepath.Join(dir, "none")); err == nil {
		t.Error("nothing was read without an error")
	}
	bad := testThroughput(1)
	bad.Interrupted = true
	if _, err := ReadRuns(writeResults(t, map[string]any{"bad.json": bad})); err == nil || !strings.Contains(err.Error(), "bad.json") {
		t.Errorf("a partial result: %v", err)
	}
	other := testThroughput(1)
	other.Environment.CPU.Model = "Another CPU"
	runs, err := ReadRuns(writeResults(t, map[string]any{"x.json": other}))
	if err != nil {
		t.Fatal(err)
	}
	if w := Compare("a", a, "b", runs).Warnings; len(w) != 1 || !strings.Contains(w[0], "Another CPU") {
		t.Errorf("%q", w)
	}
}

func TestFlattenFigures(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(testConfirm(100))
	if err != nil {
		t.Fatal(err)
	}
	figures, err := FlattenFigures(raw)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, figure := range figures {
		names = append(names, figure.Name)
	}
	text := strings.Join(names, "\n")
	for _, want := range []string{
		"rows.queues=1,window=10000,channels=1,connections=0.confirmed_per_s", "rows.queues=100,window=100,channels=100,connections=0.latency.p50_us",
		"rows.queues=1,window=10000,channels=1,connections=0.raw_append.rate_ratio",
		"rows.queues=1,window=100,channels=100,connections=0.confirmed_per_s", "rows.queues=100,window=100,channels=100,connections=0.of_one_queue_same_channels",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is missing of:\n%s", want, text)
		}
	}
	for _, not := range []string{"min_us", "options", "before.syncs_per_s", "environment"} {
		if strings.Contains(text, not) {
			t.Errorf("%s is no figure:\n%s", not, text)
		}
	}
}

func FuzzFlattenFigures(f *testing.F) {
	for _, result := range []any{testThroughput(1), testConfirm(1), testBacklog(), testCalibrate(), testSuite()} {
		raw, err := json.Marshal(result)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(_ *testing.T, raw []byte) {
		if run, err := ParseRun("x-run1.json", raw); err == nil {
			Compare("a", []Run{run, run}, "b", []Run{run}).WriteText(&bytes.Buffer{})
		}
	})
}
