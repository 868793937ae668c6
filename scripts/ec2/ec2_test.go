// Package ec2_test runs the EC2 scripts without EC2: dry, and with an aws, ssh
// and scp that only note how they were called.
package ec2_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// stubs are commands that write their name and arguments to $CALLS, one call a
// line. aws answers with what a real one would be asked for by ec2.sh, and fails when
// its arguments contain $AWS_FAILS.
const (
	noteCall = "#!/bin/bash\nprintf '%s' \"${0##*/}\" >>\"$CALLS\"; printf ' %q' \"$@\" >>\"$CALLS\"; echo >>\"$CALLS\"\n"
	awsStub  = noteCall + `
[ -z "$AWS_FAILS" ] || [[ "$*" != *"$AWS_FAILS"* ]] || { echo "stub: refused" >&2; exit 254; }
case "$*" in
*import-key-pair*) echo key-1 ;;
*describe-vpcs*) echo vpc-1 ;;
*describe-subnets*) echo subnet-1 ;;
*create-security-group*) echo sg-1 ;;
*create-placement-group*) echo pg-1 ;;
*basaltmq-bench-broker*) echo i-broker ;;
*basaltmq-bench-load*) echo i-load ;;
*PublicIpAddress*) echo 198.51.100.1 ;;
*PrivateIpAddress*) echo 10.0.0.1 ;;
esac
`
	sshStub = noteCall + `case "$*" in *"host.sh broker"*) echo 'msg="BasaltMQ is ready" sockets=epoll files=posix durability=fsync' ;; esac
`
	keygenStub = noteCall + "while [ \"$1\" != -f ]; do shift; done; echo key >\"$2\"; echo key >\"$2.pub\"\n"
)

// sandbox is a copy of the scripts in a repository of its own, with stubs
// before everything else on the path.
type sandbox struct {
	t         *testing.T
	directory string
	settings  []string
}

func newSandbox(t *testing.T) *sandbox {
	t.Helper()
	s := &sandbox{t: t, directory: t.TempDir()}
	for name, content := range map[string]string{
		"aws": awsStub, "ssh": sshStub, "scp": noteCall, "ssh-keygen": keygenStub, "go": noteCall, "sysctl": noteCall,
		"mkfs.xfs": noteCall, "mount": noteCall, "chown": noteCall, "kill": noteCall,
	} {
		s.write("stubs/"+name, content)
	}
	for _, name := range []string{"ec2.sh", "host.sh"} {
		script, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s.write("repository/scripts/ec2/"+name, string(script))
	}
	s.write("repository/.gitignore", "/tmp/\n")
	for _, arguments := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-qm", "x"}} {
		command := exec.Command("git", arguments...)
		command.Dir = filepath.Join(s.directory, "repository")
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", arguments, err, out)
		}
	}
	return s
}

func (s *sandbox) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.directory, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o755); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sandbox) run(script string, arguments ...string) (stdout, stderr string, err error) {
	s.t.Helper()
	command := exec.Command("bash", append([]string{filepath.Join(s.directory, "repository/scripts/ec2", script)}, arguments...)...)
	command.Dir = s.directory
	command.Env = append([]string{
		"PATH=" + filepath.Join(s.directory, "stubs") + ":" + os.Getenv("PATH"), "HOME=" + s.directory,
		"CALLS=" + filepath.Join(s.directory, "calls"), "EC2_SSH_FROM=203.0.113.7/32", "EC2_ROUNDS=2",
	}, s.settings...)
	var out, problems strings.Builder
	command.Stdout, command.Stderr = &out, &problems
	err = command.Run()
	return out.String(), problems.String(), err
}

// calls returns and forgets the calls of stubs.
func (s *sandbox) calls() []string {
	raw, err := os.ReadFile(filepath.Join(s.directory, "calls"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(s.directory, "calls")); err != nil {
		s.t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(raw)), "\n")
}

func (s *sandbox) left() bool {
	_, err := os.Stat(filepath.Join(s.directory, "repository/tmp/ec2"))
	return err == nil
}

// expectInOrder wants lines that contain these texts, in this order.
func expectInOrder(t *testing.T, lines []string, wanted ...string) {
	t.Helper()
	rest := lines
	for _, want := range wanted {
		at := slices.IndexFunc(rest, func(line string) bool { return strings.Contains(line, want) })
		if at < 0 {
			t.Fatalf("no %q, or not where it belongs, in\n%s", want, strings.Join(lines, "\n"))
		}
		rest = rest[at+1:]
	}
}

func TestDryRunPrintsAllAndRunsNothing(t *testing.T) {
	s := newSandbox(t)
	out, stderr, err := s.run("ec2.sh", "--dry-run", "all")
	if err != nil || stderr != "" {
		t.Fatalf("%v: %s", err, stderr)
	}
	expectInOrder(t, strings.Split(out, "\n"),
		"ssh-keygen", "import-key-pair", "create-security-group", "--port 22 --cidr 203.0.113.7/32", "--port 5672 --source-group",
		"create-placement-group", "c8g.large", "c8g.2xlarge", "wait instance-status-ok",
		"GOARCH=arm64", "host.sh\\ tune", "host.sh\\ disk\\ /dev/sdf",
		"yardsticks-before.json", "end-to-end-16B-run1.json", "confirm-run2.json", "backlog-100000000.json", "yardsticks-after.json",
		"scp -q", "terminate-instances", "delete-placement-group", "delete-security-group", "delete-key-pair")
	if volume := `\"VolumeType\":\"gp3\"\,\"VolumeSize\":100\,\"Iops\":3000\,\"Throughput\":125`; strings.Count(out, volume) != 1 {
		t.Errorf("not one instance with a volume %s", volume)
	}
	for _, step := range [][]string{{"tune"}, {"disk", "/dev/sdf"}, {"broker", "10.0.0.1", "--io", "uring"}, {"sample", "results/x"}, {"stop"}} {
		out, stderr, err := s.run("host.sh", append([]string{"--dry-run"}, step...)...)
		if err != nil || out == "" {
			t.Errorf("%q: %v: %s", step, err, stderr)
		}
	}
	if calls := s.calls(); calls != nil {
		t.Errorf("these were run:\n%s", strings.Join(calls, "\n"))
	}
	if s.left() {
		t.Error("a dry run left files behind")
	}
}

