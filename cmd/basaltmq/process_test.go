package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The tests here run the real program, built once the way `make build` does.

// patience bounds waits for a condition; reaching it is a failure.
const patience = time.Minute

// binary is the program under test.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "basaltmq-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "basaltmq")
	build := exec.Command("go", "build", "-tags", "uring", "-ldflags", "-checklinkname=0 -X main.version=1.2.3-test", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building the broker: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// result is how a run of the program ended.
type result struct {
	stdout, stderr string
	code           int
}

// runToEnd runs the program with args until it ends by itself.
func runToEnd(t *testing.T, args ...string) result {
	t.Helper()
	p := launch(t, args...)
	return p.wait()
}

// process is a running broker.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	args []string
	out  strings.Builder
	done chan struct{} // closed when the process has ended and its output is read

	mu    sync.Mutex
	lines []string // of stderr
	more  chan struct{}

	addr  string            // where clients connect
	start map[string]string // fields of the line at start
}

// launch starts the program; the test's cleanup ends it. Arguments of the form
// NAME=value are for its environment.
func launch(t *testing.T, args ...string) *process {
	t.Helper()
	return launchProgram(t, binary, args...)
}

// launchProgram is launch for a program that becomes the broker.
func launchProgram(t *testing.T, program string, args ...string) *process {
	t.Helper()
	return launchWith(t, program, func(*exec.Cmd) {}, args...)
}

// launchWith is launchProgram with a change of how it is started.
func launchWith(t *testing.T, program string, change func(c *exec.Cmd), args ...string) *process {
	t.Helper()
	var env []string
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
		name, _, ok := strings.Cut(arg, "=")
		if ok = ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""; ok {
			env = append(env, arg)
		}
		return ok
	})
	p := &process{t: t, args: args, cmd: exec.Command(program, args...), done: make(chan struct{}), more: make(chan struct{}, 1)}
	p.cmd.Env = append(append(os.Environ(), "BASALTMQ_HTTP_PORT=0", "BASALTMQ_METRICS_PORT=0"), env...)
	change(p.cmd)
	p.cmd.Stdout = &p.out
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.done)
		for scanner := bufio.NewScanner(stderr); scanner.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, scanner.Text())
			p.mu.Unlock()
			select {
			case p.more <- struct{}{}:
			default:
			}
		}
		_ = p.cmd.Wait() // ProcessState says it all
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // an error says that it has ended
		p.wait()
		if t.Failed() {
			t.Logf("basaltmq %s said:\n%s", strings.Join(args, " "), p.stderr())
		}
	})
	return p
}

// startBroker launches a broker on dir and waits until it is ready. A broker
// that cannot have io_uring skips the test, and says so.
func startBroker(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	p := launch(t, append([]string{"-D", dir, "-p", "0", "--loops", "1"}, args...)...)
	line := p.line("BasaltMQ is ready")
	if line == "" {
		if text := p.stderr(); strings.Contains(text, "io_uring") && strings.Contains(text, "not available") {
			t.Skipf("no io_uring here: %s", text)
		}
		t.Fatalf("the broker did not start:\n%s", p.stderr())
	}
	p.start = parseFields(line)
	p.addr = p.start["amqp"]
	return p
}

// parseFields reads a line of slog's text format.
func parseFields(line string) map[string]string {
	fields := map[string]string{}
	for line != "" {
		name, rest, ok := strings.Cut(line, "=")
		if !ok {
			break
		}
		value := ""
		if strings.HasPrefix(rest, `"`) {
			value, rest, _ = strings.Cut(rest[1:], `"`)
			rest = strings.TrimPrefix(rest, " ")
		} else {
			value, rest, _ = strings.Cut(rest, " ")
		}
		fields[name] = value
		line = rest
	}
	return fields
}

// line waits for a line of stderr with text in it; empty when the process ends
// without one.
func (p *process) line(text string) string {
	p.t.Helper()
	deadline := time.After(patience)
	for {
		ended := false
		select {
		case <-p.done:
			ended = true
		default:
		}
		p.mu.Lock()
		for _, line := range p.lines {
			if strings.Contains(line, text) {
				p.mu.Unlock()
				return line
			}
		}
		p.mu.Unlock()
		if ended {
			return ""
		}
		select {
		case <-p.more:
		case <-p.done:
		case <-deadline:
			p.t.Fatalf("waited in vain for %q:\n%s", text, p.stderr())
		}
	}
}

// await polls a condition until it holds; it is over when the process ends.
func (p *process) await(what string, done func() bool) {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !done() {
		select {
		case <-tick.C:
		case <-p.done:
			p.t.Fatalf("the broker has ended before %s:\n%s", what, p.stderr())
		case <-deadline:
			p.t.Fatalf("waited in vain until %s", what)
		}
	}
}

func (p *process) stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.lines) == 0 {
		return ""
	}
	return strings.Join(p.lines, "\n") + "\n"
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// wait returns when the process has ended.
func (p *process) wait() result {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		_ = p.cmd.Process.Kill()
		<-p.done
		p.t.Errorf("basaltmq %s did not end by itself", strings.Join(p.args, " "))
	}
	return result{stdout: p.out.String(), stderr: p.stderr(), code: p.cmd.ProcessState.ExitCode()}
}

// refused checks for the way every failed start ends: one line, exit status 1.
func refused(t *testing.T, r result, want string) {
	t.Helper()
	if r.code != 1 || r.stdout != "" || strings.Count(r.stderr, "\n") != 1 || !strings.HasPrefix(r.stderr, "basaltmq: ") || !strings.Contains(r.stderr, want) {
		t.Errorf("exit status %d, stdout %q, stderr %q; want status 1 and one line with %q", r.code, r.stdout, r.stderr, want)
	}
}

// gone says whether nothing listens on addr any more.
func gone(addr string) bool {
	c, err := net.Dial("tcp", addr)
	if err == nil {
		c.Close()
	}
	return errors.Is(err, syscall.ECONNREFUSED)
}
