package suite

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
)

// Limits of the options.
const (
	messagesMax = 1<<32 - 100 // a queue's message count has 32 bits
	queueMax    = 239         // of the 255 bytes of a name; a number follows
)

// options are the options of the suite and peer scenarios.
type options struct {
	URI       string
	Binary    string
	Flags     string
	BrokerPID int
	Sections  string
	Scale     Scale
	Output    scenario.Output
	Record    scenario.Record
}

// SuiteScenario is the subcommand suite.
func SuiteScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "suite",
		Summary: "the whole headline table of a broker, beside the yardsticks and the targets",
		Details: "Runs the other scenarios one after the other and reports each figure as it is and as\n" +
			"a fraction of its yardstick, which is measured in the same run. With --broker-binary\n" +
			"every section gets a BasaltMQ of its own on an empty directory; otherwise the broker\n" +
			"at --uri is measured, and --broker-pid and --data-dir say where its process and its\n" +
			"files are. About five minutes. Sections:\n" + sectionHelp(),
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &options{}
			flags.Text(&o.Binary, "", "broker-binary", "FILE", "start this broker, afresh for each section")
			flags.Text(&o.Flags, "", "broker-flags", "FLAGS", "more flags for it, separated by blanks")
			o.declare(flags)
			return func(ctx context.Context, out scenario.Console) error {
				if o.Binary != "" && (flags.Given("uri") || o.BrokerPID > 0) {
					return cli.Usagef("--broker-binary starts a broker: --uri and --broker-pid are for one that runs")
				}
				return runSuite(ctx, o, out)
			}
		},
	}
}

// PeerScenario is the subcommand peer.
func PeerScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "peer",
		Summary: "the suite against any AMQP broker, to compare for yourself",
		Details: "Runs the sections of the suite against the broker at --uri, whatever it is. Figures of\n" +
			"its process are measured when --broker-pid names it, those of its files with\n" +
			"--data-dir; what can't be measured is listed with the reason. The queues are called\n" +
			"--queue and deleted at the end. Then: compare OTHER.json THIS.json",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &options{}
			o.declare(flags)
			return func(ctx context.Context, out scenario.Console) error { return runSuite(ctx, o, out) }
		},
	}
}

func (o *options) declare(flags *cli.FlagSet) {
	o.URI, o.Scale = "amqp://guest:guest@127.0.0.1:5672/", DefaultScale()
	flags.Text(&o.URI, "", "uri", "URI", "broker to connect to")
	flags.Count(&o.BrokerPID, "", "broker-pid", "PID", "report CPU, memory and writes of this process")
	flags.Text(&o.Sections, "", "sections", "LIST", "only these sections")
	flags.Duration(&o.Scale.Time, "z", "time", "SECONDS", "measure each figure for this long")
	flags.Duration(&o.Scale.Calibrate, "", "calibrate", "SECONDS", "measure the relay for so long before and after a figure")
	flags.Duration(&o.Scale.Raw, "", "raw-time", "SECONDS", "measure each raw disk figure for this long")
	flags.Quantity(&o.Scale.Messages, "C", "messages", "N", "size of a backlog")
	flags.Text(&o.Scale.Queue, "u", "queue", "PREFIX", "what the queues' names start with; existing ones are emptied and deleted")
	o.Output.Declare(flags)
	o.Record.Declare(flags, "the broker's data directory, or where to make one for a broker that is started")
}

func sectionHelp() string {
	var text strings.Builder
	for _, section := range Sections() {
		fmt.Fprintf(&text, "  %-12s %s\n", section.Name, section.Summary)
	}
	return strings.TrimSuffix(text.String(), "\n")
}

// runner checks the options and makes the runner they ask for.
func (o *options) runner(out scenario.Console) (*Runner, error) {
	address, err := session.ParseURI(o.URI)
	if err != nil {
		return nil, cli.Usagef("%v", err)
	}
	sections, err := SelectSections(o.Sections)
	if err != nil {
		return nil, cli.Usagef("--sections: %v", err)
	}
	switch {
	case o.Scale.Time <= 0 || o.Scale.Calibrate <= 0 || o.Scale.Raw <= 0:
		return nil, cli.Usagef("--time, --calibrate and --raw-time must be above 0")
	case o.Scale.Messages == 0 || o.Scale.Messages%100 != 0 || o.Scale.Messages > messagesMax:
		return nil, cli.Usagef("--messages is a multiple of 100, at most %d", messagesMax)
	case o.Scale.Queue == "" || len(o.Scale.Queue) > queueMax:
		return nil, cli.Usagef("--queue is 1 to %d bytes", queueMax)
	}
	if o.BrokerPID > 0 {
		if _, err := process.CPU(o.BrokerPID); err != nil {
			return nil, cli.Usagef("--broker-pid: can't read the figures of process %d: %v", o.BrokerPID, err)
		}
	}
	tool, err := NewChild()
	if err != nil {
		return nil, err
	}
	runner := &Runner{Tool: tool, Sections: sections, Scale: o.Scale}
	if !o.Output.Quiet {
		runner.Progress = out.Stderr
	}
	if o.Binary != "" {
		if info, err := os.Stat(o.Binary); err != nil || info.IsDir() {
			return nil, cli.Usagef("--broker-binary: there is no file %s", o.Binary)
		}
		runner.Launcher = &Launcher{
			Binary: o.Binary, Flags: strings.Fields(o.Flags), Directory: o.Record.DataDir, Commit: o.Record.Commit,
		}
		return runner, nil
	}
	runner.Running = &Broker{URI: o.URI, PID: o.BrokerPID, Record: o.Record.Record}
	o.URI = address.Redacted
	return runner, nil
}

func runSuite(ctx context.Context, o *options, out scenario.Console) error {
	if err := scenario.CheckWritable(o.Output.JSONFile); err != nil {
		return err
	}
	runner, err := o.runner(out)
	if err != nil {
		return err
	}
	result, err := runner.Run(ctx)
	if err != nil {
		return err
	}
	if runner.Running != nil {
		result.Options.URI = o.URI
	}
	result.Versions.Tool = scenario.ToolVersion()
	if err := o.Output.Write(out, result, func() { result.WriteText(out.Stdout) }); err != nil {
		return err
	}
	if len(result.Figures) == 0 {
		return fmt.Errorf("nothing could be measured")
	}
	return nil
}
