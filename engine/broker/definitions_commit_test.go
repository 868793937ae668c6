package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// TestDefinitions_GroupCommit: what is declared while a sync is in flight rides
// the next one, of the journal.
func TestDefinitions_GroupCommit(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	before := e.disk.syncsOf(journalName)
	gate := make(chan struct{})
	blocked := make(chan struct{}, 10)
	e.disk.setHinder(func(op *disk.Op) (<-chan struct{}, error) {
		if !syncs(op) || op.File.Name() != journalName {
			return nil, nil
		}
		blocked <- struct{}{}
		return gate, nil
	})
	first, err := e.vh.DeclareExchange(ExchangeDeclare{Name: "first", Type: "fanout", Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	<-blocked
	var last uint64
	for i := range 1000 {
		if last, err = e.vh.DeclareExchange(ExchangeDeclare{Name: fmt.Sprint("e", i), Type: "fanout", Durable: true}); err != nil {
			t.Fatal(err)
		}
	}
	if last != first+1000 || e.broker.defs.Durable() >= first {
		t.Fatalf("records %d to %d, durable up to %d while the sync is under way", first, last, e.broker.defs.Durable())
	}
	close(gate)
	e.durable(last)
	if n := e.disk.syncsOf(journalName) - before; n != 2 {
		t.Errorf("%d syncs for 1001 records, want 2", n)
	}
}

// TestDefinitions_AgainWhilePending: whoever asks for what is done already must
// wait for the record of who did it.
func TestDefinitions_AgainWhilePending(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	gate := make(chan struct{})
	e.disk.setHinder(func(op *disk.Op) (<-chan struct{}, error) {
		if syncs(op) && op.File.Name() == journalName {
			return gate, nil
		}
		return nil, nil
	})
	declareExchange := func() (uint64, error) {
		return e.vh.DeclareExchange(ExchangeDeclare{Name: "e", Type: "fanout", Durable: true})
	}
	declareQueue := func() (uint64, error) {
		_, _, seq, err := e.vh.DeclareQueue(QueueDeclare{Name: "q", Durable: true}, nil)
		return seq, err
	}
	b := Binding{Source: "e", Queue: "q"}
	steps := []struct {
		name string
		op   func() (uint64, error)
	}{
		{"exchange.declare", declareExchange},
		{"queue.declare", declareQueue},
		{"queue.bind", func() (uint64, error) { return e.vh.Bind(b, nil) }},
		{"queue.unbind", func() (uint64, error) { return e.vh.Unbind(b, nil) }},
		{"queue.delete", func() (uint64, error) {
			_, seq, err := e.vh.DeleteQueue([]byte("q"), false, false, nil)
			return seq, err
		}},
		{"queue.unbind of a deleted queue", func() (uint64, error) { return e.vh.Unbind(b, nil) }},
		{"exchange.delete", func() (uint64, error) { return e.vh.DeleteExchange("e", false) }},
	}
	last := uint64(0)
	for _, step := range steps {
		for _, which := range []string{"first", "second"} {
			seq, err := step.op()
			if err != nil || seq < last || seq == 0 {
				t.Errorf("%s %s: sequence %d (%v), want at least %d", which, step.name, seq, err, last)
			}
			last = max(last, seq)
		}
	}
	close(gate)
	e.durable(last)
	if seq, err := e.vh.DeleteExchange("e", false); seq != 0 || err != nil {
		t.Errorf("with nothing pending: %d, %v", seq, err)
	}
}

// TestDefinitions_FailedWriteOrSync: nothing is durable any more, later records
// are not written behind a hole, and the next start finds what had been durable.
func TestDefinitions_FailedWriteOrSync(t *testing.T) {
	t.Parallel()
	for _, kind := range []disk.Kind{disk.Write, disk.Sync} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e := openDir(t, dir)
			seq, err := e.vh.DeclareExchange(ExchangeDeclare{Name: "before", Type: "fanout", Durable: true})
			if err != nil {
				t.Fatal(err)
			}
			e.durable(seq)
			e.disk.setHinder(func(op *disk.Op) (<-chan struct{}, error) {
				if (op.Kind == kind || kind == disk.Sync && syncs(op)) && op.File.Name() == journalName {
					return nil, syscall.EIO
				}
				return nil, nil
			})
			e.exchange(ExchangeDeclare{Name: "lost", Type: "fanout", Durable: true})
			e.await("the error is known", func() bool { return e.broker.defs.Err() != nil })
			e.disk.setHinder(nil) // the disk is well again: too late
			later, err := e.vh.DeclareExchange(ExchangeDeclare{Name: "later", Type: "fanout", Durable: true})
			if err != nil {
				t.Fatal(err)
			}
			again, err := e.vh.DeclareExchange(ExchangeDeclare{Name: "lost", Type: "fanout", Durable: true})
			if again < later || err != nil {
				t.Errorf("declared again after a failure: %d, %v: must not look durable", again, err)
			}
			writes := e.disk.writesOf(journalName)
			e.broker.Close()
			if err := e.store.Close(); !errors.Is(err, syscall.EIO) {
				t.Errorf("closing the store: %v", err)
			}
			if n := e.disk.writesOf(journalName) - writes; n != 0 {
				t.Errorf("%d writes to a journal that failed", n)
			}
			if d := e.broker.defs.Durable(); d != seq {
				t.Errorf("durable up to %d, want %d", d, seq)
			}
			if err := e.broker.defs.Err(); !errors.Is(err, syscall.EIO) || !strings.Contains(err.Error(), "restart") {
				t.Errorf("Err: %v", err)
			}
			if err := e.disk.Close(); err != nil {
				t.Error(err)
			}
			e = openDir(t, dir)
			defer e.close()
			if e.vh.exchanges["before"] == nil || e.vh.exchanges["later"] != nil {
				t.Errorf("after a restart: %v", dump(e.vh))
			}
			seq, err = e.vh.DeclareExchange(ExchangeDeclare{Name: "later", Type: "fanout", Durable: true})
			if err != nil {
				t.Fatal(err)
			}
			e.durable(seq)
		})
	}
}

