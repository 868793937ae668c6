package perf

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/perf/cli"
	"go.uber.org/goleak"
)

// TestMain lets the test binary be the relay child of calibrate, which starts
// its own executable.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == relayCommand {
		os.Exit(Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	goleak.VerifyTestMain(m)
}

// runMain runs the tool in this process.
func runMain(ctx context.Context, arguments ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = Main(ctx, arguments, strings.NewReader(""), &out, &err)
	return code, out.String(), err.String()
}

// longEnough measures for a short time, and for longer while try says that it was
// not enough, as on a machine with other things to do.
func longEnough(try func(seconds string) bool) {
	for seconds := 0.4; !try(fmt.Sprint(seconds)) && seconds < 20; {
		seconds *= 4
	}
}

// throughput runs the scenario with JSON output and returns the result.
func throughput(t *testing.T, wantCode int, uri string, arguments ...string) (throughputResult, string) {
	t.Helper()
	all := append([]string{"throughput", "--uri", uri, "-q", "-j"}, arguments...)
	code, stdout, stderr := runMain(t.Context(), all...)
	if code != wantCode {
		t.Fatalf("exit status %d, want %d; stderr: %s", code, wantCode, stderr)
	}
	var result throughputResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("%v in %q", err, stdout)
	}
	return result, stderr
}

// Every combination must publish and consume exactly what it was told to.
func TestThroughputCounts(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		arguments []string
		adjust    func(*fakeBroker)
		confirmed uint64
		nacked    uint64
	}{
		{name: "plain"},
		{name: "one loop", arguments: []string{"--loops", "1"}},
		{name: "three loops", arguments: []string{"--loops", "3", "-x3", "-y2"}},
		{name: "many clients", arguments: []string{"-x7", "-y5"}},
		{name: "empty body", arguments: []string{"-s0"}},
		{name: "body in several frames", arguments: []string{"-s", "10000", "-V"}, adjust: func(b *fakeBroker) { b.frameMax = 4096 }},
		{name: "verify", arguments: []string{"-V", "-x2", "-y3", "-s", "100"}},
		{name: "verify tiny", arguments: []string{"-V", "-s5"}},
		{name: "verify random", arguments: []string{"-V", "--random-bodies", "-s", "4099"}, adjust: func(b *fakeBroker) { b.frameMax = 4096 }},
		{name: "random without verify", arguments: []string{"--random-bodies"}},
		{name: "latency", arguments: []string{"-l", "-V", "-s", "33"}},
		{name: "confirm window", arguments: []string{"-c", "10"}, confirmed: 1000},
		{name: "confirm window 1", arguments: []string{"-c", "1", "-x2"}, confirmed: 1000},
		{name: "confirm singly", arguments: []string{"-c", "100"}, confirmed: 1000, adjust: func(b *fakeBroker) { b.confirmSingly = true }},
		{name: "nacks", arguments: []string{"-c", "100", "-V"}, confirmed: 900, nacked: 100,
			adjust: func(b *fakeBroker) { b.confirmSingly, b.nackEvery = true, 10 }},
		{name: "transactions", arguments: []string{"-t", "7"}},
		{name: "stamped transactions", arguments: []string{"-t", "7", "-l", "-x2"}},
		{name: "paced", arguments: []string{"-r", "20k", "-x2"}},
		{name: "paced latency", arguments: []string{"-r", "20k", "-l"}},
		{name: "paced consumer", arguments: []string{"-R", "20k"}},
		{name: "poll", arguments: []string{"-g"}},
		{name: "paced poll with acks", arguments: []string{"-g", "-a", "3", "-R", "20k"}},
		{name: "pattern", arguments: []string{"-x4", "-y4", "--queue-pattern", "q-%d", "--queue-pattern-from", "3", "--queue-pattern-to", "5"}},
		{name: "properties", arguments: []string{"--properties", `{"priority":3,"headers":{"a":1.5,"b":[true,null]}}`, "-p"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			uri, broker := startFakeBroker(t, test.adjust)
			result, _ := throughput(t, exitOK, uri, append([]string{"-C", "1000"}, test.arguments...)...)
			if result.PublishedTotal != 1000 || result.ConsumedTotal != 1000 {
				t.Errorf("published %d, consumed %d, want 1000 each", result.PublishedTotal, result.ConsumedTotal)
			}
			if result.ConfirmedTotal != test.confirmed || result.NackedTotal != test.nacked {
				t.Errorf("confirmed %d, nacked %d, want %d, %d", result.ConfirmedTotal, result.NackedTotal, test.confirmed, test.nacked)
			}
			if result.VerifyFailures != 0 {
				t.Errorf("%d bodies wrong", result.VerifyFailures)
			}
			if result.Latency != nil && (result.Latency.Samples != 1000 || result.Latency.Stale != 0) {
				t.Errorf("latency of %d messages, %d stale, want 1000, 0", result.Latency.Samples, result.Latency.Stale)
			}
			broker.mu.Lock()
			defer broker.mu.Unlock()
			if broker.published != 1000 || broker.bodies != 1000*int(result.Options.Size) {
				t.Errorf("the broker got %d messages, %d bytes", broker.published, broker.bodies)
			}
		})
	}
}

