package main

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestFlags_VersionAndHelp(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--version", "-v", "-version"} {
		r := runToEnd(t, flag)
		want := "basaltmq 1.2.3-test " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"
		if r != (result{stdout: want}) {
			t.Errorf("%s: %+v, want stdout %q", flag, r, want)
		}
	}
	for _, flag := range []string{"--help", "-h"} {
		r := runToEnd(t, flag)
		if r.code != 0 || r.stderr != "" {
			t.Errorf("%s: %+v", flag, r)
		}
		for _, name := range []string{"-D", "--data-dir", "-b", "--bind", "-p", "--amqp-port", "--durability", "--io", "--loops", "--default-user", "--default-password", "--loopback-users", "-l", "--log-level", "-v", "--version", "-h", "--help", "-c", "--config"} {
			if !strings.Contains(r.stdout, name) {
				t.Errorf("the help does not mention %s", name)
			}
		}
	}
}

// TestFlags_Config: a file is read, checked without starting, and printed.
func TestFlags_Config(t *testing.T) {
	t.Parallel()
	defaults := runToEnd(t, "--print-default-config")
	if defaults.code != 0 || !strings.Contains(defaults.stdout, "[amqp]\n") {
		t.Errorf("%+v", defaults)
	}
	file := filepath.Join(t.TempDir(), "basaltmq.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(defaults.stdout)
	if r := runToEnd(t, "-c", file, "--check"); r.code != 0 || r.stderr != "" || !strings.Contains(r.stdout, file) {
		t.Errorf("%+v", r)
	}
	write("loop = 1\n[amqp]\nbind = 5\n")
	if r := runToEnd(t, "-c", file, "--check"); r.code != 1 || r.stdout != "" || strings.Count(r.stderr, "basaltmq: "+file+":") != 2 {
		t.Errorf("%+v", r)
	}
	dir := filepath.Join(t.TempDir(), "data")
	write("data_dir = \"" + dir + "\"\nloops = 1\n[amqp]\nport = 0\n[http]\nport = -1\n[metrics]\nport = -1\n[log]\nlevel = \"error\"\n")
	p := launch(t, "-c", file, "--log-level", "info")
	if fields := parseFields(p.line("BasaltMQ is ready")); fields["data_dir"] != dir || fields["config"] != file || fields["loops"] != "1" {
		t.Errorf("started as %v", fields)
	}
}

func TestFlags_Bad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rows := []struct {
		args []string
		want string
	}{
		{[]string{"-D", ""}, "data_dir"},
		{[]string{"-c", filepath.Join(dir, "none.toml")}, "cannot be read"},
		{[]string{"-D"}, "-D"},
		{[]string{"--nonsense"}, "nonsense"},
		{[]string{"-D", dir, "extra"}, `"extra"`},
		{[]string{"-D", dir, "-p", "65536"}, "65536"},
		{[]string{"-D", dir, "-p", "-1"}, "-1"},
		{[]string{"-D", dir, "--amqp-port", "amqp"}, "amqp"},
		{[]string{"-D", dir, "--bind", "localhost"}, `"localhost"`},
		{[]string{"-D", dir, "-b", "127.0.0.1:5672"}, "IP address"},
		{[]string{"-D", dir, "--durability", "maybe"}, "fsync"},
		{[]string{"-D", dir, "--io", "mmap"}, "posix"},
		{[]string{"-D", dir, "--loops", "-1"}, "--loops"},
		{[]string{"-D", dir, "--loops", "1000"}, "--loops"},
		{[]string{"-D", dir, "-l", "loud"}, "debug"},
		{[]string{"-D", dir, "--default-user", "joe"}, "--default-password"},
		{[]string{"-D", dir, "--default-password", "x"}, "--default-user"},
	}
	for _, row := range rows {
		refused(t, runToEnd(t, row.args...), row.want)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("a refused start left %v in the data directory (%v)", entries, err)
	}
}

func TestStart_DataDirInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	startBroker(t, dir)
	refused(t, runToEnd(t, "-D", dir, "-p", "0"), "in use by another broker")
}

