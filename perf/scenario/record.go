package scenario

import (
	"os"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
)

// Record says on what a figure was measured, as far as the tool can't find out
// by itself. It ends up in the environment of the result.
type Record struct {
	results.Record
	Flags *cli.FlagSet // of the scenario: its --broker-pid
}

// ReadEnvironment describes this machine, what the options say, and the
// programs.
func ReadEnvironment(o Record) results.Environment {
	environment := results.ReadEnvironment(o.Record)
	environment.BrokerBinary, environment.PerfBinary = o.brokerBinary(), PerfBinary()
	return environment
}

// Declare adds the options. dataDirUsage says what the scenario does with the
// data directory.
func (o *Record) Declare(flags *cli.FlagSet, dataDirUsage string) {
	o.Flags = flags
	flags.Text(&o.DataDir, "", "data-dir", "DIR", dataDirUsage)
	flags.Text(&o.IOBackend, "", "io-backend", "TEXT", "note how the broker does I/O (its start line says it)")
	flags.Text(&o.Durability, "", "durability-level", "TEXT", "note what the broker's confirms promise (its start line says it)")
	flags.Text(&o.Commit, "", "commit", "HASH", "note the commit that was measured")
}

// Output is the ways a result leaves the tool.
type Output struct {
	Quiet    bool
	JSON     bool
	JSONFile string
}

// Declare adds the options.
func (o *Output) Declare(flags *cli.FlagSet) {
	flags.Toggle(&o.JSON, "j", "json-stdout", "print the result as JSON to stdout")
	flags.Text(&o.JSONFile, "", "json", "FILE", "write the result as JSON to FILE")
	flags.Toggle(&o.Quiet, "q", "quiet", "no progress line")
}

// Write puts a result where the options say: JSON to the file, and to stdout
// either JSON or what writeText makes of it.
func (o *Output) Write(out Console, result any, writeText func()) error {
	if o.JSONFile != "" {
		if err := results.WriteFile(o.JSONFile, result); err != nil {
			return err
		}
	}
	if o.JSON {
		return results.Write(out.Stdout, result)
	}
	writeText()
	return nil
}

// CheckWritable finds out before the run whether its result can be written
// after it. It leaves what is there alone.
func CheckWritable(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return cli.Usagef("--json: %v", err)
	}
	return file.Close()
}
