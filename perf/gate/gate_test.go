package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/suite"
)

// machine makes figures as a small, noisy machine does: every run is off by
// some percent, it gets slower and faster over minutes, and now and then a
// neighbour takes half of it.
type machine struct {
	random *rand.Rand
	noise  float64 // of a run, in logarithms
	runs   int
}

// figures of a broker that is slower and larger by these factors.
func (m *machine) figures(cpu, memory, written float64) map[string]float64 {
	m.runs++
	drift := 0.15 * math.Sin(float64(m.runs)/9)
	slow := math.Exp(m.noise*m.random.NormFloat64() + drift)
	if m.random.IntN(12) == 0 {
		slow *= 1 + m.random.Float64()
	}
	small := func() float64 { return math.Exp(0.01 * m.random.NormFloat64()) }
	const mib = 1 << 20
	return map[string]float64{
		"throughput-fraction": 0.55 / cpu / slow, "cpu-per-message": 60 * cpu * slow, "cpu-of-relay": 1.5 * cpu * slow,
		"rss-admin": 0.2 * mib * memory * small(), "rss-admin-tls": 0.3 * mib * memory * small(),
		"rss-idle": 6 * mib * memory * small(), "rss-1000-queues": 9 * mib * memory * small(),
		"rss-1000-connections": 12 * mib * memory * small(), "rss-backlog": 10 * mib * memory * small(),
		"written-bulk": written * small(), "written-confirmed": 8 * written * small(),
	}
}

// syntheticGate is a gate whose turns take ten seconds of a clock of its own.
func syntheticGate(seed uint64, noise float64, candidate func(*machine) map[string]float64) *gateRun {
	m := &machine{random: rand.New(rand.NewPCG(seed, 7)), noise: noise}
	clock := time.Unix(0, 0)
	a, b := &side{launcher: &suite.Launcher{Binary: "a"}}, &side{launcher: &suite.Launcher{Binary: "b"}}
	return &gateRun{
		rules: DefaultRules, baseline: a, candidate: b, budget: 6 * time.Minute, now: func() time.Time { return clock },
		sample: func(_ context.Context, l *suite.Launcher) (map[string]float64, *results.Suite, error) {
			clock = clock.Add(10 * time.Second)
			if l == b.launcher {
				return candidate(m), &results.Suite{}, nil
			}
			return m.figures(1, 1, 1), &results.Suite{}, nil
		},
	}
}

func same(m *machine) map[string]float64 { return m.figures(1, 1, 1) }

