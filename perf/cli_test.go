package perf

import (
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// parseOptions runs the command line through flags and checks.
func parseOptions(arguments ...string) (throughputOptions, error) {
	var options throughputOptions
	flags := cli.NewFlagSet("throughput")
	declareThroughput(flags, &options)
	options.Record.Flags = nil // each parse has its own
	if err := flags.Parse(arguments); err != nil {
		return options, err
	}
	err := options.finish(flags)
	return options, err
}

func TestThroughputFlags(t *testing.T) {
	t.Parallel()
	long, err := parseOptions("--publishers", "2", "--consumers=3", "--size", "1KiB", "--ack", "5", "--confirm", "100",
		"--persistent", "--prefetch", "50", "--rate", "1k", "--consumer-rate", "2k", "--time", "30", "--queue", "q", "--exchange", "e",
		"--routing-key", "k", "--verify", "--measure-latency", "--quiet", "--pmessages", "1M", "--cmessages", "2M", "--poll", "--loops", "2")
	if err != nil {
		t.Fatal(err)
	}
	short, err := parseOptions("-x2", "-y", "3", "-s1KiB", "-a=5", "-c", "100", "-pP50", "-r1k", "-R", "2k", "-z30", "-uq", "-e", "e",
		"-k", "k", "-Vlq", "-C1M", "-D2M", "-g", "--loops=2")
	if err != nil {
		t.Fatal(err)
	}
	if long != short {
		t.Errorf("long and short names differ:\n%+v\n%+v", long, short)
	}
	if short.Publishers != 2 || short.Size != 1024 || !short.Persistent || short.Prefetch != 50 || short.Duration != 30*time.Second ||
		short.PublishMax != 1e6 || short.Warmup != 0 || !short.Verify || !short.MeasureLatency || !short.Output.Quiet {
		t.Errorf("%+v", short)
	}
	defaults, err := parseOptions()
	if err != nil || defaults.Publishers != 1 || defaults.Consumers != 1 || defaults.Size != 16 || defaults.Queue != "perf-test" ||
		defaults.Warmup != time.Second || defaults.URI != "amqp://guest:xxxxx@127.0.0.1:5672/" || defaults.routingKeyFor("q") != "q" {
		t.Errorf("%+v, %v", defaults, err)
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		arguments, want string
	}{
		{"", "no subcommand"},
		{"churn", `unknown subcommand "churn"`},
		{"bind-churn -w 0", `"0" is not a number from 1`},
		{"bind-churn -w 1,", `"" is not a number from 1`},
		{"queue-churn -w 20k", `"20k" is not a number from 1 to 16384`},
		{"queue-churn --kinds lasting", `"lasting" is not one of transient, durable`},
		{"queue-churn -x 0", "--connections is 1 to"},
		{"queue-churn -u=", "--prefix is 1 to"},
		{"connection-churn -x 2", "unknown option -x"},
		{"channel-churn --kinds durable", "unknown option --kinds"},
		{"latency -r 0", `"0" is not a number from 1`},
		{"latency -r 10k,", `"" is not a number from 1`},
		{"latency -r 10 -x 3", "can't be shared evenly by 3 publishers"},
		{"latency -s 7", "--size is 8 to"},
		{"latency -y 0", "--publishers and --consumers are 1 to"},
		{"latency -z 0", "--time must be above 0"},
		{"latency -a 11 -P 10", "--ack 11 would never happen"},
		{"fanout -k 0", `"0" is not a number from 1`},
		{"fanout -u a%b", "without %"},
		{"fanout -x 0", "--publishers is 1"},
		{"connection-count -n 10,5", "--counts must grow"},
		{"connection-count -n 0", `"0" is not a number from 1`},
		{"connection-count -n 9M", "open files"},
		{"connection-count -c 0 --consumers 1", "need a channel"},
		{"connection-count -x 0", "--dialers is 1"},
		{"queue-count --queue-args []", "--queue-args is not a JSON object"},
		{"queue-count -u=", "--prefix is 1"},
		{"queue-count -s 2M", "--size is at most"},
		{"consumer-churn --broker-pid 4194999", "can't read the figures"},
		{"help churn", `unknown subcommand "churn"`},
		{"throughput 5", `unexpected argument "5"`},
		{"throughput -x", "option -x needs a value"},
		{"throughput --size", "option --size needs a value"},
		{"throughput --size=", "size"},
		{"throughput -s big", `"big" is not a number`},
		{"throughput --nosuch", "unknown option --nosuch"},
		{"throughput --x 5", "unknown option --x"},
		{"throughput -qK", "unknown option -K"},
		{"throughput -z never", `"never" is not a duration`},
		{"throughput -x 99999999999", "above"},
		{"throughput -x0 -y0", "nothing to do"},
		{"throughput -l -s 7", "--size must be at least 8"},
		{"throughput -V --random-bodies -s 7", "--size must be at least 8"},
		{"throughput -V -l --random-bodies -s 15", "--size must be at least 16"},
		{"throughput -s 600MiB", "--size is at most"},
		{"throughput -a 11 -P 10", "--ack 11 would never happen"},
		{"throughput -P 65536", "--prefetch is at most"},
		{"throughput -T 5", "give --ack"},
		{"throughput -t 5 -c 5", "exclude each other"},
		{"throughput --queue-pattern q", "needs a %"},
		{"throughput --queue-pattern q% --queue-pattern-from 3 --queue-pattern-to 2", "not a range"},
		{"throughput -u=", "need a queue"},
		{"throughput --loops 1000", "at most 256 loops"},
		{"throughput --uri http://x/", "must start with amqp://"},
		{"throughput --uri ://", "not a URI"},
		{"throughput -u " + strings.Repeat("x", 256), "at most 255"},
		{"throughput --properties {", "not a JSON object"},
		{"throughput --properties {}{}", "something behind"},
		{"throughput --properties {\"colour\":1}", "colour: unknown property"},
		{"throughput --properties {\"priority\":256}", "priority: must be a whole number from 0 to 255"},
		{"throughput --properties {\"type\":1}", "type: must be a string"},
		{"throughput --properties {\"headers\":1}", "headers: must be an object"},
		{"throughput --json /nonexistent/x", "--json: open /nonexistent/x"},
		{"throughput --broker-pid 4194999", "can't read the figures of process 4194999"},
		{"features --features plain,weather", "there is no feature"},
		{"features -u a% ", "--prefix is 1 to"},
		{"features -z 0", "must be above 0"},
		{"features --stream 0", "must be above 0"},
		{"features --limited-uri http://x", "--limited-uri"},
		{"features --json /nonexistent/x", "--json: open"},
		{"throughput --vary 65537", "--vary is at most"},
		{"throughput --vary 2 -V", "--vary excludes"},
		{"throughput --vary 65536 -s 1k", "too much to keep"},
		{"calibrate --json /nonexistent/x", "--json: open /nonexistent/x"},
		{"calibrate -z 0", "--time above 0"},
		{"calibrate -s 1T", "not a number"},
		{"calibrate --disk-time 0", "--disk-time"},
		{"calibrate --data-dir /nonexistent -z 0.01", "--data-dir"},
		{"confirm -w 5", `"5" is neither QUEUESxWINDOW nor QUEUESxWINDOWxCHANNELS`},
		{"confirm -w 1x1,", `"" is neither QUEUESxWINDOW`},
		{"confirm -w 1x2x3x4", `"1x2x3x4" is neither QUEUESxWINDOW`},
		{"confirm -w 1x2x", `"1x2x" is neither QUEUESxWINDOW`},
		{"confirm -w 1x1,10x5x9", `"10x5x9" has 9 channels for 10 queues: give at least one for each queue`},
		{"confirm -w 1x5x0", "has 0 channels for 1 queues"},
		{"confirm -w 1x1x65537", "is not between 1x1 and 65536 channels"},
		{"confirm -w 1x1000x10k", "is not between"},
		{"confirm -w 0x5", "is not between"},
		{"confirm -w 1000x100k", "is not between"},
		{"confirm -x 0", "--publishers is 1"},
		{"confirm -z 0", "must be above 0"},
		{"confirm -u=", "--queue is 1 to"},
		{"confirm --broker-pid 4194999", "can't read the figures"},
		{"backlog -C 0", "--messages is 1 to"},
		{"backlog -C 5G", "--messages is 1 to"},
		{"backlog -s 7", "--size is 8 to"},
		{"backlog -C 10 -a 3", "--ack 3 would leave a rest of 1"},
		{"backlog -a 10 -P 5", "--ack 10 would never happen"},
		{"backlog --stall 0", "--stall"},
		{"backlog --json /nonexistent/x", "--json: open"},
		{"table", "needs the directory"},
		{"table a b", `unexpected argument "b"`},
	} {
		code, stdout, stderr := runMain(t.Context(), strings.Fields(test.arguments)...)
		if code != exitUsage || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 || stdout != "" {
			t.Errorf("%q: exit status %d, stderr %q; want %d and one line with %q", test.arguments, code, stderr, exitUsage, test.want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"--help": "throughput", "help": "calibrate", "help throughput": "--measure-latency", "throughput --help": "--queue-pattern",
		"calibrate -h": "yardstick", "confirm -h": "QUEUESxWINDOW", "bind-churn -h": "--unbind", "connection-churn -h": "loopback", "connection-count -h": "idle", "latency -h": "evenly spaced", "fanout -h": "--queues", "queue-count -h": "--keep", "backlog -h": "out of\norder", "table -h": "DIR/README.md", "--version": scenario.Program,
	} {
		code, stdout, stderr := runMain(t.Context(), strings.Fields(arguments)...)
		if code != exitOK || !strings.Contains(stdout, want) || strings.Contains(stdout, relayCommand) || stderr != "" {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", arguments, code, stdout, stderr)
		}
	}
}

func TestEnvironmentNamesTheMachine(t *testing.T) {
	t.Parallel()
	got := scenario.ReadEnvironment(scenario.Record{Record: results.Record{DataDir: t.TempDir()}})
	if got.Kernel == "" || got.GoVersion == "" || got.CPU.Cores == 0 || got.Filesystem == "" || got.Time.IsZero() ||
		got.CPU.Model == "" || got.Memory == 0 || len(got.PerfBinary) != 64 || got.BrokerBinary != "" {
		t.Errorf("%+v", got)
	}
}

func TestEnvironmentNamesTheBrokersBinary(t *testing.T) {
	t.Parallel()
	for pid, want := range map[string]string{selfPID(): scenario.PerfBinary(), "0": "", "2147483647": ""} {
		var record scenario.Record
		brokerPID := 0
		flags := cli.NewFlagSet("any")
		flags.Count(&brokerPID, "", "broker-pid", "PID", "")
		record.Declare(flags, "")
		if err := flags.Parse([]string{"--broker-pid", pid}); err != nil {
			t.Fatal(err)
		}
		// Scenarios hand copies of the options on.
		if got := scenario.ReadEnvironment(record).BrokerBinary; got != want {
			t.Errorf("%s: %q, want %q", pid, got, want)
		}
	}
}
