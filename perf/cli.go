package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/basaltmq/basaltmq/perf/churn"
	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/features"
	"github.com/basaltmq/basaltmq/perf/gate"
	"github.com/basaltmq/basaltmq/perf/population"
	"github.com/basaltmq/basaltmq/perf/report"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/suite"
)

// Exit statuses of [Main].
const (
	exitOK        = 0
	exitFailure   = 1 // broker unreachable, connection closed, verification failed
	exitUsage     = 2 // command line not understood
	exitUndecided = 3 // the gate found nothing worse, and could not exclude it
)

func scenarios() []scenario.Scenario {
	return slices.Concat(
		[]scenario.Scenario{throughputScenario(), latencyScenario(), fanoutScenario(), confirmScenario(), backlogScenario()},
		churn.Scenarios(),
		population.Scenarios(),
		[]scenario.Scenario{calibrateScenario()},
		[]scenario.Scenario{suite.SuiteScenario(), suite.PeerScenario(), features.Scenario(), compareScenario(), gate.Scenario(), gate.ABScenario()},
		[]scenario.Scenario{tableScenario(), report.Scenario(), relayScenario()},
		[]scenario.Scenario{signScenario(), verifyScenario(), keygenScenario()},
	)
}

// Main runs the tool with the arguments after the program's name and returns
// its exit status: 0, 1 for a broker that is unreachable, closes the
// connection or corrupts messages, 2 for a command line not understood, 3 for a
// gate that could not decide.
// Cancelling ctx ends the measurement early, with the result so far.
func Main(ctx context.Context, arguments []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := scenario.Console{Stdin: stdin, Stdout: stdout, Stderr: stderr}
	err := dispatch(ctx, arguments, out)
	var usage *cli.UsageError
	switch {
	case err == nil, errors.Is(err, cli.ErrHelp):
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %s (see %s --help)\n", scenario.Program, usage.Text, scenario.Program)
		return exitUsage
	}
	fmt.Fprintf(stderr, "%s: %s\n", scenario.Program, err)
	if errors.Is(err, gate.ErrUndecided) {
		return exitUndecided
	}
	return exitFailure
}

func dispatch(ctx context.Context, arguments []string, out scenario.Console) error {
	if len(arguments) == 0 {
		return cli.Usagef("no subcommand given")
	}
	switch name := arguments[0]; name {
	case "-h", "--help", "help":
		if len(arguments) == 1 {
			writeOverview(out.Stdout)
			return nil
		}
		chosen, err := findScenario(arguments[1])
		if err != nil {
			return err
		}
		writeScenarioHelp(out.Stdout, chosen)
		return nil
	case "--version", "version":
		fmt.Fprintf(out.Stdout, "%s %s (%s %s/%s)\n", scenario.Program, scenario.ToolVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	default:
		chosen, err := findScenario(name)
		if err != nil {
			return err
		}
		flags := cli.NewFlagSet(chosen.Name)
		run := chosen.Prepare(flags)
		if err := flags.Parse(arguments[1:]); err != nil {
			if errors.Is(err, cli.ErrHelp) {
				writeScenarioHelp(out.Stdout, chosen)
			}
			return err
		}
		return run(ctx, out)
	}
}

func findScenario(name string) (scenario.Scenario, error) {
	for _, candidate := range scenarios() {
		if candidate.Name == name {
			return candidate, nil
		}
	}
	return scenario.Scenario{}, cli.Usagef("unknown subcommand %q", name)
}

func writeOverview(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s SUBCOMMAND [options]\n\nMeasures an AMQP 0-9-1 broker.\n\nSubcommands:\n", scenario.Program)
	for _, candidate := range scenarios() {
		if !candidate.Hidden {
			fmt.Fprintf(w, "  %-16s %s\n", candidate.Name, candidate.Summary)
		}
	}
	fmt.Fprintf(w, "  %-16s %s\n", "help", "explain a subcommand and its options: help SUBCOMMAND")
	fmt.Fprintf(w, "\nOptions:\n  --help, --version\n\nSizes and counts take units (1k = 1000, 1KiB = 1024), durations too (10s, 500ms).\n")
}

func writeScenarioHelp(w io.Writer, chosen scenario.Scenario) {
	fmt.Fprintf(w, "Usage: %s %s [options]\n\n%s\n", scenario.Program, chosen.Name, chosen.Summary)
	if chosen.Details != "" {
		fmt.Fprintf(w, "\n%s\n", chosen.Details)
	}
	fmt.Fprintf(w, "\nOptions:\n")
	flags := cli.NewFlagSet(chosen.Name)
	chosen.Prepare(flags)
	flags.WriteHelp(w)
}
