package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/suite"
)

type options struct {
	BaselineBinary  string
	BaselineFile    string
	CandidateBinary string
	BaselineFlags   string
	CandidateFlags  string
	Budget          time.Duration
	Scale           suite.Scale
	Output          scenario.Output
	Record          scenario.Record
}

// errNotPassed is the exit status of a verdict that was already printed.
var errNotPassed = errors.New("the gate did not pass")

// ErrUndecided means that nothing was found to be worse, and that chance could
// hide a grave loss: there was not time enough, or too much noise.
var ErrUndecided = errors.New("the gate did not decide")

// Scenario is the subcommand gate.
func Scenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "gate",
		Summary: "decide whether a broker got worse than another one, for CI",
		Details: "Starts both brokers in turn (ABBA), each on an empty directory, and compares pairs:\n" +
			"throughput as a fraction of the bare relay, CPU per message, memory (idle, queues,\n" +
			"connections, a backlog), bytes written. A figure fails when its loss is above its\n" +
			"limit and chance does not explain it. What administration costs in memory while it is\n" +
			"not used has a ceiling. Pairs are added until everything is decided or\n" +
			"--time is over. The last line is the verdict; exit status 0: passed, 1: worse,\n3: not decided.\n\n" +
			"With --baseline FILE the other side is a recorded result of the gate: ratios to the\n" +
			"yardsticks, memory and bytes written are compared. Its signature must verify.\n" +
			"With neither the figures are only recorded.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &options{Budget: 6 * time.Minute, Scale: suite.DefaultScale()}
			o.Scale.Time, o.Scale.Warmup, o.Scale.Calibrate = 1500*time.Millisecond, 500*time.Millisecond, 300*time.Millisecond
			o.Scale.Messages, o.Scale.Queue, o.Scale.Settle = 2000000, "perf-gate", 300*time.Millisecond
			flags.Text(&o.BaselineBinary, "", "baseline-binary", "FILE", "the broker that is good enough")
			flags.Text(&o.BaselineFile, "", "baseline", "FILE", "or what was recorded of it")
			flags.Text(&o.CandidateBinary, "", "candidate-binary", "FILE", "the broker that is judged")
			flags.Text(&o.BaselineFlags, "", "baseline-flags", "FLAGS", "more flags for the one, separated by blanks")
			flags.Text(&o.CandidateFlags, "", "candidate-flags", "FLAGS", "more flags for the other")
			flags.Duration(&o.Budget, "", "time", "SECONDS", "add no more pairs after this long")
			o.Output.Declare(flags)
			o.Record.Declare(flags, "where to make data directories: on the disk that is to be measured")
			return func(ctx context.Context, out scenario.Console) error { return o.run(ctx, out) }
		},
	}
}

func (o *options) run(ctx context.Context, out scenario.Console) error {
	switch {
	case o.CandidateBinary == "":
		return cli.Usagef("--candidate-binary says what to judge")
	case o.BaselineBinary != "" && o.BaselineFile != "":
		return cli.Usagef("--baseline-binary and --baseline exclude each other")
	case o.Budget <= 0:
		return cli.Usagef("--time must be above 0")
	}
	for _, file := range []string{o.CandidateBinary, o.BaselineBinary, o.BaselineFile} {
		if info, err := os.Stat(file); file != "" && (err != nil || info.IsDir()) {
			return cli.Usagef("there is no file %s", file)
		}
	}
	if err := scenario.CheckWritable(o.Output.JSONFile); err != nil {
		return err
	}
	tool, err := suite.NewChild()
	if err != nil {
		return err
	}
	launcher := func(binary, flags string) *side {
		return &side{launcher: &suite.Launcher{Binary: binary, Flags: strings.Fields(flags), Directory: o.Record.DataDir, Commit: o.Record.Commit}}
	}
	work, err := os.MkdirTemp(o.Record.DataDir, "basaltmqperf-*")
	if err != nil {
		return fmt.Errorf("can't make a directory for a certificate: %w", err)
	}
	defer os.RemoveAll(work)
	admin, err := newAdminCost(tool, work)
	if err != nil {
		return err
	}
	g := &gateRun{
		rules: DefaultRules, candidate: launcher(o.CandidateBinary, o.CandidateFlags), recorded: o.BaselineFile,
		budget: o.Budget, now: time.Now,
	}
	g.sample = func(ctx context.Context, l *suite.Launcher) (map[string]float64, *results.Suite, error) {
		values, result, err := sample(ctx, tool, l, o.Scale)
		if err == nil && l == g.candidate.launcher {
			err = admin.measure(ctx, l, values)
		}
		return values, result, err
	}
	if o.BaselineBinary != "" {
		g.baseline = launcher(o.BaselineBinary, o.BaselineFlags)
	}
	if !o.Output.Quiet {
		g.progress = out.Stderr
	}
	result, err := g.run(ctx)
	if err != nil {
		return err
	}
	result.Versions.Tool = scenario.ToolVersion()
	if err := o.Output.Write(out, result, func() { result.WriteText(out.Stdout) }); err != nil {
		return err
	}
	if result.Undecided {
		return ErrUndecided
	}
	if !result.Passed {
		return errNotPassed
	}
	return nil
}