func TestDefinitions_CloseTwice(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	e.close()
	e.broker.Close()
}

// TestDefinitions_AutoDeleteExchange_TransientBinding: an auto-delete exchange
// whose only other bindings were to transient queues vanished at a restart,
// with all that was bound to it later.
func TestDefinitions_AutoDeleteExchange_TransientBinding(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	e.exchange(ExchangeDeclare{Name: "auto", Type: "fanout", Durable: true, AutoDelete: true})
	e.queue(QueueDeclare{Name: "transient"}, nil)
	e.queue(QueueDeclare{Name: "first", Durable: true}, nil)
	e.queue(QueueDeclare{Name: "second", Durable: true}, nil)
	e.bind(Binding{Source: "auto", Queue: "transient"})
	e.bind(Binding{Source: "auto", Queue: "first"})
	if _, _, err := e.vh.DeleteQueue([]byte("first"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	e.bind(Binding{Source: "auto", Queue: "second"})
	e.close()
	e = openDir(t, dir)
	defer e.close()
	want := Recovered{Queues: 1, Exchanges: 1, Bindings: 1}
	if got := e.broker.Recovered(); got != want {
		t.Errorf("recovered %+v, want %+v", got, want)
	}
}

// TestOpen_OrphanLog: the log of a queue whose declaration was lost is put
// aside with its messages, never deleted, and its id is not used again.
func TestOpen_OrphanLog(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	q := e.queue(QueueDeclare{Name: "orphan", Durable: true}, nil)
	e.publish(q, "precious")
	e.close()
	writeDefinitions(t, dir, snapshotFile(0))
	e = openDir(t, dir)
	if !strings.Contains(e.log.String(), "quarantine") {
		t.Errorf("logged %q", e.log)
	}
	if got := e.broker.Recovered(); got != (Recovered{}) {
		t.Errorf("recovered %+v", got)
	}
	if again := e.queue(QueueDeclare{Name: "orphan", Durable: true}, nil); again.ID <= q.ID || again.Counts().Ready != 0 {
		t.Errorf("log id %d after %d, %+v", again.ID, q.ID, again.Counts())
	}
	e.close()
	if !quarantined(t, dir, "precious") {
		t.Error("the message is not in quarantine/")
	}
}

// TestOpen_OrphanLogInTheJournal: so is what only the journal has of such a log.
func TestOpen_OrphanLogInTheJournal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	declareSome(e)
	log, err := e.store.OpenLog(77, segstore.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(0)
	b.Add(b.Template(nil, []byte("orphan"), []byte{0, 0}), []byte("precious"))
	if _, err := log.Append(b); err != nil {
		t.Fatal(err)
	}
	log.WantDurable()
	e.await("durable", func() bool { return log.Durable() == 1 && e.broker.defs.Durable() == 3 })
	e.crash()
	e = openDir(t, dir)
	if got := e.broker.Recovered(); got != recoveredSome || !strings.Contains(e.log.String(), "quarantine") {
		t.Errorf("recovered %+v, logged %q", got, e.log)
	}
	if q := e.queue(QueueDeclare{Name: "next", Durable: true}, nil); q.ID <= 77 {
		t.Errorf("log id %d after 77", q.ID)
	}
	e.close()
	if !quarantined(t, dir, "precious") {
		t.Error("the message is not in quarantine/")
	}
}

// quarantined says whether a file in quarantine/ contains text.
func quarantined(t *testing.T, dir, text string) (found bool) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(dir, "quarantine"), func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			data, err := os.ReadFile(path)
			found = found || bytes.Contains(data, []byte(text))
			return err
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return found
}

// TestDefinitions_RecordBytes pins format version 1.
func TestDefinitions_RecordBytes(t *testing.T) {
	t.Parallel()
	vh := &VHost{Name: "/"}
	rows := []struct {
		name      string
		got, want []byte
	}{
		{"exchange.declare", exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "e", Type: "topic", AutoDelete: true, Internal: true}), []byte("\x01\x01/\x01e\x05topic\x03\x00")},
		{"exchange.delete", exchangeRecord(recExchangeDelete, vh, &Exchange{Name: "e", Type: "topic"}), []byte("\x02\x01/\x01e")},
		{"queue.declare", queueRecord(recQueueDeclare, vh, &Queue{Name: "q", ID: 300, AutoDelete: true, Arguments: intArgument("n", 1)}), []byte("\x03\x01/\x01q\xac\x02\x01\x07\x01nI\x00\x00\x00\x01")},
		{"queue.delete", queueRecord(recQueueDelete, vh, &Queue{Name: "q", ID: 300}), []byte("\x04\x01/\x01q\xac\x02")},
		{"queue.bind", bindingRecord(recBind, vh, &Binding{Source: "e", Queue: "q", RoutingKey: "k"}), []byte("\x05\x01/\x01e\x00\x01q\x01k\x00")},
		{"exchange.unbind", bindingRecord(recUnbind, vh, &Binding{Source: "e", Exchange: "f", ToExchange: true, RoutingKey: "k"}), []byte("\x06\x01/\x01e\x04\x01f\x01k\x00")},
	}
	for _, row := range rows {
		if !bytes.Equal(row.got, row.want) {
			t.Errorf("%s: got %q, want %q", row.name, row.got, row.want)
		}
	}
	file := snapshotFile(300, []byte("123456789"))
	if want := "BMQDEFS\x01" + "\x04\x00\x00\x00\xb0\x7e\xb1\xb4\x08\xac\x02\x02" + "\x09\x00\x00\x00\x83\x92\x06\xe3123456789"; string(file) != want {
		t.Errorf("a snapshot is %q, want %q", file, want)
	}
	framed := appendRecord(nil, []byte("123456789"))
	if size, sum := binary.LittleEndian.Uint32(framed), binary.LittleEndian.Uint32(framed[4:]); size != 9 || sum != 0xe3069283 {
		t.Errorf("framed with %d and %#x; CRC-32C of the check string is 0xe3069283", size, sum)
	}
}
