package perf

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/perf/suite"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// mainTool runs scenarios in this process.
type mainTool struct{ suite.Child }

func (mainTool) Run(ctx context.Context, arguments ...string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	if code := Main(ctx, append(arguments, "-q", "-j"), strings.NewReader(""), &stdout, &stderr); code != exitOK {
		return stdout.Bytes(), fmt.Errorf("exit status %d: %s", code, stderr.String())
	}
	return stdout.Bytes(), nil
}

// startEngine runs a broker in this process.
func startEngine(t *testing.T) (uri, dataDir string) {
	t.Helper()
	dataDir = t.TempDir()
	e, err := engine.Start(engine.Config{DataDir: dataDir, Version: "test", Loops: 1, IO: "posix"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
	})

	return "amqp://guest:guest@" + e.Addr().String() + "/", dataDir
}

// lacksFraction reports whether a yardstick of a figure that was measured could
// not be: nothing passed it in its time.
func lacksFraction(sections []suite.Section, result *results.Suite) bool {
	for _, section := range sections {
		for _, step := range section.Steps {
			for _, want := range step.Figures {
				if figure := result.Find(want.Name); want.Yardstick != "" && figure != nil && figure.Fraction == nil {
					return true
				}
			}
		}
	}
	return false
}

// runTinySuite takes no time: what matters is that every figure is found. A
// machine with other things to do may not get a single message through in so
// little of it; then it gets more.
func runTinySuite(t *testing.T, sections string, broker *suite.Broker) (result *results.Suite) {
	t.Helper()
	chosen, err := suite.SelectSections(sections)
	if err != nil {
		t.Fatal(err)
	}
	scale := suite.DefaultScale()
	scale.Time, scale.Warmup, scale.Calibrate = 100*time.Millisecond, 10*time.Millisecond, 60*time.Millisecond
	scale.Few, scale.More, scale.Most = 10, 20, 30
	scale.Raw, scale.Settle, scale.Messages = 10*time.Millisecond, time.Millisecond, 1000
	for ; scale.Time < 30*time.Second; scale.Time *= 4 {
		runner := &suite.Runner{Tool: mainTool{}, Running: broker, Sections: chosen, Scale: scale}
		if result, err = runner.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := result.Check(); err != nil {
			t.Error(err)
		}
		tooSlow := slices.ContainsFunc(result.Sections, func(s results.SuiteSection) bool {
			return strings.Contains(s.Error, "the broker confirmed nothing") || strings.Contains(s.Error, "the broker did nothing")
		})
		if !tooSlow && !lacksFraction(chosen, result) {
			break
		}
		scale.Calibrate *= 4
	}
	return result
}

// All figures that the sections name come out of a real broker.
func TestSuite(t *testing.T) {
	t.Parallel()
	uri, dataDir := startEngine(t)
	result := runTinySuite(t, "", &suite.Broker{URI: uri, PID: os.Getpid(), Record: results.Record{DataDir: dataDir}})
	for _, section := range result.Sections {
		if section.Error != "" {
			t.Errorf("section %s: %s", section.Name, section.Error)
		}
	}
	leftOut := map[string]string{}
	for _, left := range result.LeftOut {
		leftOut[left.Figure] = left.Reason
	}
	for _, section := range suite.Sections() {
		for _, step := range section.Steps {
			for _, want := range step.Figures {
				figure := result.Find(want.Name)
				reason, out := leftOut[want.Name]
				if step.Flags != "" { // this broker runs already: it cannot be given flags
					if figure != nil || !strings.Contains(reason, step.Flags) {
						t.Errorf("%s: %v, left out because %q; it needs %s", want.Name, figure, reason, step.Flags)
					}
					continue
				}
				switch {
				case out:
					t.Errorf("%s was left out: %s", want.Name, reason)
				case figure == nil:
					t.Errorf("there is no figure %s", want.Name)
				case figure.Value < 0 && !strings.HasPrefix(want.Name, "bytes-per"): // of a process that does other things too
					t.Errorf("%s is %v", want.Name, figure.Value)
				case want.Yardstick != "" && figure.Fraction == nil:
					t.Errorf("%s has no fraction", want.Name)
				}
			}
		}
	}
	for _, yardstick := range []string{"relay", "append", "memory copy"} {
		if y := result.FindYardstick(yardstick); y == nil || y.Before <= 0 || y.After <= 0 {
			t.Errorf("yardstick %s: %+v", yardstick, y)
		}
	}
	if result.Versions.BrokerProduct != "BasaltMQ" || result.Environment.Filesystem == "" || !result.Options.BrokerSeen {
		t.Errorf("%+v %+v", result.Versions, result.Options)
	}
	if len(result.Series) == 0 || len(result.Series[0].Values) == 0 {
		t.Error("the broker's memory over time is missing")
	}
	var text bytes.Buffer
	result.WriteText(&text)
	if !strings.Contains(text.String(), "end to end, 16 B, 1 producer, 1 consumer, auto-ack") {
		t.Errorf("%s", text.String())
	}
	// The broker is left without the suite's queues.
	address, err := session.ParseURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	target := scenario.Target{Address: address}
	err = target.Control(nil, func(s *session.Session) error {
		return s.Call(session.ClientChannel, &amqp.QueueDeclare{Queue: []byte("perf-suite"), Passive: true}, &amqp.QueueDeclareOk{})
	})
	if err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("the queue is still there: %v", err)
	}
}

// What can't be seen from outside is said, not made up.
func TestPeerLeavesOut(t *testing.T) {
	t.Parallel()
	uri, _ := startEngine(t)
	result := runTinySuite(t, "backlog,latency", &suite.Broker{URI: uri})
	reasons := map[string]string{}
	for _, left := range result.LeftOut {
		reasons[left.Figure] = left.Reason
	}
	for figure, want := range map[string]string{
		"rss-idle": "--broker-pid", "rss-backlog": "--broker-pid", "latency-250k-cpu": "--broker-pid", "backlog-on-disk": "--data-dir",
	} {
		if !strings.Contains(reasons[figure], want) || result.Find(figure) != nil {
			t.Errorf("%s: %q", figure, reasons[figure])
		}
	}
	if result.Find("latency-250k-p99") == nil || len(result.Sections) != 2 || len(result.Series) != 0 {
		t.Errorf("%+v", result)
	}
}

// A broker that is not there leaves the reasons.
func TestSuiteOfNothing(t *testing.T) {
	t.Parallel()
	result := runTinySuite(t, "latency", &suite.Broker{URI: "amqp://127.0.0.1:1/"})
	if len(result.Figures) > 0 || len(result.LeftOut) == 0 || !strings.Contains(result.Sections[0].Error, "refused") {
		t.Errorf("%+v", result)
	}
}

func TestSuiteUsage(t *testing.T) {
	t.Parallel()
	for want, arguments := range map[string][]string{
		`there is no section "weather"`:   {"suite", "--sections", "weather"},
		"--messages is a multiple of 100": {"suite", "-C", "150"},
		"must be above 0":                 {"peer", "-z", "0"},
		"there is no file":                {"suite", "--broker-binary", "/nonexistent"},
		"are for one that runs":           {"suite", "--broker-binary", "/bin/true", "--uri", "amqp://x/"},
		"unknown option --broker-binary":  {"peer", "--broker-binary", "x"},
		"can't read the figures":          {"peer", "--broker-pid", "2147483647"},
	} {
		if code, _, stderr := runMain(t.Context(), arguments...); code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit status %d, %s", arguments, code, stderr)
		}
	}
}
