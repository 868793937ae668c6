package perf

import (
	"context"
	"strings"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

func compareScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "compare",
		Summary: "set recorded results against each other: compare A B",
		Details: "A and B are each a result, a directory of them, or what the names of several begin\n" +
			"with; lists are separated by commas. Files that differ only in date, commit and a\n" +
			"final -runN are runs of the same thing. Prints medians, the ratio of B to A with its\n" +
			"95 % interval, and what chance would have to explain (test of Mann and Whitney).\n" +
			"With fewer than four runs on a side nothing is called better or worse.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			var operands []string
			var output scenario.Output
			flags.Operands = &operands
			output.Declare(flags)
			return func(_ context.Context, out scenario.Console) error {
				if len(operands) != 2 {
					return cli.Usagef("compare needs two results or directories, A and B")
				}
				if err := scenario.CheckWritable(output.JSONFile); err != nil {
					return err
				}
				a, err := results.ReadRuns(strings.Split(operands[0], ",")...)
				if err != nil {
					return err
				}
				b, err := results.ReadRuns(strings.Split(operands[1], ",")...)
				if err != nil {
					return err
				}
				comparison := results.Compare(operands[0], a, operands[1], b)
				return output.Write(out, comparison, func() { comparison.WriteText(out.Stdout) })
			}
		},
	}
}