func TestThroughputAcksEveryN(t *testing.T) {
	t.Parallel()
	for _, every := range []string{"1", "7", "1000"} {
		t.Run(every, func(t *testing.T) {
			t.Parallel()
			uri, broker := startFakeBroker(t, nil)
			result, _ := throughput(t, exitOK, uri, "-C", "1001", "-a", every)
			count, _ := cli.ParseQuantity(every)
			want := 1001 / count
			if result.AckedTotal != want*count {
				t.Errorf("acked %d, want %d", result.AckedTotal, want*count)
			}
			broker.mu.Lock()
			defer broker.mu.Unlock()
			if broker.ackFrames != int(want) || broker.acked != int(want*count) {
				t.Errorf("the broker got %d ack frames for %d messages, want %d for %d", broker.ackFrames, broker.acked, want, want*count)
			}
		})
	}
}

func TestThroughputCommitsAcks(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, nil)
	throughput(t, exitOK, uri, "-C", "1000", "-a", "5", "-T", "10")
	broker.mu.Lock()
	defer broker.mu.Unlock()
	if broker.commits != 100 {
		t.Errorf("%d commits, want 100", broker.commits)
	}
}

func TestThroughputCommitsPublishes(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, nil)
	throughput(t, exitOK, uri, "-C", "1000", "-t", "300", "-y0")
	broker.mu.Lock()
	defer broker.mu.Unlock()
	if broker.commits != 4 {
		t.Errorf("%d commits, want 4: the last one for a short transaction", broker.commits)
	}
}

// With confirms held back the publisher must stop exactly at its window.
func TestThroughputConfirmWindowHolds(t *testing.T) {
	t.Parallel()
	for _, extra := range [][]string{{}, {"-l"}} {
		uri, broker := startFakeBroker(t, func(b *fakeBroker) { b.holdConfirms = true })
		arguments := append([]string{"-c", "37", "-D", "37"}, extra...)
		result, _ := throughput(t, exitOK, uri, arguments...)
		if result.PublishedTotal != 37 || result.ConfirmedTotal != 0 {
			t.Errorf("published %d, confirmed %d, want 37, 0", result.PublishedTotal, result.ConfirmedTotal)
		}
		broker.mu.Lock()
		if broker.unacked != 37 {
			t.Errorf("%d unconfirmed, want 37", broker.unacked)
		}
		broker.mu.Unlock()
	}
}

func TestThroughputVerificationFails(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, func(b *fakeBroker) { b.corruptEvery = 10 })
	result, stderr := throughput(t, exitFailure, uri, "-C", "1000", "-V", "-s", "50")
	if result.VerifyFailures != 100 || !strings.Contains(stderr, "verification failed: 100 bodies wrong") {
		t.Errorf("%d failures; stderr: %s", result.VerifyFailures, stderr)
	}
	uri, _ = startFakeBroker(t, func(b *fakeBroker) { b.swapOrder = true })
	result, _ = throughput(t, exitFailure, uri, "-C", "1000", "-V", "-s", "50")
	if result.VerifyFailures != 0 || result.OutOfOrder != 500 {
		t.Errorf("%d failures, %d out of order, want 0, 500", result.VerifyFailures, result.OutOfOrder)
	}
}

// Messages that an earlier run left behind have no business in the latency.
func TestThroughputLatencyIgnoresStale(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	throughput(t, exitOK, uri, "-C", "100", "-l", "-y0")
	result, _ := throughput(t, exitOK, uri, "-C", "50", "-l")
	if result.BacklogAtStart != 100 || result.ConsumedTotal != 150 {
		t.Errorf("%d in the backlog, %d consumed, want 100, 150", result.BacklogAtStart, result.ConsumedTotal)
	}
	if result.Latency.Samples != 50 || result.Latency.Stale != 100 {
		t.Errorf("%d samples, %d stale, want 50, 100", result.Latency.Samples, result.Latency.Stale)
	}
}

func TestThroughputBrokerCloses(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, func(b *fakeBroker) { b.closeAfter = 100 })
	result, stderr := throughput(t, exitFailure, uri)
	want := "basaltmqperf: the broker closed the connection: 404 NOT_FOUND - no exchange 'gone' in vhost '/' (basic.publish)\n"
	if stderr != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
	if result.Error == "" {
		t.Error("the result does not mention the error")
	}
}