func TestStart_PortInUse(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
	refused(t, runToEnd(t, "-D", t.TempDir(), "-p", port), "--amqp-port")

	// Another broker's port too, for all that SO_REUSEPORT would allow.
	first := startBroker(t, t.TempDir())
	_, port, err = net.SplitHostPort(first.addr)
	if err != nil {
		t.Fatal(err)
	}
	refused(t, runToEnd(t, "-D", t.TempDir(), "-p", port), port)
}

func TestStart_UnwritableDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, runToEnd(t, "-D", file, "-p", "0"), "data directory")
	refused(t, runToEnd(t, "-D", filepath.Join(file, "below"), "-p", "0"), "data directory")
	refused(t, runToEnd(t, "-D", "/proc/basaltmq", "-p", "0"), "data directory")
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("the file was touched: %q, %v", data, err)
	}
	if os.Geteuid() == 0 {
		return // root may write anywhere
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	refused(t, runToEnd(t, "-D", dir, "-p", "0"), "not writable")
}

func TestStart_DamagedDefinitions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "definitions"), []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, runToEnd(t, "-D", dir, "-p", "0"), "definitions")
}

func TestStart_Line(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by the broker")
	p := startBroker(t, dir, "--io", "posix", "--bind", "127.0.0.1", "--durability", "os")
	want := map[string]string{
		"version": "1.2.3-test", "pid": strconv.Itoa(p.cmd.Process.Pid), "data_dir": dir, "level": "INFO",
		"files": "posix", "io": "asked for", "loops": "1", "durability": "os", "queues": "0", "messages": "0",
	}
	for name, value := range want {
		if p.start[name] != value {
			t.Errorf("%s=%q, want %q", name, p.start[name], value)
		}
	}
	if p.start["sockets"] == "" || p.start["took"] == "" {
		t.Errorf("the line says %v", p.start)
	}
	if host, port, err := net.SplitHostPort(p.start["amqp"]); err != nil || host != "127.0.0.1" || port == "0" {
		t.Errorf("amqp=%q", p.start["amqp"])
	}
	if p.out.Len() > 0 {
		t.Errorf("stdout: %q", p.out.String())
	}
	if n := strings.Count(p.stderr(), "\n"); n != 1 {
		t.Errorf("%d lines at start", n)
	}
}

func TestStart_LogLevel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const own = "127.0.99.1" // where nobody else takes a port
	l, err := net.Listen("tcp", own+":0")
	if err != nil {
		t.Fatal(err)
	}
	addr, port := l.Addr().String(), l.Addr().(*net.TCPAddr).Port
	l.Close() // free for the broker, which will not say when it is ready
	p := launch(t, "-D", dir, "--bind", own, "-p", strconv.Itoa(port), "--log-level", "error")
	p.await("the broker listens", func() bool { return !gone(addr) })
	p.signal(syscall.SIGTERM)
	if r := p.wait(); r.code != 0 || r.stderr != "" {
		t.Errorf("exit status %d, said %q", r.code, r.stderr)
	}
}

// TestDefaultUser is made by the first start, and by no other.
func TestDefaultUser(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	allowed := func(p *process, user, password string, want bool) {
		t.Helper()
		c := login(t, p.addr, user, password)
		if f, err := c.frame(); (err == nil) != want {
			t.Errorf("%s %s: frame %v, %v", user, password, f.Type, err)
		}
	}
	p := startBroker(t, dir, "--default-user", "root", "--default-password", "s3cret")
	allowed(p, "root", "s3cret", true)
	allowed(p, "root", "guest", false)
	allowed(p, "guest", "guest", false)
	p.signal(syscall.SIGTERM)
	p.wait()
	p = startBroker(t, dir, "--default-user", "other", "--default-password", "x")
	allowed(p, "root", "s3cret", true)
	allowed(p, "other", "x", false)
	if !strings.Contains(p.stderr(), "has users already") {
		t.Errorf("said nothing of it:\n%s", p.stderr())
	}
}
