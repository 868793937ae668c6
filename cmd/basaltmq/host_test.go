package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestPIDFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "pid")
	p := startBroker(t, t.TempDir(), "--pidfile", file)
	if data, err := os.ReadFile(file); err != nil || string(data) != strconv.Itoa(p.cmd.Process.Pid)+"\n" {
		t.Errorf("%q, %v", data, err)
	}
	p.signal(syscall.SIGTERM)
	p.wait()
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if r := runToEnd(t, "-D", t.TempDir(), "-p", "0", "--pidfile", filepath.Join(file, "below")); r.code != 1 || !strings.Contains(r.stderr, "pidfile") {
		t.Errorf("%+v", r)
	}
}

// TestFewFiles: the broker raises its own limit as far as it may, and warns if
// that is not far.
func TestFewFiles(t *testing.T) {
	t.Parallel()
	script := filepath.Join(t.TempDir(), "few")
	text := fmt.Sprintf("#!/bin/sh\nulimit -S -n 100 && ulimit -H -n 300 && exec %s \"$@\"\n", binary)
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	p := launchProgram(t, script, "-D", t.TempDir(), "-p", "0", "--loops", "1")
	if line := p.line("few open files"); !strings.Contains(line, "limit=300 ") {
		t.Errorf("said %q", line)
	}
	if p.line("BasaltMQ is ready") == "" {
		t.Errorf("did not start:\n%s", p.stderr())
	}
}

// TestSocketActivation: clients connect to sockets that were opened before the
// broker was started; one that nothing would serve stops the start.
func TestSocketActivation(t *testing.T) {
	t.Parallel()
	open := func() (*os.File, string) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		f, err := l.(*net.TCPListener).File()
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
		t.Cleanup(func() { f.Close() })
		return f, l.Addr().String()
	}
	amqp, amqpAddr := open()
	http, httpAddr := open()
	// A shell has the number that its successor will have.
	script := filepath.Join(t.TempDir(), "activate")
	if err := os.WriteFile(script, []byte("#!/bin/sh\nexport LISTEN_PID=$$\nexec "+binary+" \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	with := func(names string) func(*exec.Cmd) {
		return func(c *exec.Cmd) {
			c.ExtraFiles = []*os.File{http, amqp}
			c.Env = append(c.Env, "LISTEN_FDS=2", "LISTEN_FDNAMES="+names)
		}
	}
	p := launchWith(t, script, with("http:amqp"), "-D", t.TempDir(), "--loops", "1")
	p.start = parseFields(p.line("BasaltMQ is ready"))
	if p.start["amqp"] != amqpAddr || p.start["http"] != httpAddr {
		t.Fatalf("serves %v\n%s", p.start, p.stderr())
	}
	connect(t, amqpAddr)
	p.signal(syscall.SIGTERM)
	p.wait()

	p = launchWith(t, script, with("amqps:amqp"), "-D", t.TempDir(), "--loops", "1")
	refused(t, p.wait(), "amqps needs tls.cert")
	p = launchWith(t, script, with("amqp:amqp"), "-D", t.TempDir(), "--loops", "1")
	refused(t, p.wait(), "2 sockets named")
	p = launchWith(t, script, with("amqp:mqtt"), "-D", t.TempDir(), "--loops", "1")
	refused(t, p.wait(), "FileDescriptorName=")
}