func TestThroughputSetupFails(t *testing.T) {
	t.Parallel()
	refusing, _ := startFakeBroker(t, func(b *fakeBroker) { b.refuseLogin = true })
	otherVersion, _ := startFakeBroker(t, func(b *fakeBroker) { b.greeting = "AMQP\x00\x01\x00\x00" })
	nonsense, _ := startFakeBroker(t, func(b *fakeBroker) { b.greeting = "HTTP/1.1 400 Bad Request\r\n\r\n" })
	silent, _ := startFakeBroker(t, nil)
	tests := []struct{ name, uri, want string }{
		{"nobody listens", "amqp://127.0.0.1:1", "can't reach the broker at 127.0.0.1:1"},
		{"login", refusing, "403 ACCESS_REFUSED - no"},
		{"other protocol version", otherVersion, "does not speak AMQP 0-9-1"},
		{"no AMQP", nonsense, "not AMQP 0-9-1"},
		{"bad JSON", silent, "--queue-args is not a JSON object"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			arguments := []string{"throughput", "--uri", test.uri, "-z1"}
			wantCode := exitFailure
			if test.name == "bad JSON" {
				arguments, wantCode = append(arguments, "--queue-args", "[]"), exitUsage
			}
			code, _, stderr := runMain(t.Context(), arguments...)
			if code != wantCode || !strings.Contains(stderr, test.want) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("exit status %d, stderr %q; want %d and one line with %q", code, stderr, wantCode, test.want)
			}
		})
	}
}

// Cancelling the context is what Ctrl-C does.
func TestThroughputInterrupted(t *testing.T) {
	t.Parallel()
	uri, broker := startFakeBroker(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	broker.wait.Go(func() {
		broker.waitFor(func() bool { return broker.published >= 500 })
		cancel()
	})
	code, stdout, stderr := runMain(ctx, "throughput", "--uri", uri, "-q", "-j", "-c", "100")
	var result throughputResult
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitOK {
		t.Fatalf("exit status %d, %v, stderr %q", code, err, stderr)
	}
	if !result.Interrupted || result.PublishedTotal < 400 {
		t.Errorf("interrupted %v, published %d", result.Interrupted, result.PublishedTotal)
	}
}

// The names in the JSON result are an interface: scripts depend on them.
func TestThroughputJSONKeys(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	file := filepath.Join(t.TempDir(), "result.json")
	code, stdout, stderr := runMain(t.Context(), "throughput", "--uri", uri, "-q", "-C", "100", "-c", "10", "-l",
		"--json", file, "--broker-pid", selfPID(), "--data-dir", t.TempDir())
	if code != exitOK || !strings.Contains(stdout, "Published") {
		t.Fatalf("exit status %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var result map[string]any
	if err := json.Unmarshal(raw, &result); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"scenario", "seconds", "interrupted", "published_per_s", "consumed_per_s", "confirmed_per_s",
		"published_total", "consumed_total", "confirmed_total", "publish_wire_bytes",
		"latency.p50_us", "latency.p99_us", "latency.p99_9_us", "latency.max_us", "latency.samples",
		"broker_cpu_ns_per_message", "client_cpu_ns_per_message", "client_loops_busy", "client_is_bottleneck",
		"rss.last.vm_rss", "rss.max.vm_hwm", "rss.max.rss_anon", "rss.max.rss_file",
		"options.publishers", "options.size", "options.uri", "versions.tool", "versions.broker_product", "versions.broker_version",
		"environment.cpu.model", "environment.cpu.cores", "environment.cpu.features", "environment.kernel",
		"environment.filesystem", "environment.go_version", "environment.goarch", "environment.time",
	} {
		var value any = result
		for key := range strings.SplitSeq(path, ".") {
			object, _ := value.(map[string]any)
			value = object[key]
		}
		if value == nil {
			t.Errorf("%s is missing", path)
		}
	}
	if strings.Contains(string(raw), "guest:guest") {
		t.Error("the result contains the password")
	}
}

func TestProgressLine(t *testing.T) {
	t.Parallel()
	uri, _ := startFakeBroker(t, nil)
	code, _, stderr := runMain(t.Context(), "throughput", "--uri", uri, "-r", "1k", "-z", "2", "--warmup", "0.1", "-c", "50", "-l", "--broker-pid", selfPID())
	if code != exitOK {
		t.Fatalf("exit status %d: %s", code, stderr)
	}
	for _, want := range []string{"published", "consumed", "confirmed", "latency p50", "broker", "CPU"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %q", want, stderr)
		}
	}
}

func TestCalibrate(t *testing.T) {
	t.Parallel()
	var result calibrateResult
	longEnough(func(seconds string) bool {
		code, stdout, stderr := runMain(t.Context(), "calibrate", "-z", seconds, "-j")
		if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitOK {
			t.Fatalf("exit status %d, %v, stderr %q", code, err, stderr)
		}
		return result.MessagesPerSecond > 0
	})
	if result.WireBytes != 73 || result.MessagesPerSecond <= 0 {
		t.Errorf("%d bytes per message, %f messages/s", result.WireBytes, result.MessagesPerSecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if code, stdout, _ := runMain(ctx, "calibrate", "-z", "1000"); code != exitOK || !strings.Contains(stdout, "Bare relay") {
		t.Errorf("interrupted: exit status %d, stdout %q", code, stdout)
	}
}

// Whatever becomes of calibrate, its child must not stay behind.
func TestRelayEndsWithItsParent(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.Command(self, relayCommand)
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	if err := child.Wait(); child.ProcessState.ExitCode() != exitFailure {
		t.Errorf("the child ended with %v", err)
	}
}
