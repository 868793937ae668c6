package perf

import (
	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
)

// recordOptions say on what a figure was measured, as far as the tool can't
// find out by itself. They end up in the environment of the result.
type recordOptions struct{ results.Record }

func readEnvironment(o recordOptions) environment { return results.ReadEnvironment(o.Record) }

// declare adds the options. dataDirUsage says what the scenario does with the
// data directory.
func (o *recordOptions) declare(flags *cli.FlagSet, dataDirUsage string) {
	flags.Text(&o.DataDir, "", "data-dir", "DIR", dataDirUsage)
	flags.Text(&o.IOBackend, "", "io-backend", "TEXT", "note how the broker does I/O (its start line says it)")
	flags.Text(&o.Durability, "", "durability-level", "TEXT", "note what the broker's confirms promise (its start line says it)")
	flags.Text(&o.Commit, "", "commit", "HASH", "note the commit that was measured")
}

// outputOptions are the ways a result leaves the tool.
type outputOptions struct {
	Quiet    bool
	JSON     bool
	JSONFile string
}

func (o *outputOptions) declare(flags *cli.FlagSet) {
	flags.Toggle(&o.JSON, "j", "json-stdout", "print the result as JSON to stdout")
	flags.Text(&o.JSONFile, "", "json", "FILE", "write the result as JSON to FILE")
	flags.Toggle(&o.Quiet, "q", "quiet", "no progress line")
}

// write puts a result where the options say: JSON to the file, and to stdout
// either JSON or what writeText makes of it.
func (o *outputOptions) write(out console, result any, writeText func()) error {
	if o.JSONFile != "" {
		if err := results.WriteFile(o.JSONFile, result); err != nil {
			return err
		}
	}
	if o.JSON {
		return results.Write(out.stdout, result)
	}
	writeText()
	return nil
}
