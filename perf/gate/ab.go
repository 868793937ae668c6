package gate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/suite"
)

// Pairs of a comparison: fewer say nothing, more take long.
const (
	pairsDefault = 8
	pairsMax     = 100
)

// ABScenario is the subcommand ab.
func ABScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "ab",
		Summary: "the same load on two broker binaries in turn: ab 'SCENARIO OPTIONS'",
		Details: "Starts both brokers in turn (ABBA), each on an empty directory, runs the load on each,\n" +
			"and shows for every figure of its result both medians and the ratio of B to A with its\n" +
			"95 % interval. The load is one argument, as: ab --a OLD --b NEW 'throughput -z 2 -s 16'.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &abOptions{Pairs: pairsDefault}
			flags.Operand = &o.Load
			flags.Text(&o.Binaries[0], "", "a", "FILE", "one broker")
			flags.Text(&o.Binaries[1], "", "b", "FILE", "the other")
			flags.Text(&o.Flags[0], "", "flags-a", "FLAGS", "more flags for the one, separated by blanks")
			flags.Text(&o.Flags[1], "", "flags-b", "FLAGS", "more flags for the other")
			flags.Count(&o.Pairs, "n", "pairs", "N", "how many pairs of runs; below 6 nothing is certain")
			o.Output.Declare(flags)
			o.Record.Declare(flags, "where to make data directories: on the disk that is to be measured")
			return func(ctx context.Context, out scenario.Console) error {
				if err := o.check(); err != nil {
					return err
				}
				tool, err := suite.NewChild()
				if err != nil {
					return err
				}
				return o.run(ctx, tool, out)
			}
		},
	}
}

type abOptions struct {
	Load     string
	Binaries [2]string
	Flags    [2]string
	Pairs    int
	Output   scenario.Output
	Record   scenario.Record
}

func (o *abOptions) check() error {
	switch {
	case len(strings.Fields(o.Load)) == 0:
		return cli.Usagef("ab needs the load, as one argument: 'throughput -z 2'")
	case o.Pairs < 1 || o.Pairs > pairsMax:
		return cli.Usagef("--pairs is 1 to %d", pairsMax)
	}
	for i, file := range o.Binaries {
		if info, err := os.Stat(file); err != nil || info.IsDir() {
			return cli.Usagef("--%c: there is no file %q", 'a'+i, file)
		}
	}
	return scenario.CheckWritable(o.Output.JSONFile)
}

func (o *abOptions) run(ctx context.Context, tool suite.Tool, out scenario.Console) error {
	var progress io.Writer
	if !o.Output.Quiet {
		progress = out.Stderr
	}
	launchers := [2]*suite.Launcher{}
	for i := range launchers {
		launchers[i] = &suite.Launcher{Binary: o.Binaries[i], Flags: strings.Fields(o.Flags[i]), Directory: o.Record.DataDir, Commit: o.Record.Commit}
	}
	runs, err := turns(o.Pairs, progress, func(side int) (results.Run, error) {
		return runLoad(ctx, tool, launchers[side], strings.Fields(o.Load))
	})
	if err != nil {
		return err
	}
	label := func(i int) string { return strings.TrimSpace(o.Binaries[i] + " " + o.Flags[i]) }
	comparison := results.ComparePairs(label(0), runs[0], label(1), runs[1])
	return o.Output.Write(out, comparison, func() { comparison.WriteText(out.Stdout) })
}

// turns makes pairs of runs in the order ABBA. An odd pair more goes AB.
func turns(pairs int, progress io.Writer, measure func(side int) (results.Run, error)) (runs [2][]results.Run, err error) {
	began := time.Now()
	for i := range 2 * pairs {
		side := 0
		if abba[i%len(abba)] {
			side = 1
		}
		run, err := measure(side)
		if err != nil {
			return runs, fmt.Errorf("%c: %w", 'A'+side, err)
		}
		runs[side] = append(runs[side], run)
		if progress != nil {
			fmt.Fprintf(progress, "%5.0fs  %c  %d of %d\n", time.Since(began).Seconds(), 'A'+side, i+1, 2*pairs)
		}
	}
	return runs, nil
}

// runLoad runs the load once on a broker of its own.
func runLoad(ctx context.Context, tool suite.Tool, launcher *suite.Launcher, load []string) (run results.Run, err error) {
	broker, err := launcher.Start(ctx)
	if err != nil {
		return run, err
	}
	defer func() { err = errors.Join(err, broker.Stop()) }()
	arguments := append(append([]string{}, load...), "--uri", broker.URI, "--broker-pid", strconv.Itoa(broker.PID),
		"--io-backend", broker.Record.IOBackend, "--durability-level", broker.Record.Durability)
	raw, err := tool.Run(ctx, arguments...)
	if err != nil {
		return run, err
	}
	return results.ParseRun("load.json", raw)
}
