package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
)

// TestComplete: commands, options, their values, and names from the broker.
func TestComplete(t *testing.T) {
	e, dir := running(t)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	c.Declare("orders", 0)
	c.Declare("orders `touch pwned`", 0)
	c.Abort()
	for _, step := range []struct {
		line string // its last word is being written; _ is an empty one
		want string
	}{
		{"list_us", "list_user_limits list_user_permissions list_user_topic_permissions list_users"},
		{"queue p", "peek publish"},
		{"queue peek --bo", "--body --body-bytes"},
		{"queue peek --body h", "hex"},
		{"queue peek --body _", "text hex base64 none"},
		{"queue get x --ackmode ack_requeue_t", "ack_requeue_true"},
		{"help st", "start_app status stop_app store"},
		{"store v", "verify"},
		{"--form", "--format"},
		{"-p / lis", "list_bindings list_channels list_connections list_consumers list_exchanges list_global_parameters list_operator_policies list_parameters list_permissions list_policies list_queues list_shovels list_federations list_topic_permissions list_user_limits list_user_permissions list_user_topic_permissions list_users list_vhost_limits list_vhosts"},
		{"completion _", "bash fish zsh"},
		{"status -D " + dir + " --form", "--format"},
		{"queue peek -D " + dir + " or", "orders|orders `touch pwned`"},
		{"-D " + dir + " purge_queue --count 3 ord", "orders|orders `touch pwned`"},
		{"queue move -D " + dir + " a orders_", ""},
		{"delete_exchange -D " + dir + " amq.d", "amq.direct"},
		{"set_permissions -D " + dir + " gu", "guest"},
		{"list_queues -D " + dir + " -p _", "/"},
		{"purge_queue -D /none/such or", ""},
		{"nonsense x", ""},
	} {
		line := words(step.line)
		if line[len(line)-1] == "_" {
			line[len(line)-1] = ""
		}
		got := ctl(append([]string{completeCommand}, line...)...)
		separator := " "
		if strings.Contains(step.want, "|") {
			separator = "|"
		}
		if found := strings.Join(strings.Split(strings.TrimSuffix(got.stdout, "\n"), "\n"), separator); got.status != 0 || !sameWords(found, step.want, separator) {
			t.Errorf("%s: %q, want %q", step.line, found, step.want)
		}
	}
}

// sameWords compares lists whatever their order.
func sameWords(a, b, separator string) bool {
	seen := map[string]int{}
	for _, w := range strings.Split(a, separator) {
		seen[w]++
	}
	for _, w := range strings.Split(b, separator) {
		seen[w]--
	}
	for _, n := range seen {
		if n != 0 {
			return false
		}
	}
	return true
}

// TestCompletion_Scripts: shells take the scripts, and bash completes by them,
// without ever running what a name says.
func TestCompletion_Scripts(t *testing.T) {
	for shell, check := range map[string][]string{"bash": {"-n"}, "zsh": {"-n"}, "fish": {"--no-execute"}} {
		got := ctl("completion", shell)
		if got.status != 0 || !strings.Contains(got.stdout, "basaltmqctl __complete") {
			t.Errorf("%s: %+v", shell, got)
		}
		file := filepath.Join(t.TempDir(), shell)
		if err := os.WriteFile(file, []byte(got.stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("there is no %s to check its script with", shell)
			continue
		}
		if out, err := exec.Command(path, append(check, file)...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", shell, err, out)
		}
		if shell != "bash" {
			continue
		}
		script := `cd "$(mktemp -d)"
basaltmqctl() { printf '%s\n' 'plain' 'with space' '$(touch pwned)'; echo "$*" >&3; }
source ` + file + ` 3>&1
COMP_WORDS=(basaltmqctl queue peek x); COMP_CWORD=3
exec 3>&1
_basaltmqctl
printf '<%s>' "${COMPREPLY[@]}"
ls
rmdir "$PWD"`
		out, err := exec.Command(path, "-c", script).CombinedOutput()
		if want := `__complete queue peek x` + "\n" + `<plain><with\ space><\$\(touch\ pwned\)>`; err != nil || string(out) != want {
			t.Errorf("bash completes %q, %v, want %q", out, err, want)
		}
	}
}
