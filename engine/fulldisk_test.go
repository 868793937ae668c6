package engine_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// A broker that was killed on a disk without room for one more file starts there:
// somebody has to consume what fills it. It has no control socket then.
func TestFullDisk_StartsWithoutControlSocket(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=32m,nr_inodes=300"); err != nil {
		t.Skipf("a tmpfs cannot be mounted here (needs root): %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	data := filepath.Join(dir, "data")
	in := func(c *engine.Config) { c.DataDir, c.DiskFreeMin, c.IO = data, -1, "posix" }
	config := engine.Config{Version: "test", Loops: 1}
	in(&config)
	e, err := engine.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, e)
	c.Declare("q", amqptest.Durable)
	c.PublishAll(1, "q", "kept")
	c.Sync(1)
	amqptest.Ask[*amqp.ConnectionCloseOk](c, 0, &amqp.ConnectionClose{ReplyCode: 200})
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}

	// Without the mark of a clean stop it is as if it had been killed.
	if err := os.Remove(filepath.Join(data, "clean-stop")); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		f, err := os.Create(filepath.Join(dir, fmt.Sprint(n)))
		if errors.Is(err, syscall.ENOSPC) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	e = start(t, in)
	if _, err := os.Stat(filepath.Join(data, admin.SocketName)); err == nil {
		t.Error("there is a control socket on a disk without room for it")
	}
	c = open(t, e)
	if got := c.Get(1, "q", amqptest.NoAck); string(got.Body) != "kept" {
		t.Errorf("got %v", got)
	}
	amqptest.Ask[*amqp.ConnectionCloseOk](c, 0, &amqp.ConnectionClose{ReplyCode: 200})
	for n := range 10 { // for what this stop writes
		if err := os.Remove(filepath.Join(dir, fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
}
