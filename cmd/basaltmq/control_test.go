package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestControl_Programs administers the real broker with the real basaltmqctl:
// what was answered is there after kill -9, and the socket is replaced.
func TestControl_Programs(t *testing.T) {
	t.Parallel()
	ctl := filepath.Join(t.TempDir(), "basaltmqctl")
	if out, err := exec.Command("go", "build", "-o", ctl, "../basaltmqctl").CombinedOutput(); err != nil {
		t.Fatalf("building basaltmqctl: %v\n%s", err, out)
	}
	dir := t.TempDir()
	tell := func(status int, want string, args ...string) {
		t.Helper()
		c := exec.Command(ctl, append(args, "-D", dir)...)
		out, _ := c.CombinedOutput()
		if c.ProcessState.ExitCode() != status || !strings.Contains(string(out), want) {
			t.Errorf("%q: status %d, %s\nwant %d, %q", args, c.ProcessState.ExitCode(), out, status, want)
		}
	}
	file := filepath.Join(t.TempDir(), "basaltmq.toml")
	configure := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	configure("")
	p := startBroker(t, dir, "-c", file)
	tell(0, "nothing has changed", "reload")
	configure("durability = \"os\"\n[log]\nlevel = \"warn\"\n")
	tell(0, "taken over: log.level\nneeds a restart: durability\n", "reload")
	for _, want := range []string{"db_dir", `"warn"  (` + file + `:3)`, `"********"`, `"fsync"`} {
		tell(0, want, "environment")
	}
	tell(0, `"from": "`+file+`:3"`, "environment", "--format", "json")
	configure("[log]\nlevle = \"warn\"\n")
	tell(1, "the old one stays:\n  "+file+":2: unknown key log.levle: did you mean log.level?\n", "reload")
	configure("")
	tell(0, `{"changed":["log.level"],"files":[],"needs_restart":[]}`, "reload", "--format", "json")
	tell(0, "", "add_user", "ann", "s3cret")
	tell(1, "user 'ann' exists", "add_user", "ann", "s3cret")
	tell(0, "", "set_permissions", "ann", ".*", ".*", ".*")
	tell(0, "", "set_policy", "p", "", `{"max-length":5}`)
	p.signal(syscall.SIGKILL)
	p.wait()
	tell(2, "was killed; start it again", "status")
	p = startBroker(t, dir)
	tell(0, "p\t{\"max-length\":5}\n", "list_policies", "name", "definition")
	c := login(t, p.addr, "ann", "s3cret")
	if _, err := c.frame(); err != nil {
		t.Errorf("ann cannot log in: %v", err)
	}
	p.signal(syscall.SIGTERM)
	p.wait()
	tell(2, "no broker is running", "status")
}

// TestFlags_Definitions: a file that is refused stops the start with a line for
// each problem; one that is good is imported.
func TestFlags_Definitions(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "definitions.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write(`{"queues":[{"name":"q","vhost":"none"},{"vhost":"/"}]}`)
	if r := runToEnd(t, "-D", dir, "-p", "0", "--definitions", file); r.code != 1 || !strings.Contains(r.stderr, "cannot start: ") || !strings.Contains(r.stderr, "\n  $.queues[1]: 'name' is missing") {
		t.Errorf("status %d: %s", r.code, r.stderr)
	}
	if r := runToEnd(t, "-D", dir, "-p", "0", "--definitions", file+".none"); r.code != 1 || !strings.Contains(r.stderr, "the definitions cannot be read") {
		t.Errorf("status %d: %s", r.code, r.stderr)
	}
	write(`{"queues":[{"name":"q","vhost":"/"}]}`)
	p := startBroker(t, dir, "--definitions", file)
	if line := p.line("definitions are imported"); !strings.Contains(line, "changes=1") {
		t.Errorf("said %q", line)
	}
	p.signal(syscall.SIGTERM)
	p.wait()
	p = startBroker(t, dir, "--definitions", file)
	if line := p.line("definitions are imported"); !strings.Contains(line, "changes=0") || p.start["queues"] != "1" {
		t.Errorf("at the second start said %q", line)
	}
}
