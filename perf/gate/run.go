package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/suite"
)

// side is one of the two that take turns.
type side struct {
	launcher *suite.Launcher
	values   map[string][]float64
	version  string
}

// sampler measures a broker once. It is [sample], except in tests.
type sampler func(ctx context.Context, launcher *suite.Launcher) (map[string]float64, *results.Suite, error)

// gateRun is one run of the gate.
type gateRun struct {
	rules               Rules
	baseline, candidate *side  // baseline is nil with a recorded one
	recorded            string // the file of one
	budget              time.Duration
	sample              sampler
	progress            io.Writer
	now                 func() time.Time

	began       time.Time
	environment results.Environment
	versions    results.Versions
}

// abba is the order of the turns of two pairs; true is the candidate's.
var abba = []bool{false, true, true, false}

// run takes turns until everything is decided or the time is over.
func (g *gateRun) run(ctx context.Context) (*Result, error) {
	g.began = g.now()
	result := &Result{Paired: g.baseline != nil}
	result.Scenario = "gate"
	baselineValues := map[string][]float64{}
	if g.recorded != "" {
		recorded, err := readBaseline(g.recorded)
		if err != nil {
			return nil, err
		}
		result.Baseline = fmt.Sprintf("%s, recorded in %s", recorded.Candidate, g.recorded)
		for _, figure := range recorded.Figures {
			baselineValues[figure.Figure] = figure.Candidate
		}
		if err := g.comparable(recorded); err != nil {
			return nil, err
		}
	}
	g.rules = g.rules.For(!result.Paired)
	result.Rules = g.rules
	for {
		roundBegan := g.now()
		err := g.round(ctx)
		if ctx.Err() != nil {
			result.Interrupted = true
			break
		}
		if err != nil {
			return nil, err
		}
		result.Runs = len(g.candidate.values[g.rules.Figures[0].Figure])
		if g.baseline != nil {
			baselineValues = g.baseline.values
		}
		samples := map[string]Samples{}
		for _, t := range g.rules.Figures {
			samples[t.Figure] = Samples{Baseline: baselineValues[t.Figure], Candidate: g.candidate.values[t.Figure]}
		}
		result.Figures = g.rules.Decide(samples, result.Paired)
		now := g.now()
		enough := result.Runs >= g.rules.PairsAtLeast && (g.recordOnly() || count(result.Figures, Unclear) == 0)
		full := result.Runs >= g.rules.PairsAtMost
		late := now.Add(now.Sub(roundBegan)).After(g.began.Add(g.budget))
		if enough || full || late {
			break
		}
	}
	result.Seconds = g.now().Sub(g.began).Seconds()
	result.Environment, result.Versions = g.environment, g.versions
	result.Candidate = g.candidate.version
	if g.baseline != nil {
		result.Baseline = g.baseline.version
	}
	result.conclude()
	if g.recordOnly() && !result.Interrupted {
		result.Passed, result.Verdict = true, fmt.Sprintf("recorded: %d runs, there was no baseline", result.Runs)
	}
	return result, nil
}

func (g *gateRun) recordOnly() bool { return g.baseline == nil && g.recorded == "" }

// round is two pairs, or two runs where there is only one side.
func (g *gateRun) round(ctx context.Context) error {
	for _, candidates := range abba {
		s := g.candidate
		name := "candidate"
		if !candidates {
			if s, name = g.baseline, "baseline"; s == nil {
				continue
			}
		}
		values, measured, err := g.sample(ctx, s.launcher)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if s.values == nil {
			s.values = map[string][]float64{}
		}
		for figure, value := range values {
			s.values[figure] = append(s.values[figure], value)
		}
		s.version = fmt.Sprintf("%s %s (%s)", measured.Versions.BrokerProduct, measured.Versions.BrokerVersion, s.launcher.Binary)
		if candidates {
			g.environment, g.versions = measured.Environment, measured.Versions
		}
		if g.progress != nil {
			fmt.Fprintf(g.progress, "%5.0fs  %-9s  throughput %.3f of relay, %.0f ns CPU/message\n", g.now().Sub(g.began).Seconds(), name,
				values["throughput-fraction"], values["cpu-per-message"])
		}
	}
	return nil
}

// readBaseline reads a recorded baseline. Only one that is signed counts.
func readBaseline(file string) (*Result, error) {
	if err := results.Verify(file); err != nil {
		return nil, fmt.Errorf("the baseline is not trusted: %w", err)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("can't read the baseline: %w", err)
	}
	result := new(Result)
	if err := json.Unmarshal(raw, result); err != nil {
		return nil, fmt.Errorf("%s: not a result of the gate: %w", file, err)
	}
	switch {
	case result.Scenario != "gate":
		return nil, fmt.Errorf("%s: a result of the scenario %q is no baseline; gate --candidate-binary FILE --json FILE records one", file, result.Scenario)
	case result.Interrupted || result.Error != "" || len(result.Figures) == 0:
		return nil, errors.New(file + ": a partial result is no baseline")
	}
	return result, nil
}

// comparable refuses a baseline of a machine whose memory figures mean
// something else.
func (g *gateRun) comparable(recorded *Result) error {
	here := results.ReadEnvironment(results.Record{})
	there := recorded.Environment
	if here.GOARCH != there.GOARCH || here.CPU.Cores != there.CPU.Cores {
		return fmt.Errorf("the baseline is of a machine with %d cores (%s), this one has %d (%s): record one here",
			there.CPU.Cores, there.GOARCH, here.CPU.Cores, here.GOARCH)
	}
	return nil
}
