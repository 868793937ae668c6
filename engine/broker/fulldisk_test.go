package broker

import (
	"strings"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// TestOpen_OrphanLogOnAFullDisk: a log that belongs to no queue does not keep
// the broker from starting when there is no space to put it aside: consumers
// have to make some. It waits for the next start.
func TestOpen_OrphanLogOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	declareSome(e)
	for id := uint64(77); id < 80; id++ {
		log, err := e.store.OpenLog(id, segstore.LogOptions{})
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
	}
	e.crash()
	posix, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	full := func(op *disk.Op) (<-chan struct{}, error) {
		if op.Kind == disk.Write && strings.HasPrefix(op.File.Name(), segstore.LogsDir) {
			return nil, syscall.ENOSPC
		}
		return nil, nil
	}
	e, err = tryOpen(t, &testDisk{Disk: posix, lazy: true, hinder: full}, segstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got, lines := e.broker.Recovered(), strings.Count(e.log.String(), "\n"); got != recoveredSome || lines != 1 || !strings.Contains(e.log.String(), "the disk is full") {
		t.Errorf("recovered %+v, logged %q", got, e.log)
	}
	if q := e.queue(QueueDeclare{Name: "next", Durable: true}, nil); q.ID <= 79 {
		t.Errorf("log id %d after 79", q.ID)
	}
	e.crash()
	e = openDir(t, dir)
	if got := strings.Count(e.log.String(), "set aside"); got != 3 {
		t.Errorf("logged %q", e.log)
	}
	e.close()
	if !quarantined(t, dir, "precious") {
		t.Error("the messages are not in quarantine/")
	}
}