func mustRun(t *testing.T, g *gateRun) *Result {
	t.Helper()
	result, err := g.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// A broker against itself passes, on a quiet and on a noisy machine, in time.
func TestGatePassesTheSame(t *testing.T) {
	t.Parallel()
	const gates = 200
	for _, noise := range []float64{0.02, 0.08} {
		failed := 0
		for seed := range uint64(gates) {
			result := mustRun(t, syntheticGate(seed, noise, same))
			if !result.Passed {
				failed++
				t.Logf("noise %.2f, seed %d: %s", noise, seed, result.Verdict)
			}
			if result.Seconds > 6*60 {
				t.Errorf("seed %d took %.0f s", seed, result.Seconds)
			}
		}
		if failed > gates*2/100 {
			t.Errorf("noise %.2f: %d of %d gates failed", noise, failed, gates)
		}
	}
}

// One that lost a quarter fails on both, and says what was lost.
func TestGateFailsTheWorse(t *testing.T) {
	t.Parallel()
	const gates = 100
	for what, candidate := range map[string]func(*machine) map[string]float64{
		"cpu-per-message": func(m *machine) map[string]float64 { return m.figures(1.3, 1, 1) },
		"rss-idle":        func(m *machine) map[string]float64 { return m.figures(1, 1.25, 1) },
		"written-bulk":    func(m *machine) map[string]float64 { return m.figures(1, 1, 1.25) },
	} {
		for _, noise := range []float64{0.02, 0.08} {
			passed, named := 0, 0
			for seed := range uint64(gates) {
				result := mustRun(t, syntheticGate(seed, noise, candidate))
				if result.Passed {
					passed++
				}
				if strings.HasPrefix(result.Verdict, "FAIL") && strings.Contains(result.Verdict, what) {
					named++
				}
			}
			if passed > gates*2/100 || named < gates*95/100 {
				t.Errorf("%s, noise %.2f: %d of %d gates passed, %d named it", what, noise, passed, gates, named)
			}
		}
	}
}

// What is above its ceiling fails, though the baseline is no better.
func TestGateHoldsCeilings(t *testing.T) {
	t.Parallel()
	g := syntheticGate(1, 0.01, same)
	g.rules.Figures = slices.Clone(g.rules.Figures)
	for i := range g.rules.Figures {
		if g.rules.Figures[i].Figure == "rss-idle" {
			g.rules.Figures[i].Ceiling = 3 << 20
		}
	}
	if result := mustRun(t, g); result.Passed || !strings.Contains(result.Verdict, "at most 3.0 MiB") {
		t.Error(result.Verdict)
	}
}

// A loss that is certain but too small to matter passes.
func TestGateToleratesLittle(t *testing.T) {
	t.Parallel()
	result := mustRun(t, syntheticGate(1, 0.001, func(m *machine) map[string]float64 { return m.figures(1, 1.02, 1.02) }))
	if !result.Passed {
		t.Error(result.Verdict)
	}
}

// A machine on which nothing can be seen is no pass.
func TestGateIsNotFooledByNoise(t *testing.T) {
	t.Parallel()
	result := mustRun(t, syntheticGate(1, 0.9, same))
	if result.Passed || !strings.Contains(result.Verdict, "too noisy") {
		t.Error(result.Verdict)
	}
}

// Nor is too short a look.
func TestGateTakesItsTime(t *testing.T) {
	t.Parallel()
	g := syntheticGate(1, 0.01, same)
	g.budget = time.Minute
	if result := mustRun(t, g); result.Passed || !strings.Contains(result.Verdict, "there was time for 2 pairs only, of 8") {
		t.Error(result.Verdict)
	}
}

// Pairs are those of ABBA.
func TestGateOrder(t *testing.T) {
	t.Parallel()
	g := syntheticGate(1, 0.01, same)
	var order strings.Builder
	inner := g.sample
	g.sample = func(ctx context.Context, l *suite.Launcher) (map[string]float64, *results.Suite, error) {
		order.WriteString(l.Binary)
		return inner(ctx, l)
	}
	result := mustRun(t, g)
	if want := strings.Repeat("abba", result.Runs/2); order.String() != want || result.Runs < DefaultRules.PairsAtLeast {
		t.Errorf("%s, %d pairs", order.String(), result.Runs)
	}
}

func TestGateEndsEarly(t *testing.T) {
	t.Parallel()
	g := syntheticGate(1, 0.01, same)
	g.sample = func(context.Context, *suite.Launcher) (map[string]float64, *results.Suite, error) {
		return nil, nil, errors.New("it did not start")
	}
	if _, err := g.run(t.Context()); err == nil || err.Error() != "baseline: it did not start" {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	g = syntheticGate(1, 0.01, same)
	g.sample = func(ctx context.Context, _ *suite.Launcher) (map[string]float64, *results.Suite, error) {
		cancel()
		return nil, nil, ctx.Err()
	}
	result, err := g.run(ctx)
	if err != nil || result.Passed || !strings.Contains(result.Verdict, "interrupted") {
		t.Errorf("%+v, %v", result, err)
	}
}

// Not parallel: it sets what checks signatures.
func TestGateAgainstRecorded(t *testing.T) {
	record := syntheticGate(1, 0.02, same)
	record.baseline = nil
	recorded := mustRun(t, record)
	if !recorded.Passed || !strings.HasPrefix(recorded.Verdict, "recorded: ") || len(recorded.Figures) == 0 {
		t.Fatalf("%+v", recorded)
	}
	recorded.Environment = results.ReadEnvironment(results.Record{})
	file := filepath.Join(t.TempDir(), "baseline.json")
	write := func() {
		if err := results.WriteFile(file, recorded); err != nil {
			t.Fatal(err)
		}
	}
	write()
	against := func(candidate func(*machine) map[string]float64) (*Result, error) {
		g := syntheticGate(2, 0.02, candidate)
		g.baseline, g.recorded = nil, file
		return g.run(t.Context())
	}
	if _, err := against(same); err == nil || !strings.Contains(err.Error(), "not trusted") {
		t.Errorf("without anyone to check signatures: %v", err)
	}
	verify := results.Verify
	t.Cleanup(func() { results.Verify = verify })
	results.Verify = func(string) error { return errors.New("the signature is not of this content") }
	if _, err := against(same); err == nil || !strings.Contains(err.Error(), "the signature is not of this content") {
		t.Errorf("a bad signature: %v", err)
	}
	results.Verify = func(string) error { return nil }
	result, err := against(same)
	if err != nil || !result.Passed || result.Paired {
		t.Errorf("the same: %+v, %v", result, err)
	}
	for _, figure := range result.Figures {
		if !figure.Recorded {
			t.Errorf("%s means nothing on another day", figure.Figure)
		}
	}
	result, err = against(func(m *machine) map[string]float64 { return m.figures(1, 1.3, 1) })
	if err != nil || result.Passed || !strings.Contains(result.Verdict, "rss-idle") {
		t.Errorf("30 %% more memory: %+v, %v", result, err)
	}
	recorded.Environment.CPU.Cores += 2
	write()
	if _, err := against(same); err == nil || !strings.Contains(err.Error(), "record one here") {
		t.Errorf("another machine: %v", err)
	}
	recorded.Scenario = "suite"
	write()
	if _, err := against(same); err == nil || !strings.Contains(err.Error(), "is no baseline") {
		t.Errorf("another scenario: %v", err)
	}
}

func TestRulesAreComplete(t *testing.T) {
	t.Parallel()
	figures := (&machine{random: rand.New(rand.NewPCG(1, 1))}).figures(1, 1, 1)
	for _, threshold := range DefaultRules.Figures {
		if _, known := figures[threshold.Figure]; !known || threshold.Limit <= 0 || threshold.Exclude <= threshold.Limit ||
			threshold.Better != results.More && threshold.Better != results.Less || threshold.What == "" {
			t.Errorf("%+v", threshold)
		}
	}
	// The fewest pairs must be able to fail.
	if least := math.Pow(0.5, float64(DefaultRules.PairsAtLeast)); least > DefaultRules.Alpha {
		t.Errorf("%d pairs can't be below %v", DefaultRules.PairsAtLeast, DefaultRules.Alpha)
	}
}

func TestLosses(t *testing.T) {
	t.Parallel()
	more, less := Threshold{Better: results.More}, Threshold{Better: results.Less, Floor: 10}
	for _, test := range []struct {
		threshold Threshold
		a, b      float64
		want      float64
	}{
		{more, 100, 80, 0.2}, {more, 100, 125, -0.25}, {less, 100, 125, 0.25}, {less, 100, 109, 0}, {less, 0, 0, 0}, {less, 0, 5, 0}, {less, 0, 20, 1},
	} {
		if got := test.threshold.fraction(test.threshold.loss(test.a, test.b)); math.Abs(got-test.want) > 1e-9 {
			t.Errorf("%v to %v: %v, want %v", test.a, test.b, got, test.want)
		}
		if bound := test.threshold.fraction(test.threshold.bound(0.2)); math.Abs(bound-0.2) > 1e-9 {
			t.Errorf("a bound of 0.2 is %v", bound)
		}
	}
}

func TestVerdictText(t *testing.T) {
	t.Parallel()
	g := syntheticGate(3, 0.02, func(m *machine) map[string]float64 { return m.figures(1.5, 1, 1) })
	result := mustRun(t, g)
	var out bytes.Buffer
	result.WriteText(&out)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "gate: FAIL: worse: throughput-fraction lost 3") || !strings.Contains(last, "limit 10 %") {
		t.Error(last)
	}
	if !strings.Contains(out.String(), fmt.Sprintf("%-22s", "rss-idle")) {
		t.Error(out.String())
	}
}

// A figure that has only a ceiling is of the candidate alone.
func TestGateHoldsCeilingsAlone(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		factor float64
		passed bool
	}{{1, true}, {20, false}} {
		g := syntheticGate(1, 0.01, func(m *machine) map[string]float64 {
			figures := m.figures(1, 1, 1)
			figures[rssAdmin] *= test.factor
			return figures
		})
		inner, baseline := g.sample, g.baseline.launcher
		g.sample = func(ctx context.Context, l *suite.Launcher) (map[string]float64, *results.Suite, error) {
			values, result, err := inner(ctx, l)
			if l == baseline {
				delete(values, rssAdmin)
				delete(values, rssAdminTLS)
			}
			return values, result, err
		}
		result := mustRun(t, g)
		if result.Passed != test.passed || !test.passed && !strings.Contains(result.Verdict, "rss-admin is 4.0 MiB, at most 3.0 MiB") {
			t.Error(result.Verdict)
		}
		var out bytes.Buffer
		result.WriteText(&out)
		if !strings.Contains(out.String(), "at most 3.0 MiB") {
			t.Error(out.String())
		}
	}
}