func TestAllMakesMeasuresAndDeletes(t *testing.T) {
	s := newSandbox(t)
	s.settings = []string{"EC2_BROKER_FLAGS=--io uring"}
	_, stderr, err := s.run("ec2.sh", "all")
	if err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	calls := s.calls()
	expectInOrder(t, calls,
		"create-security-group --group-name", "--source-group sg-1", "GroupName=pg-1", "wait instance-status-ok --instance-ids i-broker i-load",
		`sudo\ ./host.sh\ disk\ /dev/sdf`, `./host.sh\ broker\ 10.0.0.1\ --io\ uring`, `--durability-level\ fsync`, `--io-backend\ sockets:\\\ epoll`,
		"scp -q", "terminate-instances --instance-ids i-broker i-load", "wait instance-terminated",
		"delete-placement-group --group-name pg-1", "delete-security-group --group-id sg-1", "delete-key-pair --key-name key-1")
	if s.left() {
		t.Error("the state is still there")
	}
}

// Whatever step of "up" fails, what was made before it is deleted.
func TestAllDeletesAfterAFailure(t *testing.T) {
	made := []struct{ fails, deletes string }{
		{"describe-vpcs", "delete-key-pair --key-name key-1"},
		{"authorize-security-group-ingress", "delete-security-group --group-id sg-1"},
		{"basaltmq-bench-broker", "delete-placement-group --group-name pg-1"},
		{"basaltmq-bench-load", "terminate-instances --instance-ids i-broker"},
		{"instance-status-ok", "terminate-instances --instance-ids i-broker i-load"},
	}
	for i, failure := range made {
		s := newSandbox(t)
		s.settings = []string{"AWS_FAILS=" + failure.fails}
		if _, _, err := s.run("ec2.sh", "all"); err == nil {
			t.Errorf("%s failed, and all is well", failure.fails)
		}
		calls := strings.Join(s.calls(), "\n")
		for _, earlier := range made[:i+1] {
			deletes := strings.TrimSuffix(earlier.deletes, " i-load")
			if !strings.Contains(calls, deletes) {
				t.Errorf("%s failed: no %q in\n%s", failure.fails, deletes, calls)
			}
		}
		if strings.Contains(calls, "yardsticks") {
			t.Errorf("%s failed, and it was measured", failure.fails)
		}
		if s.left() {
			t.Errorf("%s failed: the state is still there", failure.fails)
		}
	}
}

func TestDownKeepsTheStateOfWhatItCouldNotDelete(t *testing.T) {
	s := newSandbox(t)
	if _, stderr, err := s.run("ec2.sh", "up"); err != nil {
		t.Fatalf("%v: %s", err, stderr)
	}
	s.settings = []string{"AWS_FAILS=delete-security-group"}
	if _, stderr, err := s.run("ec2.sh", "down"); err == nil || !strings.Contains(stderr, "costs money") {
		t.Errorf("%v: %s", err, stderr)
	}
	expectInOrder(t, s.calls(), "terminate-instances", "delete-security-group", "delete-key-pair")
	if !s.left() {
		t.Fatal("the state is gone")
	}
	// Another run must neither start over it nor end these machines by its own "down".
	for _, step := range []string{"up", "all"} {
		if _, stderr, err := s.run("ec2.sh", step); err == nil || !strings.Contains(stderr, "of another run") {
			t.Errorf("%s: %v: %s", step, err, stderr)
		}
	}
	if calls := s.calls(); calls != nil {
		t.Errorf("these were run:\n%s", strings.Join(calls, "\n"))
	}
	s.settings = nil
	if _, stderr, err := s.run("ec2.sh", "down"); err != nil || s.left() {
		t.Errorf("%v: %s", err, stderr)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	s := newSandbox(t)
	for _, test := range []struct {
		script    string
		arguments []string
		text      string
	}{
		{"ec2.sh", nil, "usage"},
		{"ec2.sh", []string{"go"}, "no step go"},
		{"ec2.sh", []string{"run"}, `run "ec2.sh up" first`},
		{"host.sh", nil, "usage"},
		{"host.sh", []string{"disk"}, "usage"},
		{"host.sh", []string{"disk", "/dev/null"}, "not a block device"},
	} {
		if _, stderr, err := s.run(test.script, test.arguments...); err == nil || !strings.Contains(stderr, test.text) {
			t.Errorf("%s %q: %v, %q; want %q", test.script, test.arguments, err, stderr, test.text)
		}
	}
	s.settings = []string{"EC2_SSH_FROM="}
	if _, stderr, err := s.run("ec2.sh", "all"); err == nil || !strings.Contains(stderr, "EC2_SSH_FROM") {
		t.Errorf("%v: %s", err, stderr)
	}
	if calls := s.calls(); calls != nil {
		t.Errorf("these were run:\n%s", strings.Join(calls, "\n"))
	}
}
