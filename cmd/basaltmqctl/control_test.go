package main

import (
	"encoding/json"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// running is a broker with its data directory, whose path is longer than the
// address of a unix socket can be.
func running(t *testing.T) (e *engine.Engine, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), strings.Repeat("long/", 30))
	e, err := engine.Start(engine.Config{DataDir: dir, Bind: netip.MustParseAddr("127.0.0.1"), IO: "posix", Loops: 2, Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Error(err)
		}
		if _, err := os.Lstat(filepath.Join(dir, admin.SocketName)); err == nil {
			t.Error("the socket is left behind")
		}
	})
	return e, dir
}

// input gives the commands an input.
func input(t *testing.T, text string) {
	old := stdin
	stdin = strings.NewReader(text)
	t.Cleanup(func() { stdin = old })
}

// TestControl_CommandLines runs commands against a broker, one after the other.
func TestControl_CommandLines(t *testing.T) {
	e, dir := running(t)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	c.Declare("keep", amqptest.Durable)
	c.PublishAll(1, "keep", "one", "two")
	c.Sync(1)
	amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind("keep", "amq.topic", "a.#", nil))
	c.Declare("other", amqptest.Durable)
	file := filepath.Join(t.TempDir(), "definitions.json")
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`{"queues":[{"name":"q","vhost":"nope"},{"vhost":"/"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	input(t, "from-input\n")
	for _, step := range []struct {
		line   string // words; those in single quotes may have spaces
		status int
		stdout string // all of it, or with ~ a part
		stderr string // part of it
	}{
		{"add_user ann s3cret --tags monitoring,own", 0, "", ""},
		{"add_user ann s3cret", 1, "", "user 'ann' exists"},
		{"add_user bob", 0, "", ""},
		{"add_user", 2, "", "USER is missing"},
		{"add_user carl ''", 1, "", "the password is empty"},
		{"list_users -q", 0, "ann\t[\"monitoring\",\"own\"]\nbob\t[]\nguest\t[\"administrator\"]\n", ""},
		{"list_users name hashing_algorithm", 0, "~ann\trabbit_password_hashing_sha256\n", ""},
		{"list_users nonsense", 2, "", `no column "nonsense": the columns are connections, hashing_algorithm`},
		{"change_password ann other", 0, "", ""},
		{"change_password nobody other", 1, "", "there is no user 'nobody'"},
		{"clear_password bob", 0, "", ""},
		{"list_users -q name hashing_algorithm", 0, "~bob\t\n", ""},
		{"set_user_tags ann administrator", 0, "", ""},
		{"set_user_tags bob", 0, "", ""},
		{`set_user_limits ann {"max-connections":7,"max-channels":8}`, 0, "", ""},
		{`set_user_limits ann 7`, 2, "", "is not a JSON object of limits"},
		{`set_user_limits ann {"max-fun":7}`, 1, "", "there is no limit 'max-fun'"},
		{"clear_user_limits ann max-channels", 0, "", ""},
		{"list_users -q name limits", 0, "~ann\t{\"max-connections\":7}\n", ""},

		{"add_vhost v/1 --description 'a b' --tags x,y", 0, "", ""},
		{"add_vhost v/1", 1, "", "virtual host 'v/1' exists"},
		{"add_vhost ..", 0, "", ""},
		{"delete_vhost ..", 0, "", ""},
		{"list_vhosts name description tags", 0, "name\tdescription\ttags\n/\t\t[]\nv/1\ta b\t[\"x\",\"y\"]\n", ""},
		{`set_vhost_limits -p v/1 {"max-queues":3}`, 0, "", ""},
		{"clear_vhost_limits -p v/1 max-queues", 0, "", ""},
		{`set_permissions -p v/1 ann ^a.* '' .*`, 0, "", ""},
		{`set_permissions -p v/1 ann ( '' .*`, 1, "", "is not a regular expression"},
		{"set_permissions -p nope ann a b c", 1, "", "there is no virtual host 'nope'"},
		{"list_permissions -p v/1", 0, "user\tconfigure\twrite\tread\nann\t^a.*\t\t.*\n", ""},
		{"list_user_permissions ann -q", 0, "v/1\t^a.*\t\t.*\n", ""},
		{"list_user_permissions nobody", 1, "", "there is no user 'nobody'"},
		{"set_topic_permissions -p v/1 ann amq.topic ^a ^b", 0, "", ""},
		{"list_topic_permissions -p v/1 -q", 0, "ann\tamq.topic\t^a\t^b\n", ""},
		{"list_user_topic_permissions ann -q", 0, "v/1\tamq.topic\t^a\t^b\n", ""},
		{"clear_topic_permissions -p v/1 ann amq.topic", 0, "", ""},
		{"list_topic_permissions -p v/1 -q", 0, "", ""},
		{"clear_permissions -p v/1 ann", 0, "", ""},
		{"list_permissions -p v/1 -f json", 0, "[]\n", ""},

		{`set_policy limit ^keep$ {"max-length":10} --priority 3 --apply-to queues`, 0, "", ""},
		{`set_policy limit ^keep$ {max}`, 2, "", "is not JSON: quote it for the shell"},
		{`set_policy limit ^keep$ {"max":1}`, 1, "", "the key 'max', which is not known"},
		{`set_policy limit ^keep$ {"max-length":10} --priority high`, 2, "", "is not a whole number"},
		{`set_policy limit ^keep$ {"max-length":10} --apply-to topics`, 1, "", "cannot apply to 'topics'"},
		{`set_operator_policy top '' {"message-ttl":60000000}`, 0, "", ""},
		{"list_policies -q", 0, "/\tlimit\t^keep$\tqueues\t{\"max-length\":10}\t3\n", ""},
		{"list_operator_policies -q name definition", 0, "top\t{\"message-ttl\":60000000}\n", ""},
		{"list_queues name messages policy operator_policy effective_policy_definition", 0,
			"name\tmessages\tpolicy\toperator_policy\teffective_policy_definition\nkeep\t2\tlimit\ttop\t{\"max-length\":10,\"message-ttl\":60000000}\nother\t0\t\ttop\t{\"message-ttl\":60000000}\n", ""},
		{"clear_operator_policy top", 0, "", ""},
		{"clear_operator_policy top", 1, "", "there is no operator policy 'top'"},
		{`set_parameter c s {"a":1}`, 0, "", ""},
		{"list_parameters -q", 0, "/\tc\ts\t{\"a\":1}\n", ""},
		{"clear_parameter c s", 0, "", ""},
		{"clear_parameter c s", 1, "", "there is no parameter 's'"},
		{`set_global_parameter g "text"`, 0, "", ""},
		{"list_global_parameters -q", 0, "~\ng\ttext\n", ""},
		{"clear_global_parameter g", 0, "", ""},

		{"list_exchanges -q", 0, "~amq.topic\ttopic\n", ""},
		{"list_bindings -q", 0, "\tkeep\tqueue\tkeep\t{}\n\tother\tqueue\tother\t{}\namq.topic\tkeep\tqueue\ta.#\t{}\n", ""},
		{"list_channels -q number user", 0, "1\tguest\n", ""},
		{"list_consumers -q", 0, "", ""},
		{"list_connections -q user vhost state channels", 0, "guest\t/\trunning\t1\n", ""},
		{"list_queues -p nope", 1, "", "there is no virtual host 'nope'"},
		{"list_queues --format xml", 2, "", `--format "xml" is neither text nor json`},
		{"status", 0, "~messages     2 ready, 0 unacknowledged\n", ""},
		{"status -f json", 0, `~"product": "BasaltMQ"`, ""},

		{"definitions export " + file, 0, "", ""},
		{"definitions import " + file, 0, "0 things were created or changed\n", ""},
		{"import_definitions " + bad, 1, "", "$.queues[1]: 'name' is missing"},
		{"import_definitions /none/such", 2, "", "there is no file /none/such"},
		{"export_definitions -p /", 0, `~"name":"keep"`, ""},
		{"export_definitions -p nope", 1, "", "there is no virtual host 'nope'"},
		{"purge_queue keep", 0, "2 messages are gone\n", ""},
		{"purge_queue nope", 1, "", "there is no queue 'nope' in virtual host '/'"},
		{"delete_queue -u keep", 0, "", ""},
		{"delete_queue keep", 1, "", "there is no queue 'keep'"},
		{"delete_exchange nope", 1, "", "there is no exchange 'nope'"},
		{"delete_exchange amq.topic", 1, "", "not allowed"},
		{"import_definitions " + file, 0, "2 things were created or changed\n", ""},
		{"delete_vhost v/1", 0, "", ""},
		{"delete_user bob", 0, "", ""},
		{"close_connection nobody reason", 1, "", "there is no connection 'nobody'"},
		{"close_all_connections -p nope reason", 0, "0 connections are closed\n", ""},
		{"clear_policy ''", 2, "", "a name must not be empty"},
	} {
		got := ctl(append([]string{}, append(words(step.line), "-D", dir)...)...)
		part, isPart := strings.CutPrefix(step.stdout, "~")
		if got.status != step.status || !strings.Contains(got.stderr, step.stderr) || step.stderr == "" && got.stderr != "" ||
			isPart && !strings.Contains(got.stdout, part) || !isPart && got.stdout != step.stdout {
			t.Errorf("%s\nstatus %d, stdout %q, stderr %q\nwant   %d, %q, %q", step.line, got.status, got.stdout, got.stderr, step.status, step.stdout, step.stderr)
		}
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the export: %v, %v", info, err)
	}
	c.Abort()
}

// words splits a line; single quotes hold spaces together.
func words(line string) (list []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			list = append(list, part)
		} else {
			list = append(list, strings.Fields(part)...)
		}
	}
	return list
}

// TestControl_CloseConnection: the reason reaches the client, and its messages
// are back in their queue.
func TestControl_CloseConnection(t *testing.T) {
	e, dir := running(t)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	other := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	c.Declare("q", amqptest.Durable)
	c.PublishAll(1, "q", "one")
	c.Subscribe(1, "q", "tag", 0)
	c.Want("1 basic.deliver ConsumerTag=tag*")
	var list []struct {
		Consumer_tag    string
		Channel_details struct{ Connection_name string }
	}
	if got := ctl("list_consumers", "-D", dir, "-f", "json"); json.Unmarshal([]byte(got.stdout), &list) != nil || len(list) != 1 || list[0].Consumer_tag != "tag" {
		t.Fatalf("%+v", got)
	}
	if got := ctl("close_connection", list[0].Channel_details.Connection_name, "maintenance: come back at 5", "-D", dir); got.status != 0 {
		t.Fatalf("%+v", got)
	}
	c.Want("0 connection.close 320 (0,0) CONNECTION_FORCED - maintenance: come back at 5")
	c.FinishClose()
	if got := ctl("list_queues", "-q", "-D", dir, "name", "messages_ready", "consumers"); got.stdout != "q\t1\t0\n" {
		t.Errorf("%+v", got)
	}
	other.Sync(1) // another connection has nothing to do with it
	if got := ctl("close_all_connections", "--user", "guest", "all", "-D", dir); got.stdout != "1 connections are closed\n" {
		t.Errorf("%+v", got)
	}
	other.Want("0 connection.close 320 (0,0) CONNECTION_FORCED - all")
	other.FinishClose()
}

// TestControl_Unreachable: what is wrong, and what to do.
func TestControl_Unreachable(t *testing.T) {
	dir := t.TempDir()
	for want, arguments := range map[string][]string{
		"which broker? Give its data directory": {"status"},
		"no broker is running":                  {"status", "-D", dir},
		"nobody answers":                        {"status", "--socket", filepath.Join(dir, "stale")},
		"unexpected argument \"x\"":             {"status", "x", "-D", dir},
	} {
		if want == "nobody answers" {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "stale"), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
		}
		if got := ctl(arguments...); got.status != exitUsage || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q: %+v, want %q", arguments, got, want)
		}
	}
}

// TestControl_Socket: it is for the broker's user alone, one that a killed
// broker left is replaced, and the store tools do not mind it.
func TestControl_Socket(t *testing.T) {
	e, dir := running(t)
	_ = e
	socket := filepath.Join(dir, admin.SocketName)
	info, err := os.Lstat(socket)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
		t.Fatalf("%v, %v", info, err)
	}
	left := t.TempDir()
	for _, name := range []string{admin.SocketName, admin.SocketName + ".new"} {
		if err := os.WriteFile(filepath.Join(left, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	second, err := engine.Start(engine.Config{DataDir: left, Bind: netip.MustParseAddr("127.0.0.1"), IO: "posix", Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := ctl("status", "-D", left); got.status != 0 {
		t.Errorf("%+v", got)
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, admin.SocketName), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := ctl("store", "verify", left); got.status != 0 || strings.Contains(got.stdout, "not a name of the broker") {
		t.Errorf("%+v", got)
	}
}
