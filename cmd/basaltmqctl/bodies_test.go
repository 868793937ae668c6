package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/segstore/inspect"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// largeDir is the directory of a broker that stopped in good order, whose queue
// q held a large message, and holds a small and a large one, and the file of the large one's body.
func largeDir(t *testing.T) (dir, file string, body string) {
	t.Helper()
	dir, body = t.TempDir(), strings.Repeat("0123456789abcdef", 90_000)
	e, err := engine.Start(engine.Config{DataDir: dir, Bind: netip.MustParseAddr("127.0.0.1"), IO: "posix", Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	amqptest.Ask[*amqp.QueueDeclareOk](c, 1, &amqp.QueueDeclare{Queue: []byte("q"), Durable: true})
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 1, &amqp.ConfirmSelect{})
	for _, body := range []string{body + "gone", "small", body} {
		c.Write(amqptest.AppendPublish(nil, 1, amqptest.Message{Key: "q", Body: body, Persistent: true}))
		amqptest.Expect[*amqp.BasicAck](c)
	}
	if got := c.Get(1, "q", amqptest.NoAck); string(got.Body) != body+"gone" {
		t.Fatalf("got %d bytes", len(got.Body))
	}
	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "bodies", "*", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	return dir, files[0], body
}

func TestStore_LargeBodies(t *testing.T) {
	dir, file, body := largeDir(t)
	name, err := filepath.Rel(dir, file)
	if err != nil {
		t.Fatal(err)
	}
	if got := ctl("store", "verify", dir); got.status != exitOK || !strings.Contains(got.stdout, "bodies     1 in files of their own") || !strings.Contains(got.stdout, "sound") {
		t.Errorf("%+v", got)
	}
	got := ctl("store", "dump", dir, "q")
	for _, want := range []string{
		"  properties: delivery_mode=2\n  body: 5 bytes: \"small\"\n",
		"  properties: delivery_mode=2\n  body: 1440000 bytes in " + name + ", the first 256: \"" + body[:256] + "\"\n",
	} {
		if got.status != exitOK || !strings.Contains(got.stdout, want) {
			t.Errorf("%+v\nwithout %q", got, want)
		}
	}
	if got := ctl("store", "dump", dir, "q", "--from", "2", "--body", "none"); !strings.Contains(got.stdout, "  body: 1440000 bytes in "+name+"\n") {
		t.Errorf("%+v", got)
	}
	got = ctl("store", "dump", dir, "q", "--from", "2", "--json", "--body-bytes", "0")
	if !strings.Contains(got.stdout, `"properties":{"delivery_mode":2},"settled":false,"body_bytes":1440000,"body_file":"`+name+`","body":"`+body+`"}`) {
		t.Errorf("%.500s", got.stdout)
	}

	flip(t, file, 700_000)
	if got := ctl("store", "verify", dir); got.status != exitProblems || !strings.Contains(got.stdout, name+` (queue "q" in vhost "/"): checksum`) {
		t.Errorf("%+v", got)
	}
	if got := ctl("store", "dump", dir, "q", "--body-bytes", "0"); got.status != exitProblems || !strings.Contains(got.stderr, "offset 2: the body does not have the checksum") {
		t.Errorf("status %d, %s", got.status, got.stderr)
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := ctl("store", "verify", dir); got.status != exitProblems || !strings.Contains(got.stdout, "damage      "+name) {
		t.Errorf("%+v", got)
	}
	got = ctl("store", "dump", dir, "q", "--body-bytes", "0")
	if got.status != exitProblems || !strings.Contains(got.stderr, "offset 2: the body is missing") || !strings.Contains(got.stdout, "  body: 1440000 bytes in "+name+"\n") {
		t.Errorf("%+v", got)
	}
	if err := os.Remove(filepath.Join(dir, "clean-stop")); err != nil { // as after a crash
		t.Fatal(err)
	}
	if got := ctl("store", "verify", dir); got.status != exitOK || !strings.Contains(got.stdout, "unfinished  "+name) {
		t.Errorf("%+v", got)
	}
}

// The body of a settled message was removed with it: that is no damage.
func TestLoadBody_OfASettledMessage(t *testing.T) {
	ref := bodies.Ref{ID: 5, Size: 1 << 20}
	for _, settled := range []bool{false, true} {
		m := message{Record: &inspect.Record{Properties: []byte{0, 2}, Body: ref.Append(nil), Settled: settled}}
		err := m.loadBody(fstest.MapFS{}, 1, bodyForm{form: "text", bytesMax: 10})
		if (err == nil) != settled || m.size != 1<<20 || m.bodyFile != "bodies/0000000000000001/0000000000000005" || m.Properties[1] != 0 {
			t.Errorf("settled %v: %+v, %v", settled, m, err)
		}
	}
}

// Definitions that are no file: one line, whichever command.
func TestStore_DefinitionsAreADirectory(t *testing.T) {
	dir := makeDir(t)
	misplace("definitions", true)(t, dir)
	for _, line := range [][]string{{"store", "verify", dir}, {"store", "dump", dir, "orders"}} {
		got := ctl(line...)
		if got.status != exitUsage || got.stdout != "" || strings.Count(got.stderr, "\n") != 1 || !strings.Contains(got.stderr, "the definitions cannot be read") {
			t.Errorf("%+v", got)
		}
	}
}

// A damaged journal may have had messages of a queue that has no directory.
func TestStoreDump_EmptyQueueBesideADamagedJournal(t *testing.T) {
	dir := makeDir(t)
	misplace("journal", false)(t, dir)
	got := ctl("store", "dump", dir, "empty")
	if got.status != exitProblems || !strings.Contains(got.stderr, "damage      journal: ") || !strings.Contains(got.stderr, "0 messages shown") {
		t.Errorf("%+v", got)
	}
}
