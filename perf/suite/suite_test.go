package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/perf/results"
)

// playVariable makes the test binary play a broker, or a scenario.
const playVariable = "BASALTMQ_SUITE_TEST_PLAY"

func TestMain(m *testing.M) {
	switch os.Getenv(playVariable) {
	case "":
		goleak.VerifyTestMain(m)
	case "broker":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		if err := os.MkdirAll(os.Args[2], 0o755); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, `level=INFO msg="something else" amqp=wrong`)
		fmt.Fprintln(os.Stderr, `level=INFO msg="BasaltMQ is ready" version=1 amqp=127.0.0.1:7 sockets=epoll files=posix io="a reason=x" durability=fsync`)
		<-stop
	case "broken":
		fmt.Fprintln(os.Stderr, "the data directory is locked")
		os.Exit(1)
	case "scenario":
		fmt.Printf("{\"arguments\": %q}", strings.Join(os.Args[1:], " "))
	case "slow":
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, os.Interrupt)
		fmt.Print(`{"interrupted": true}`)
		if err := os.WriteFile(os.Args[1], nil, 0o600); err != nil {
			panic(err)
		}
		<-stop
	}
}

func TestLauncher(t *testing.T) {
	t.Setenv(playVariable, "broker")
	directory := t.TempDir()
	launcher := &Launcher{Binary: os.Args[0], Directory: directory, Commit: "abc"}
	broker, err := launcher.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := results.Record{
		DataDir: broker.Record.DataDir, Durability: "fsync", IOBackend: "sockets: epoll, files: posix", Commit: "abc",
	}
	if broker.URI != "amqp://guest:guest@127.0.0.1:7/" || broker.PID == 0 || broker.Record != want {
		t.Errorf("%+v", broker)
	}
	if !strings.HasPrefix(broker.Record.DataDir, directory) {
		t.Errorf("data directory %s", broker.Record.DataDir)
	}
	pid := broker.PID
	if err := broker.Stop(); err != nil {
		t.Error(err)
	}
	if err := broker.Stop(); err != nil {
		t.Errorf("a second time: %v", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the process is still there: %v", err)
	}
	if left, _ := os.ReadDir(directory); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}

	t.Setenv(playVariable, "broken")
	if _, err := launcher.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "the data directory is locked") {
		t.Errorf("%v", err)
	}
	launcher.Binary = filepath.Join(directory, "none")
	if _, err := launcher.Start(t.Context()); err == nil || !strings.Contains(err.Error(), "can't start the broker") {
		t.Errorf("%v", err)
	}
	if left, _ := os.ReadDir(directory); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestChild(t *testing.T) {
	t.Setenv(playVariable, "scenario")
	raw, err := RunChild(t.Context(), os.Args[0], "throughput", "-x", "1")
	if err != nil || string(raw) != `{"arguments": "throughput -x 1 -q -j"}` {
		t.Errorf("%s, %v", raw, err)
	}
	t.Setenv(playVariable, "broken")
	if _, err := RunChild(t.Context(), os.Args[0], "throughput"); err == nil || err.Error() != "throughput: the data directory is locked" {
		t.Errorf("%v", err)
	}
	// Ctrl-C reaches the child, and what it wrote is there.
	t.Setenv(playVariable, "slow")
	ctx, cancel := context.WithCancel(t.Context())
	started := filepath.Join(t.TempDir(), "started")
	go func() {
		for _, err := os.Stat(started); err != nil && t.Context().Err() == nil; _, err = os.Stat(started) {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if raw, err := RunChild(ctx, os.Args[0], started); err != nil || string(raw) != `{"interrupted": true}` {
		t.Errorf("%s, %v", raw, err)
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	var tree any
	const text = `{"a": {"b": [1, {"c": 2}]}, "rows": [{"queues": 1, "window": 10, "x": 3}, {"queues": 1, "window": 100, "x": 4, "name": "t.d"}], "s": "x"}`
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]float64{
		"a.b.0": 1, "a.b.1.c": 2, "rows[queues=1,window=100].x": 4, "rows[window=10].x": 3, "rows[name=t.d].x": 4,
	} {
		if got, err := find(tree, path); err != nil || got != want {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	for path, want := range map[string]string{
		"a.x": `there is no "x"`, "a.b.7": "there is no", "a.b.-1": "there is no", "s": "not a number", "a": "not a number", "": "not a number",
		"rows[queues=2].x": "no element with queues=2", "a[x=1]": "no element", "rows[queues": "no closing bracket", "s.t": "there is no",
	} {
		if _, err := find(tree, path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}

func FuzzFind(f *testing.F) {
	f.Add(`{"rows": [{"a": 1}]}`, "rows[a=1].a")
	f.Add(`[[1]]`, "0.0")
	f.Fuzz(func(_ *testing.T, text, path string) {
		var tree any
		if json.Unmarshal([]byte(text), &tree) == nil {
			_, _ = find(tree, path)
		}
	})
}

// A series keeps its ends and its order however long it gets.
func TestSeriesIsThinnedOut(t *testing.T) {
	t.Parallel()
	m := &memorySeries{}
	thinned := 0
	for i := range 10 * seriesMax {
		if m.add(float64(i), float64(-i)) {
			thinned++
		}
	}
	s := m.series
	if len(s.Seconds) > seriesMax || len(s.Values) != len(s.Seconds) || thinned == 0 || s.Seconds[0] != 0 || s.Seconds[len(s.Seconds)-1] != 10*seriesMax-1 {
		t.Errorf("%d points, thinned %d times: %v", len(s.Seconds), thinned, s.Seconds)
	}
	if !slices.IsSorted(s.Seconds) {
		t.Errorf("%v", s.Seconds)
	}
}

func TestSections(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, section := range Sections() {
		for _, step := range section.Steps {
			for _, figure := range step.Figures {
				if seen[figure.Name] || figure.Name == "" || figure.Path == "" || figure.Better == "" {
					t.Errorf("section %s: %+v", section.Name, figure)
				}
				seen[figure.Name] = true
			}
		}
	}
	for _, d := range derived {
		seen[d.name] = true
	}
	for _, target := range results.Targets {
		if !seen[target.Figure] {
			t.Errorf("nothing measures %s", target.Figure)
		}
	}
	chosen, err := SelectSections("latency, many")
	if err != nil || len(chosen) != 2 || chosen[1].Name != "many" {
		t.Errorf("%v, %v", chosen, err)
	}
	if _, err := SelectSections("weather"); err == nil {
		t.Error("a section that is none was selected")
	}
}

// What goes wrong in a section costs its figures and no others.
func TestRunnerGoesOn(t *testing.T) {
	t.Parallel()
	tool := &scriptedTool{replies: map[string]string{
		"calibrate":  `{"relay_messages_per_s": 100, "memory_copy_bytes_per_s": 5}`,
		"throughput": `{"versions": {"broker_product": "X"}, "rate": 50}`,
		"confirm":    `{"error": "it went away"}`,
	}}
	figure := func(name, path string) []Extract {
		return []Extract{{Name: name, Path: path, Better: results.More, Yardstick: relay}}
	}
	runner := &Runner{Tool: tool, Running: &Broker{URI: "x"}, Scale: DefaultScale(), Sections: []Section{
		{Name: "one", Steps: []Step{{Scenario: "confirm", Figures: figure("a", "x")}, {Scenario: "throughput", Figures: figure("b", "rate")}}},
		{Name: "two", Steps: []Step{{Scenario: "backlog", Figures: figure("c", "x")}}},
		{Name: "three", Steps: []Step{{Scenario: "throughput", Arguments: "-z {time} {disk}", Figures: append(figure("d", "rate"), figure("e", "nothing")...)}, {Scenario: "throughput", Flags: "--loops 1", Figures: figure("f", "rate")}}},
	}}
	result, err := runner.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if f := result.Find("d"); f == nil || f.Value != 50 || f.Fraction == nil || *f.Fraction != 0.5 || f.YardstickValue != 100 {
		t.Errorf("%+v", f)
	}
	var left []string
	for _, l := range result.LeftOut {
		left = append(left, l.Figure+": "+l.Reason)
	}
	want := []string{
		"a: confirm ended with: it went away", "b: the section ended early", "c: no such scenario", `e: path "nothing": there is no "nothing"`,
		"f: needs a broker that is started with --loops 1 (--broker-binary)",
	}
	if !slices.Equal(left, want) {
		t.Errorf("left out %q", left)
	}
	if result.Sections[0].Error == "" || result.Sections[1].Error == "" || result.Sections[2].Error != "" || result.Versions.BrokerProduct != "X" {
		t.Errorf("%+v", result.Sections)
	}
	if !slices.Contains(tool.calls, "throughput -z 3 --uri x") || tool.deleted != 3 {
		t.Errorf("calls %q, %d times deleted", tool.calls, tool.deleted)
	}
}

// scriptedTool answers with what it was told.
type scriptedTool struct {
	replies map[string]string
	calls   []string
	deleted int
}

func (s *scriptedTool) Run(_ context.Context, arguments ...string) ([]byte, error) {
	s.calls = append(s.calls, strings.Join(arguments, " "))
	if reply, known := s.replies[arguments[0]]; known {
		return []byte(reply), nil
	}
	return nil, errors.New("no such scenario")
}

func (*scriptedTool) Memory(int) (results.Memory, error) { return results.Memory{RSS: 1 << 20}, nil }

func (s *scriptedTool) DeleteQueues(string, []string) error {
	s.deleted++
	return nil
}
