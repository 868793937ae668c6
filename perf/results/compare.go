package results

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/basaltmq/basaltmq/perf/stats"
)

// confidence of the intervals of a comparison, and 1 minus the probability
// below which a difference is called one.
const confidence = 0.95

// Run is one recorded result as a list of figures.
type Run struct {
	Name    string // of its file, without date, commit and number of the run
	Head    Head
	Figures []Figure
}

// Comparison is two sets of runs, figure by figure.
//
// The test is that of Mann and Whitney and the interval the one that belongs
// to it, both exact. They fit recorded runs: few of them, not normally
// distributed, and not paired, since the files of two sides were not made in
// turn. (The gate makes its runs in pairs and uses the test for those.)
type Comparison struct {
	Scenario   string   `json:"scenario"`
	A          string   `json:"a"`
	B          string   `json:"b"`
	Confidence float64  `json:"confidence"`
	Paired     bool     `json:"paired,omitempty"` // run i of A was made right beside run i of B
	Warnings   []string `json:"warnings,omitempty"`
	Rows       []Row    `json:"rows"`
	OnlyA      []string `json:"only_in_a,omitempty"`
	OnlyB      []string `json:"only_in_b,omitempty"`
}

// Row is a figure that both sides have. Ratio is B by A: the median of all
// ratios of a run of B to a run of A, and its interval.
type Row struct {
	Result  string    `json:"result"`
	Figure  string    `json:"figure"`
	Unit    string    `json:"unit"`
	Better  string    `json:"better"`
	A       []float64 `json:"a"`
	B       []float64 `json:"b"`
	MedianA float64   `json:"median_a"`
	MedianB float64   `json:"median_b"`
	Ratio   float64   `json:"ratio"`
	Low     float64   `json:"ratio_low"`
	High    float64   `json:"ratio_high"`
	P       float64   `json:"p"`
	Verdict string    `json:"verdict"`
}

// Verdicts of a [Row].
const (
	VerdictBetter = "better"
	VerdictWorse  = "worse"
	VerdictSame   = "~"            // no difference beyond what chance explains
	VerdictFew    = "too few runs" // even a large difference could be chance
	VerdictNone   = "not a ratio"  // a figure that is 0 or below, or in a pair only once
	fewestOneSide = 4              // below, not even samples apart are significant
)

// ReadRuns reads recorded results: files, directories with all their *.json
// files, and what several files' names begin with. What must not be shown is
// refused.
func ReadRuns(paths ...string) (runs []Run, err error) {
	for _, path := range paths {
		files := []string{path}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			files, err = filepath.Glob(path + "*.json")
		case info.IsDir():
			files, err = filepath.Glob(filepath.Join(path, "*.json"))
		}
		if err != nil {
			return nil, fmt.Errorf("can't list the results: %w", err)
		}
		slices.Sort(files)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("can't read a result: %w", err)
			}
			run, err := ParseRun(filepath.Base(file), raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			runs = append(runs, run)
		}
	}
	if len(runs) == 0 {
		return nil, fmt.Errorf("no results in %v", paths)
	}
	return runs, nil
}

// ParseRun reads the figures of one result; what must not be shown is refused.
func ParseRun(fileName string, raw []byte) (Run, error) {
	var run Run
	if err := json.Unmarshal(raw, &run.Head); err != nil {
		return run, fmt.Errorf("not a result: %w", err)
	}
	if err := run.Head.check(); err != nil {
		return run, err
	}
	if parts := resultName.FindStringSubmatch(fileName); parts != nil {
		run.Name = parts[2]
	}
	var err error
	run.Figures, err = FlattenFigures(raw)
	return run, err
}

// figureKey is what has to agree for two figures to be the same.
type figureKey struct{ result, figure string }

type sample struct {
	Figure
	values []float64
}

// collect gathers the values of each figure over runs, in the order of their
// first appearance. Of single files the names don't matter: there is only one
// thing to compare.
func collect(runs []Run, single bool) (keys []figureKey, samples map[figureKey]*sample) {
	samples = make(map[figureKey]*sample)
	for _, run := range runs {
		for _, figure := range run.Figures {
			key := figureKey{run.Name, figure.Name}
			if single {
				key.result = run.Head.Scenario
			}
			s := samples[key]
			if s == nil {
				s = &sample{Figure: figure}
				samples[key] = s
				keys = append(keys, key)
			}
			s.values = append(s.values, figure.Value)
		}
	}
	return keys, samples
}

