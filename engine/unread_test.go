package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// wantUnread checks what clients and operators hear of queue q, of which nothing can
// be read because of some file, while queue other goes on; unread of its logs could not be read.
func wantUnread(t *testing.T, c *filler, dir, why string, unread int) {
	t.Helper()
	if ok := c.Declare("q", amqptest.Passive); ok.MessageCount != 0 {
		t.Errorf("%d messages", ok.MessageCount)
	}
	c.Declare("q", amqptest.Durable) // as it was
	for _, m := range []amqp.Method{
		c.Consume("q", "t", 0), &amqp.BasicGet{Queue: []byte("q")}, &amqp.QueuePurge{Queue: []byte("q")},
	} {
		c.OpenChannel(2)
		c.Method(2, m)
		c.Want("2 channel.close 541 *")
		c.Method(2, &amqp.ChannelCloseOk{})
	}
	c.OpenChannel(2)
	c.Method(2, &amqp.QueueDelete{Queue: []byte("q"), IfEmpty: true})
	c.Want("2 channel.close 406 *")
	c.Method(2, &amqp.ChannelCloseOk{})
	if n := c.fill("q", 3); n != 0 {
		t.Errorf("%d publishes were confirmed", n)
	}
	if n := c.fill("other", 3); n != 3 {
		t.Errorf("%d publishes to the other queue were confirmed", n)
	}
	loose := amqptest.OpenClient(t, c.addr, amqptest.Options{}) // without confirms
	loose.PublishAll(1, "q", "x")
	loose.Want("0 connection.close 541 *")
	loose.Abort()
	if status, answer := request(t, dir, "GET", "/api/queues/%2F/q"); status != 200 || !strings.Contains(answer, `"state":"closed"`) || !strings.Contains(answer, `"closed_reason":"`) || !strings.Contains(answer, why) {
		t.Errorf("%d %s, want the reason %s", status, answer, why)
	}
	if status, answer := request(t, dir, "GET", "/api/queues/%2F/other"); status != 200 || !strings.Contains(answer, `"closed_reason":null`) {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := request(t, dir, "PUT", "/api/queues/%2F/q/restart"); status != 500 || !strings.Contains(answer, "stays closed: nothing of it is lost; mend the disk, and try again") || !strings.Contains(answer, why) {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := request(t, dir, "DELETE", "/api/queues/%2F/q/contents"); status != 500 || !strings.Contains(answer, "cannot be read") {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := request(t, dir, "GET", "/metrics"); status != 200 || !strings.Contains(answer, fmt.Sprintf("basaltmq_store_unread_logs %d\n", unread)) || strings.Contains(answer, "basaltmq_store_fenced_logs 0\n") {
		t.Errorf("%d %.200s", status, answer)
	}
}

// wantMessages gets those with the numbers [from, to) of queue q.
func wantMessages(t *testing.T, c *filler, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		got := c.Get(1, "q", amqptest.NoAck)
		if !strings.HasPrefix(string(got.Body), fmt.Sprint(i, " ")) {
			t.Fatalf("got %.20s, want %d", got, i)
		}
	}
}

// TestStart_UnreadableQueue: a queue whose files cannot be read at a start keeps
// nothing else from starting, however often; when they can be, a request opens it, and
// all that was confirmed is there, in its order.
func TestStart_UnreadableQueue(t *testing.T) {
	t.Parallel()
	for _, calls := range []sim.Call{sim.CallOpen, sim.CallRead, sim.CallReadDir} {
		t.Run(calls.String(), func(t *testing.T) {
			t.Parallel()
			d := sim.New(sim.Options{})
			c, stop := onDisk(t, d)
			c.Declare("q", amqptest.Durable)
			c.Declare("other", amqptest.Durable)
			if n := c.fill("q", 100); n != 100 {
				t.Fatalf("%d confirmed", n)
			}
			c.Publish(1, amqptest.Message{Key: "q", Persistent: true, Body: "100 only in the journal"})
			c.Want("1 basic.ack *")
			c.done++
			d = d.PowerCut()
			c.Abort()
			stop()
			files := d.Files()
			var directory string
			for _, name := range files {
				if strings.HasSuffix(name, ".seg") {
					directory = filepath.Dir(name)
				}
			}
			rule := sim.Rule{Path: directory + "/*", Calls: calls}
			if calls == sim.CallReadDir {
				rule.Path = directory
			}
			for range 2 {
				d.Inject(rule)
				dir := t.TempDir()
				c, stop = onDiskIn(t, d, dir)
				wantUnread(t, c, dir, directory, 1)
				c.Abort() // Stop would wait for it
				stop()
				d = d.Kill()
			}
			fault := d.Inject(rule)
			dir := t.TempDir()
			c, stop = onDiskIn(t, d, dir)
			fault.Remove()
			if status, answer := request(t, dir, "PUT", "/api/queues/%2F/q/restart"); status != 204 {
				t.Fatalf("%d %s", status, answer)
			}
			wantMessages(t, c, 0, 50)
			if n := c.fill("q", 2); n != 2 {
				t.Errorf("%d confirmed", n)
			}
			c.Abort()
			stop()
			c, stop = onDisk(t, d.PowerCut())
			got := c.Get(1, "q", amqptest.NoAck)
			for i := 0; i < 50 && !strings.HasPrefix(string(got.Body), "50 "); i++ { // settlements that were lost
				got = c.Get(1, "q", amqptest.NoAck)
			}
			wantMessages(t, c, 51, 101)
			wantMessages(t, c, 0, 2)
			c.Abort()
			stop()
		})
	}
}

// TestStart_UnreadableFilesOnDisk is the same on a real disk, where a loop of
// symbolic links, a directory, or a file in the place of one is an error for root too.
func TestStart_UnreadableFilesOnDisk(t *testing.T) {
	t.Parallel()
	loop := func(name string) error { return os.Symlink(filepath.Base(name), name) }
	for name, damage := range map[string]struct {
		whole bool // the directory of the log, or a segment
		put   func(name string) error
		why   error
	}{
		"segment is a loop of links":   {false, loop, unix.ELOOP},
		"segment is a directory":       {false, func(name string) error { return os.Mkdir(name, 0o700) }, nil},
		"directory is a loop of links": {true, loop, unix.ELOOP},
		"directory is a file":          {true, func(name string) error { return os.WriteFile(name, []byte("x"), 0o600) }, unix.ENOTDIR},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			start := func() (*filler, *Engine) {
				e, err := Start(Config{DataDir: dir, Loops: 1})
				if err != nil {
					t.Fatal(err)
				}
				c := &filler{addr: e.Addr(), Client: amqptest.OpenClient(t, e.Addr(), amqptest.Options{})}
				amqptest.Ask[*amqp.ConfirmSelectOk](c.Client, 1, &amqp.ConfirmSelect{})
				return c, e
			}
			c, e := start()
			c.Declare("q", amqptest.Durable)
			if n := c.fill("q", 100); n != 100 {
				t.Fatalf("%d confirmed", n)
			}
			c.Declare("other", amqptest.Durable)
			c.fill("other", 1)
			c.Abort()
			if err := e.Stop(); err != nil {
				t.Fatal(err)
			}
			segments, err := filepath.Glob(filepath.Join(dir, "logs", "*", "*.seg"))
			if err != nil || len(segments) == 0 {
				t.Fatal(segments, err)
			}
			victim := segments[0] // q was declared first
			if damage.whole {
				victim = filepath.Dir(victim)
			}
			if err := os.Rename(victim, filepath.Join(dir, "elsewhere")); err != nil {
				t.Fatal(err)
			}
			if err := damage.put(victim); err != nil {
				t.Fatal(err)
			}
			c, e = start()
			wantUnread(t, c, dir, "logs/", 1)
			c.Abort()
			if err := e.Stop(); err == nil || damage.why != nil && !errors.Is(err, damage.why) {
				t.Errorf("Stop: %v", err)
			}
			c, e = start()
			if err := errors.Join(os.Remove(victim), os.Rename(filepath.Join(dir, "elsewhere"), victim)); err != nil {
				t.Fatal(err)
			}
			if status, answer := request(t, dir, "PUT", "/api/queues/%2F/q/restart"); status != 204 {
				t.Fatalf("%d %s", status, answer)
			}
			wantMessages(t, c, 0, 100)
			c.Abort()
			if err := e.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStart_RefusedWithoutTheWhole: what all queues need must be readable.
func TestStart_RefusedWithoutTheWhole(t *testing.T) {
	t.Parallel()
	for name, calls := range map[string]sim.Call{
		"journal/0": sim.CallOpen | sim.CallRead, "definitions": sim.CallOpen | sim.CallRead, "journal": sim.CallReadDir, "logs": sim.CallReadDir, "bodies": sim.CallReadDir,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := sim.New(sim.Options{})
			c, stop := onDisk(t, d)
			c.Declare("q", amqptest.Durable)
			c.fill("q", 1)
			c.fillLarge("q", 1, 2)
			c.Abort()
			stop()
			d = d.Kill()
			fault := d.Inject(sim.Rule{Path: name, Calls: calls})
			if e, err := Start(Config{DataDir: t.TempDir(), Loops: 1, disk: d}); err == nil {
				_ = e.Stop()
				t.Fatal("it starts")
			} else if !errors.Is(err, unix.EIO) || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "restore the data directory from a backup") {
				t.Errorf("it says %v", err)
			}
			fault.Remove()
			c, _ = onDisk(t, d.Kill())
			wantMessages(t, c, 0, 2)
			c.Abort()
		})
	}
}
