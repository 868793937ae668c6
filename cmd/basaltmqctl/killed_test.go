package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// killedLife runs a broker on dir that declares queues and publishes "hello" to
// the last of them, and is killed, or stopped in good order.
func killedLife(t *testing.T, dir string, clean bool, queues ...string) {
	t.Helper()
	posix, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	pool, committed := new(arena.Pool), make(chan struct{}, 1)
	var journaled []broker.MetaRecord
	s, err := segstore.Open(segstore.Options{
		Disk: posix, Arena: pool, SyncInterval: time.Millisecond,
		OnCommit: func() {
			select {
			case committed <- struct{}{}:
			default:
			}
		},
		OnMeta: func(seq uint64, rec []byte) error {
			journaled = append(journaled, broker.MetaRecord{Seq: seq, Data: bytes.Clone(rec)})
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(broker.Options{Store: s, Disk: posix, Logger: slog.New(slog.DiscardHandler), Journaled: journaled})
	if err != nil {
		t.Fatal(err)
	}
	var q *broker.Queue
	for _, name := range queues {
		if q, _, _, err = b.VHost(broker.DefaultVHost).DeclareQueue(broker.QueueDeclare{Name: name, Durable: true}, nil); err != nil {
			t.Fatal(err)
		}
	}
	batch := segstore.NewBatch(pool)
	defer batch.Release()
	batch.Reset(testTime)
	batch.Add(batch.Template(nil, []byte(q.Name), []byte{0, 0}), []byte("hello"))
	if _, _, err := q.Publish(batch, 0); err != nil {
		t.Fatal(err)
	}
	for b.Definitions().Durable() < b.Definitions().Last() || s.Stats().UnwrittenBytes > 0 {
		<-committed
	}
	b.Close()
	if clean {
		err = s.Close()
	} else {
		s.Crash()
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := posix.Close(); err != nil {
		t.Fatal(err)
	}
}

// A broker that was killed early has no definitions file: names of queues and
// messages are in the journal.
func TestStore_KilledBeforeTheFirstSnapshot(t *testing.T) {
	dir := t.TempDir()
	killedLife(t, dir, false, "a", "b")
	if _, err := os.Stat(filepath.Join(dir, "definitions")); err == nil {
		t.Error("there is a definitions file")
	}
	got := ctl("store", "verify", "--strict", dir)
	for _, want := range []string{"queues     2 (2 definition records)", "1 records are in no segment", "records    1 (1 unsettled)", "result     sound"} {
		if got.status != exitOK || !strings.Contains(got.stdout, want) {
			t.Errorf("status %d, want %q:\n%s%s", got.status, want, got.stdout, got.stderr)
		}
	}
	if got := ctl("store", "dump", dir, "b"); got.status != exitOK || !strings.Contains(got.stdout, `"hello"`) {
		t.Errorf("dump: %+v", got)
	}
}

// Definitions of the journal come after those of the snapshot.
func TestStore_KilledAfterASnapshot(t *testing.T) {
	dir := t.TempDir()
	killedLife(t, dir, true, "a")
	old, err := os.ReadFile(filepath.Join(dir, "definitions"))
	if err != nil {
		t.Fatal(err)
	}
	killedLife(t, dir, false, "b")
	for name, queue := range map[string]string{"of the snapshot": "a", "of the journal": "b"} {
		if got := ctl("store", "dump", dir, queue); got.status != exitOK || strings.Count(got.stdout, "hello") != 1 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	killedLife(t, dir, true, "c")
	killedLife(t, dir, false, "d")
	if got := ctl("store", "verify", dir); got.status != exitOK || !strings.Contains(got.stdout, "queues     4") {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(filepath.Join(dir, "definitions"), old, 0o640); err != nil {
		t.Fatal(err)
	}
	if got := ctl("store", "verify", dir); got.status != exitProblems || !strings.Contains(got.stdout, "definition record 4 is the next after 1") {
		t.Errorf("with an older snapshot: %+v", got)
	}
}

// What the broker refuses to start on is damage, wherever it is.
func TestStore_UnknownDefinitionInTheJournal(t *testing.T) {
	dir := t.TempDir()
	killedLife(t, dir, false, "a")
	posix, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	committed := make(chan struct{}, 100)
	s, err := segstore.Open(segstore.Options{
		Disk: posix, Arena: new(arena.Pool), OnMeta: func(uint64, []byte) error { return nil },
		OnCommit: func() { committed <- struct{}{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.AppendMeta(2, []byte{99, 1, '/'})
	for s.MetaDurable() < 2 {
		<-committed
	}
	s.Crash()
	if err := posix.Close(); err != nil {
		t.Fatal(err)
	}
	got := ctl("store", "verify", dir)
	if want := fmt.Sprintf("unknown kind %d", 99); got.status != exitProblems || !strings.Contains(got.stdout, want) || !strings.Contains(got.stdout, "journal/0 at byte") {
		t.Errorf("%+v", got)
	}
	if got := ctl("store", "dump", dir, "a"); got.status != exitProblems || !strings.Contains(got.stdout, "hello") {
		t.Errorf("dump: %+v", got)
	}
}
