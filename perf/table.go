package perf

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// tableFile is what the tables are written to, in the directory of results.
const tableFile = "README.md"

func tableScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "table",
		Summary: "render a directory of JSON results into its README.md: table DIR",
		Details: "Reads all *.json files of DIR and writes DIR/README.md. Files that differ only in a\n" +
			"final -runN are runs of the same thing: medians are shown. A result without its\n" +
			"environment, a partial one and one that failed its check are refused: exit status 1.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			var directory string
			var toStdout, check bool
			flags.Operand = &directory
			flags.Toggle(&toStdout, "", "stdout", "print the tables instead of writing the file")
			flags.Toggle(&check, "", "check", "write nothing; exit status 1 when the file is not what would be written")
			return func(_ context.Context, out scenario.Console) error {
				if directory == "" {
					return cli.Usagef("table needs the directory of the results")
				}
				return runTable(directory, toStdout, check, out)
			}
		},
	}
}

func runTable(directory string, toStdout, check bool, out scenario.Console) error {
	recorded, err := results.Read(directory)
	if err != nil {
		return err
	}
	var rendered bytes.Buffer
	results.RenderTables(&rendered, recorded)
	path := filepath.Join(directory, tableFile)
	switch {
	case toStdout:
		_, err = out.Stdout.Write(rendered.Bytes())
	case check:
		var present []byte
		if present, err = os.ReadFile(path); err == nil && !bytes.Equal(present, rendered.Bytes()) {
			err = fmt.Errorf("%s is not up to date: run %s table %s", path, scenario.Program, directory)
		}
	default:
		err = os.WriteFile(path, rendered.Bytes(), 0o644)
	}
	return err
}
