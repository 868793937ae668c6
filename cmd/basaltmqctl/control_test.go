package main

import (
	"encoding/json"
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
	e, err := engine.Start(engine.Config{DataDir: dir, Bind: netip.MustParseAddr("127.0.0.1"), HTTP: netip.MustParseAddrPort("127.0.0.1:0"), IO: "posix", Loops: 2, Version: "test"})
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

// TestControl_CommandLines runs commands against a broker, one after the other,
// by its socket and by its HTTP API.
func TestControl_CommandLines(t *testing.T) {
	for _, over := range []string{"socket", "http"} {
		t.Run(over, func(t *testing.T) { commandLines(t, over) })
	}
}

func commandLines(t *testing.T, over string) {
	e, dir := running(t)
	where := []string{"-D", dir}
	if over == "http" {
		where = []string{"--uri", "http://guest:guest@" + e.HTTPAddr().String()}
	}
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
		{"update_vhost_metadata v/1 --default-queue-type stream", 0, "", ""},
		{"set_vhost_tags v/1 one", 0, "", ""},
		{"list_vhosts -q description tags default_queue_type", 0, "~a b\t[\"one\"]\tstream\n", ""},
		{"update_vhost_metadata v/1 --tags x,y --default-queue-type classic", 0, "", ""},
		{"trace_on -p v/1", 0, "", ""},
		{"list_vhosts -q name tracing", 0, "~v/1\ttrue\n", ""},
		{"trace_off -p v/1", 0, "", ""},
		{"list_vhosts -q name tracing", 0, "~v/1\tfalse\n", ""},
		{"trace_on -p nope", 1, "", "there is no virtual host 'nope'"},
		{"update_vhost_metadata nope --tags x", 1, "", "there is no virtual host 'nope'"},
		{"set_cluster_name here", 0, "", ""},
		{"add_vhost ..", 0, "", ""},
		{"delete_vhost ..", 0, "", ""},
		{"list_vhosts name description tags", 0, "name\tdescription\ttags\n/\t\t[]\nv/1\ta b\t[\"x\",\"y\"]\n", ""},
		{`set_vhost_limits -p v/1 {"max-connections":3,"max-fun":7,"max-queues":3}`, 1, "", "basaltmqctl: there is no limit 'max-fun'"},
		{"set_vhost_limits -p v/1 {}", 2, "", "has no limit: name some"},
		{"list_vhost_limits -q", 0, "", ""},
		{`set_vhost_limits -p v/1 {"max-queues":3}`, 0, "", ""},
		{"clear_vhost_limits -p v/1 max-queues", 0, "", ""},
		{`set_permissions -p v/1 ann ^a.* '' .*`, 0, "", ""},
		{`set_permissions -p v/1 ann ( '' .*`, 1, "", "is not a regular expression"},
		{"set_permissions -p nope ann a b c", 1, "", "there is no virtual host 'nope'"},
		{"list_permissions -p v/1", 0, "~user\tconfigure\twrite\tread\nann\t^a.*\t\t.*\n", ""},
		{"list_user_permissions ann -q", 0, "v/1\t^a.*\t\t.*\n", ""},
		{"list_user_permissions nobody", 1, "", "there is no user 'nobody'"},
		{"set_topic_permissions -p v/1 ann amq.topic ^a ^b", 0, "", ""},
		{"list_topic_permissions -p v/1 -q", 0, "ann\tamq.topic\t^a\t^b\n", ""},
		{"list_user_topic_permissions ann -q", 0, "v/1\tamq.topic\t^a\t^b\n", ""},
		{"clear_topic_permissions -p v/1 ann amq.topic", 0, "", ""},
		{"list_topic_permissions -p v/1 -q", 0, "", ""},
		{"clear_permissions -p v/1 ann", 0, "", ""},
		{"list_permissions -p v/1 -f json", 0, "~]\n", ""},

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
		{"-p / -q list_queues name state", 0, "keep\trunning\nother\trunning\n", ""},
		{"-q list_queues name closed_reason", 0, "keep\t\nother\t\n", ""},
		{"--format=json --vhost nope list_queues", 1, "", "there is no virtual host 'nope'"},
		{"--colour list_queues", 2, "", "is not one that may stand before the command"},
		{"ping", 0, "~ answers\n", ""},
		{"await_startup -t 5", 0, "", ""},
		{"health", 0, "ok\n", ""},
		{"health -f json", 0, "{\"status\":\"ok\"}\n", ""},
		{"cluster_status", 0, "~state        running\n", ""},
		{"environment", 0, "~db_dir", ""},
		{"report", 0, "~# queues\nvhost\tname\ttype\tstate\tdurable\tauto_delete\texclusive\targuments\tpolicy\tmessages_ready\tmessages_unacknowledged\tconsumers\tmemory\n/\tkeep\tclassic\trunning\ttrue", ""},
		{"gc_collect", 0, "", ""},
		{"stop_app", 0, "", "stop_app does nothing here"},
		{"start_app", 0, "", "start_app does nothing here"},
		{"top --once -i 0.1", 0, "~keep", ""},
		{"top --once -i 0.1 -f json", 0, "~\"publish\"", ""},
		{"top -i never", 2, "", "is not a number of seconds"},

		{`create_queue made --durable --max-length 5 --message-ttl 60000 --expires 100000 --delivery-limit 3 --dead-letter-exchange amq.fanout --dead-letter-routing-key k --reject-on-overflow --arguments {"x-max-priority":4}`, 0, "", ""},
		{"list_queues -q name durable arguments", 0, `~made	true	{"x-dead-letter-exchange":"amq.fanout","x-dead-letter-routing-key":"k","x-delivery-limit":3,"x-expires":100000,"x-max-length":5,"x-max-priority":4,"x-message-ttl":60000,"x-overflow":"reject-publish"}`, ""},
		{"create_queue made --durable", 1, "", "inequivalent arg"},
		{"create_queue made --max-length many", 2, "", "is not a whole number"},
		{"create_queue made --arguments [", 2, "", "is not a JSON object"},
		{"create_queue log --stream-queue", 0, "", ""},
		{"create_queue passing --auto-delete", 0, "", ""},
		{"list_queues -q name auto_delete type", 0, "~log\tfalse\tstream\nmade\tfalse\tclassic\nother\tfalse\tclassic\npassing\ttrue\tclassic\n", ""},
		{"create_exchange topic made.e --durable --internal --auto-delete --alternate-exchange amq.fanout", 0, "", ""},
		{"create_exchange topic made.d --delayed", 0, "", ""},
		{"create_exchange nonsense made.n", 1, "", "unknown exchange type 'nonsense'"},
		{"list_exchanges -q name type durable internal auto_delete arguments", 0, `~made.e	topic	true	true	true	{"alternate-exchange":"amq.fanout"}`, ""},
		{"list_exchanges -q name type", 0, "~made.d\tx-delayed-message\n", ""},
		{"delete_exchange made.e", 0, "", ""},

		{"queue publish log first", 0, "", ""},
		{"queue publish log second", 0, "", ""},
		{"queue peek log --offset last", 0, "~\"second\"", ""},
		{"queue peek log --offset never", 1, "", "invalid_offset_arg"},
		{"queue peek keep -c 1", 0, "~exchange \"\"  key \"keep\"\n  properties: none\n  body: 3 bytes: \"one\"\n", ""},
		{"queue peek keep --skip 1 --body hex -f json", 0, "~\"payload\":\"74776f\",\"payload_encoding\":\"hex\"", ""},
		{"queue peek keep --body xml", 2, "", "neither text, hex, base64 nor none"},
		{"queue peek nope", 1, "", "there is no queue 'nope'"},
		{`queue publish other 'some text' --persistent --properties {"content_type":"text/plain","headers":{"a":1}}`, 0, "", ""},
		{"queue get other --ackmode ack_requeue_true", 0, "~  properties: {\"content_type\":\"text/plain\",\"delivery_mode\":2,\"headers\":{\"a\":1}}\n  body: 9 bytes: \"some text\"\n", ""},
		{"queue get other --body-bytes 4", 0, "~redelivered  exchange \"\"  key \"other\"\n", ""},
		{"queue get other --ackmode nonsense", 1, "", "'ackmode' is one of"},
		{"queue publish nowhere text", 1, "", "no queue took the message"},
		{"queue publish a.b text --exchange amq.direct", 1, "", "no queue took the message"},
		{"queue publish a.b text --exchange nope", 1, "", "no exchange 'nope'"},
		{`queue publish other text --properties {"priority":"high"}`, 1, "", "the property 'priority' must be a number"},
		{"pause_queue other", 0, "", ""},
		{"list_queues -q name state", 0, "~other\tpaused\n", ""},
		{"resume_queue other", 0, "", ""},
		{"restart_queue other", 1, "", "is not closed"},
		{"restart_exchange amq.topic", 1, "", "keeps nothing that is closed"},
		{"restart_exchange nope", 1, "", "there is no exchange 'nope'"},
		{"queue move keep other -c 1", 0, "1 messages are moved\n", ""},
		{"queue move other keep", 0, "2 messages are moved\n", ""},
		{"queue move log other -f json", 0, "{\"moved\":2}\n", ""},
		{"queue move keep keep", 1, "", "cannot be moved to itself"},
		{"queue move keep nope", 1, "", "there is no queue 'nope'"},
		{"queue get keep -c 9 --body none --ackmode ack_requeue_true -f json", 0, "~\"payload_bytes\":9", ""},
		{"queue unacked keep -q", 0, "", ""},
		{"purge_queue keep --count 1", 0, "1 messages are gone\n", ""},
		{"cancel_consumer nobody 1 tag", 1, "", "there is no connection 'nobody'"},
		{"set_prefetch nobody 1 5", 1, "", "there is no connection 'nobody'"},
		{"set_prefetch nobody 1 many", 2, "", "is not a number from 0 to 65535"},
		{"list_vhost_limits -q", 0, "", ""},
		{"list_user_limits -q", 0, "ann\t{\"max-connections\":7}\n", ""},
		{"close_all_user_connections nobody reason", 0, "0 connections are closed\n", ""},
		{"delete_queue made", 0, "", ""},
		{"delete_queue log", 0, "", ""},
		{"delete_queue passing", 0, "", ""},
		{"delete_exchange made.d", 0, "", ""},
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
		{"delete_exchange ''", 2, "", "a name must not be empty"},
		{"delete_queue '' --if-empty", 2, "", "a name must not be empty"},
		{"create_exchange fanout leftovers --persist-messages 10 --persist-ms 10", 0, "", ""},
		{"delete_exchange leftovers", 0, "", ""},
		{"export_definitions /none/such", 2, "", "/none/such cannot be written: its directory: no such file or directory"},
	} {
		got := ctl(append([]string{}, append(words(step.line), where...)...)...)
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
	if got := ctl("close_all_connections", "--of-user", "guest", "all", "-D", dir); got.stdout != "1 connections are closed\n" {
		t.Errorf("%+v", got)
	}
	other.Want("0 connection.close 320 (0,0) CONNECTION_FORCED - all")
	other.FinishClose()
}

// TestDefinitions_Offline: a data directory says what the broker on it said, after
// a crash too.
func TestDefinitions_Offline(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	e, err := engine.Start(engine.Config{DataDir: dir, Bind: netip.MustParseAddr("127.0.0.1"), IO: "posix", Loops: 1, Version: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"create_queue q --durable --max-length 5", "create_queue s --stream-queue", "create_exchange topic e --durable",
		`set_policy p ^q {"max-length":3}`, "add_vhost v", "add_user ann pw", `set_permissions -p v ann a b c`, "delete_queue s",
	} {
		if got := ctl(append(words(line), "-D", dir)...); got.status != 0 {
			t.Fatalf("%s: %+v", line, got)
		}
	}
	if got := ctl("definitions", dir); got.status != exitUsage || !strings.Contains(got.stderr, "in use by a running broker") {
		t.Errorf("%+v", got)
	}
	want := ctl("export_definitions", "-D", dir)
	copied := filepath.Join(t.TempDir(), "copy") // as a crash leaves it: all in the journal
	if err := amqptest.CopyDir(copied, dir); err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	normal := func(text string) string {
		return strings.NewReplacer(`"basaltmq_version": "dev"`, `"basaltmq_version": "`+version+`"`, `"product_version": "dev"`, `"product_version": "`+version+`"`).Replace(text)
	}
	for _, where := range []string{dir, copied} {
		if got := ctl("definitions", where); got.status != 0 || got.stdout != normal(want.stdout) {
			t.Errorf("%s: %+v\nwant %s", where, got, want.stdout)
		}
	}
	if got := ctl("definitions", "/none/such"); got.status != exitUsage || !strings.Contains(got.stderr, "does not exist") {
		t.Errorf("%+v", got)
	}
}