// Compare sets the runs of b against those of a.
func Compare(labelA string, a []Run, labelB string, b []Run) *Comparison {
	c := &Comparison{Scenario: "compare", A: labelA, B: labelB, Confidence: confidence, Warnings: environmentWarnings(a, b)}
	names := func(runs []Run) int {
		distinct := map[string]bool{}
		for _, run := range runs {
			distinct[run.Name] = true
		}
		return len(distinct)
	}
	single := names(a) == 1 && names(b) == 1 && a[0].Head.Scenario == b[0].Head.Scenario
	keysA, samplesA := collect(a, single)
	keysB, samplesB := collect(b, single)
	for _, key := range keysA {
		if sampleB := samplesB[key]; sampleB != nil {
			if allZero(samplesA[key].values) && allZero(sampleB.values) {
				continue // a confirm rate without confirms
			}
			c.Rows = append(c.Rows, newRow(key, samplesA[key], sampleB))
		} else {
			c.OnlyA = append(c.OnlyA, key.result+": "+key.figure)
		}
	}
	for _, key := range keysB {
		if samplesA[key] == nil {
			c.OnlyB = append(c.OnlyB, key.result+": "+key.figure)
		}
	}
	return c
}

func allZero(values []float64) bool {
	return !slices.ContainsFunc(values, func(value float64) bool { return value != 0 })
}

func newRow(key figureKey, a, b *sample) Row {
	row := Row{
		Result: key.result, Figure: key.figure, Unit: a.Unit, Better: a.Better, A: a.values, B: b.values,
		MedianA: stats.Median(a.values), MedianB: stats.Median(b.values), P: stats.MannWhitney(a.values, b.values),
	}
	row.Ratio = stats.Ratio(row.MedianB, row.MedianA)
	row.Low, row.High = row.Ratio, row.Ratio
	logsA, okA := stats.Logs(a.values)
	logsB, okB := stats.Logs(b.values)
	if !okA || !okB {
		row.Verdict = VerdictNone
		return row
	}
	interval := stats.ShiftInterval(logsA, logsB, confidence).Exp()
	row.Ratio, row.Low, row.High = interval.Middle, interval.Low, interval.High
	row.judge(min(len(a.values), len(b.values)) < fewestOneSide)
	return row
}

// judge says what the probability and the ratio mean.
func (row *Row) judge(few bool) {
	switch {
	case few:
		row.Verdict = VerdictFew
	case row.P >= 1-confidence:
		row.Verdict = VerdictSame
	case (row.Ratio > 1) == (row.Better == More):
		row.Verdict = VerdictBetter
	default:
		row.Verdict = VerdictWorse
	}
}

// environmentWarnings says where figures of the two sides come from machines
// or settings that differ.
func environmentWarnings(a, b []Run) (warnings []string) {
	describe := func(runs []Run, get func(Environment) string) string {
		values := make([]string, len(runs))
		for i, run := range runs {
			values[i] = cmp.Or(get(run.Head.Environment), "unknown")
		}
		slices.Sort(values)
		return fmt.Sprint(slices.Compact(values))
	}
	for _, part := range []struct {
		name string
		get  func(Environment) string
	}{
		{"CPU", func(e Environment) string { return fmt.Sprintf("%s, %d hardware threads", e.CPU.Model, e.CPU.Cores) }},
		{"kernel", func(e Environment) string { return e.Kernel + " " + e.GOARCH }},
		{"filesystem", func(e Environment) string { return e.Filesystem }},
		{"I/O backend", func(e Environment) string { return e.IOBackend }},
		{"durability", func(e Environment) string { return e.Durability }},
	} {
		if inA, inB := describe(a, part.get), describe(b, part.get); inA != inB {
			warnings = append(warnings, fmt.Sprintf("%s differs: %s and %s; absolute values can't be compared, fractions with care", part.name, inA, inB))
		}
	}
	return warnings
}
