package scenario

import (
	"context"
	"io"
	"runtime/debug"

	"github.com/basaltmq/basaltmq/perf/cli"
)

// Program is how the tool calls itself in its messages.
const Program = "basaltmqperf"

// Scenario is one subcommand. A new one is a file that builds its Scenario, and
// a line in scenarios of package perf.
type Scenario struct {
	Name    string
	Summary string // one line of the overview
	Details string // paragraph above the options; may be empty
	Hidden  bool   // not listed: child processes
	// Prepare declares the options and returns what runs after parsing.
	Prepare func(flags *cli.FlagSet) func(ctx context.Context, out Console) error
}

// Console is where a scenario writes: results to stdout, progress and
// everything else to stderr.
type Console struct {
	Stdout, Stderr io.Writer
	Stdin          io.Reader
}

// Version is set by the linker in released builds.
var Version = ""

// ToolVersion is the version of this tool.
func ToolVersion() string {
	if Version != "" {
		return Version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "devel"
}
