package engine_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// allocated is the bytes that files below dir take on the file system.
func allocated(t testing.TB, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return nil // removed meanwhile
		}
		if info, err := e.Info(); err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}

// TestReclaim_OneOldMessage: one message that somebody holds without an ack in
// front of many that are consumed keeps its own space, not theirs; also after a
// restart, when it comes again.
func TestReclaim_OneOldMessage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	probe, err := os.Create(filepath.Join(dir, "probe"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = probe.Write(make([]byte, 8192))
	if err == nil {
		err = unix.Fallocate(int(probe.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 8192)
	}
	_, _ = probe.Close(), os.Remove(probe.Name())
	if err != nil {
		t.Skipf("the file system of %s has no holes: %v", dir, err)
	}
	const bodies, size = 360, 200 << 10 // a default segment and a bit
	logs := filepath.Join(dir, "logs")
	e, err := engine.Start(engine.Config{DataDir: dir, Loops: 1, IO: os.Getenv(ioVariable)})
	if err != nil {
		t.Fatal(err)
	}
	stop := func() {
		if err := e.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	}
	c := open(t, e)
	c.Declare("q", amqptest.Durable)
	body := strings.Repeat("x", size)
	c.PublishAll(1, "q", "old")
	for range bodies {
		c.PublishAll(1, "q", body)
	}
	eventually(t, "the messages are in segments", func() bool { return allocated(t, logs) >= bodies*size-(4<<20) })
	c.OpenChannel(2)
	if got := c.Get(2, "q", 0); string(got.Body) != "old" {
		t.Fatalf("got %d bytes first", len(got.Body))
	}
	for range bodies {
		got := c.Get(1, "q", 0)
		if len(got.Body) != size {
			t.Fatalf("got %d bytes", len(got.Body))
		}
		c.Ack(1, got.Method.(*amqp.BasicGetOk).DeliveryTag, 0)
	}
	eventually(t, "the space comes back", func() bool { return allocated(t, logs) < 2<<20 })
	c.Abort()
	stop()

	e, err = engine.Start(engine.Config{DataDir: dir, Loops: 1, IO: os.Getenv(ioVariable)})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if got := allocated(t, logs); got > 2<<20 {
		t.Errorf("%d bytes are allocated after a restart", got)
	}
	c = open(t, e)
	if got := c.Get(1, "q", amqptest.NoAck); string(got.Body) != "old" {
		t.Errorf("got %v after a restart", got)
	}
	c.Abort()
}
