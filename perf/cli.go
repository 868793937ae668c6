package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/basaltmq/basaltmq/perf/cli"
)

// Exit statuses of [Main].
const (
	exitOK      = 0
	exitFailure = 1 // broker unreachable, connection closed, verification failed
	exitUsage   = 2 // command line not understood
)

// program is how the tool calls itself in its messages.
const program = "basaltmqperf"

// scenario is one subcommand. A new one is a file that builds its scenario
// value, and a line in scenarios.
type scenario struct {
	name    string
	summary string // one line of the overview
	details string // paragraph above the options; may be empty
	hidden  bool   // not listed: child processes
	// prepare declares the options and returns what runs after parsing.
	prepare func(flags *cli.FlagSet) func(ctx context.Context, out console) error
}

// console is where a scenario writes: results to stdout, progress and
// everything else to stderr.
type console struct {
	stdout, stderr io.Writer
	stdin          io.Reader
}

func scenarios() []scenario {
	return []scenario{
		throughputScenario(), confirmScenario(), backlogScenario(), calibrateScenario(), tableScenario(), relayScenario(),
	}
}

// Main runs the tool with the arguments after the program's name and returns
// its exit status: 0, 1 for a broker that is unreachable, closes the
// connection or corrupts messages, 2 for a command line not understood.
// Cancelling ctx ends the measurement early, with the result so far.
func Main(ctx context.Context, arguments []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := console{stdin: stdin, stdout: stdout, stderr: stderr}
	err := dispatch(ctx, arguments, out)
	var usage *cli.UsageError
	switch {
	case err == nil, errors.Is(err, cli.ErrHelp):
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "%s: %s (see %s --help)\n", program, usage.Text, program)
		return exitUsage
	}
	fmt.Fprintf(stderr, "%s: %s\n", program, err)
	return exitFailure
}

func dispatch(ctx context.Context, arguments []string, out console) error {
	if len(arguments) == 0 {
		return cli.Usagef("no subcommand given")
	}
	switch name := arguments[0]; name {
	case "-h", "--help", "help":
		if len(arguments) == 1 {
			writeOverview(out.stdout)
			return nil
		}
		chosen, err := findScenario(arguments[1])
		if err != nil {
			return err
		}
		writeScenarioHelp(out.stdout, chosen)
		return nil
	case "--version", "version":
		fmt.Fprintf(out.stdout, "%s %s (%s %s/%s)\n", program, toolVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	default:
		chosen, err := findScenario(name)
		if err != nil {
			return err
		}
		flags := cli.NewFlagSet(chosen.name)
		run := chosen.prepare(flags)
		if err := flags.Parse(arguments[1:]); err != nil {
			if errors.Is(err, cli.ErrHelp) {
				writeScenarioHelp(out.stdout, chosen)
			}
			return err
		}
		return run(ctx, out)
	}
}

func findScenario(name string) (scenario, error) {
	for _, candidate := range scenarios() {
		if candidate.name == name {
			return candidate, nil
		}
	}
	return scenario{}, cli.Usagef("unknown subcommand %q", name)
}

func writeOverview(w io.Writer) {
	fmt.Fprintf(w, "Usage: %s SUBCOMMAND [options]\n\nMeasures an AMQP 0-9-1 broker.\n\nSubcommands:\n", program)
	for _, candidate := range scenarios() {
		if !candidate.hidden {
			fmt.Fprintf(w, "  %-12s %s\n", candidate.name, candidate.summary)
		}
	}
	fmt.Fprintf(w, "  %-12s %s\n", "help", "explain a subcommand and its options: help SUBCOMMAND")
	fmt.Fprintf(w, "\nOptions:\n  --help, --version\n\nSizes and counts take units (1k = 1000, 1KiB = 1024), durations too (10s, 500ms).\n")
}

func writeScenarioHelp(w io.Writer, chosen scenario) {
	fmt.Fprintf(w, "Usage: %s %s [options]\n\n%s\n", program, chosen.name, chosen.summary)
	if chosen.details != "" {
		fmt.Fprintf(w, "\n%s\n", chosen.details)
	}
	fmt.Fprintf(w, "\nOptions:\n")
	flags := cli.NewFlagSet(chosen.name)
	chosen.prepare(flags)
	flags.WriteHelp(w)
}

// Version is set by the linker in released builds.
var Version = ""

func toolVersion() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
