package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// fillLarge publishes large messages with the numbers [from, to) and returns how many
// were confirmed.
func (c *filler) fillLarge(queue string, from, to int) (confirmed uint64) {
	for i := from; i < to; i++ {
		confirmed += c.putLarge(amqptest.Message{Key: queue}, i)
	}
	return confirmed
}

// putLarge publishes one; it returns 1 if it was confirmed.
func (c *filler) putLarge(m amqptest.Message, i int) (confirmed uint64) {
	m.Persistent, m.FrameMax, m.Body = true, 131072, fmt.Sprintf("%d %s", i, strings.Repeat("large ", 200_000))
	c.Publish(1, m)
	for c.done++; ; {
		switch m := c.Read().Method.(type) {
		case *amqp.BasicAck:
			return 1
		case *amqp.BasicNack:
			return 0
		case *amqp.BasicDeliver:
		default:
			panic(fmt.Sprintf("%T", m))
		}
	}
}

// mixedQueues declares q, with messages large and small, and other. The messages of q
// have the numbers [0, 6).
func mixedQueues(t *testing.T, c *filler) {
	t.Helper()
	for _, q := range []string{"q", "other"} {
		c.Declare(q, amqptest.Durable)
		amqptest.Ask[*amqp.QueueBindOk](c.Client, 1, c.QueueBind(q, "amq.fanout", "", nil))
	}
	if n := c.fill("q", 2) + c.fillLarge("q", 2, 6) + c.fillLarge("other", 0, 1); n != 7 {
		t.Fatalf("%d confirmed", n)
	}
}

// wantOthersServed checks that a large message to q, which is closed, and to other comes to
// the latter, and is not confirmed; and that other has its own.
func wantOthersServed(t *testing.T, c *filler) {
	t.Helper()
	if n := c.fillLarge("q", 100, 102) + c.putLarge(amqptest.Message{Exchange: "amq.fanout"}, 7); n != 0 {
		t.Errorf("%d large messages to a closed queue were confirmed", n)
	}
	found := 0
	for c.Declare("other", amqptest.Passive).MessageCount > 0 {
		body := string(c.Get(1, "other", amqptest.NoAck).Body)
		if strings.HasPrefix(body, "0 large") || strings.HasPrefix(body, "7 large") {
			found++
		}
	}
	if found != 2 {
		t.Errorf("%d large messages were in the other queue", found)
	}
	if n := c.fillLarge("other", 0, 1); n != 1 {
		t.Error("the other queue takes no large message")
	}
}

// TestStart_UnlistedBodies: a queue whose large bodies cannot be listed at a start keeps
// nothing else from starting, however often; when they can be, a request opens it, and all
// that was confirmed is there, in its order, small messages and large ones.
func TestStart_UnlistedBodies(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	c, stop := onDisk(t, d)
	mixedQueues(t, c)
	c.Abort()
	stop()
	d = d.Kill()
	var files []string
	for _, name := range d.Files() {
		if strings.HasPrefix(name, "bodies/") && (files == nil || filepath.Dir(name) == filepath.Dir(files[0])) {
			files = append(files, name) // those of q, which was declared first
		}
	}
	if len(files) != 4 {
		t.Fatal(files)
	}
	rule := sim.Rule{Path: filepath.Dir(files[0]), Calls: sim.CallReadDir}
	for range 3 {
		d.Inject(rule)
		dir := t.TempDir()
		c, stop = onDiskIn(t, d, dir)
		wantUnread(t, c, dir, rule.Path, 0)
		wantOthersServed(t, c)
		for _, name := range files {
			if !slices.Contains(d.Files(), name) {
				t.Fatalf("%s is gone", name)
			}
		}
		c.Abort()
		stop()
		d = d.Kill()
	}
	fault, dir := d.Inject(rule), t.TempDir()
	c, stop = onDiskIn(t, d, dir)
	fault.Remove()
	if status, answer := request(t, dir, "PUT", "/api/queues/%2F/q/restart"); status != 204 {
		t.Fatalf("%d %s", status, answer)
	}
	wantMessages(t, c, 0, 4)
	if n := c.fillLarge("q", 6, 8); n != 2 {
		t.Errorf("%d confirmed", n)
	}
	c.Abort()
	stop()
	c, stop = onDisk(t, d.PowerCut())
	got := c.Get(1, "q", amqptest.NoAck)
	for i := 0; i < 6 && !strings.HasPrefix(string(got.Body), "4 "); i++ { // settlements that were lost
		got = c.Get(1, "q", amqptest.NoAck)
	}
	wantMessages(t, c, 5, 8)
	c.Abort()
	stop()
}

// TestStart_UnlistedBodiesOnDisk is the same on a real disk, where a loop of symbolic links
// or a file in its place is an error for root too; and the queue can be given up.
func TestStart_UnlistedBodiesOnDisk(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]struct {
		put    func(name string) error
		why    error
		remedy string // restart, start or delete
	}{
		"a file":                    {func(name string) error { return os.WriteFile(name, []byte("x"), 0o600) }, unix.ENOTDIR, "restart"},
		"a file, mended later":      {func(name string) error { return os.WriteFile(name, []byte("x"), 0o600) }, unix.ENOTDIR, "start"},
		"a loop of links":           {func(name string) error { return os.Symlink(filepath.Base(name), name) }, unix.ELOOP, "restart"},
		"a loop of links, given up": {func(name string) error { return os.Symlink(filepath.Base(name), name) }, unix.ELOOP, "delete"},
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
			stop := func(c *filler, e *Engine) {
				c.Abort()
				if err := e.Stop(); err != nil {
					t.Error(err)
				}
			}
			c, e := start()
			mixedQueues(t, c)
			stop(c, e)
			victims, err := filepath.Glob(filepath.Join(dir, "bodies", "*"))
			if err != nil || len(victims) != 2 {
				t.Fatal(victims, err)
			}
			victim, elsewhere := victims[0], filepath.Join(dir, "elsewhere") // q was declared first
			if err := errors.Join(os.Rename(victim, elsewhere), damage.put(victim)); err != nil {
				t.Fatal(err)
			}
			c, e = start()
			wantUnread(t, c, dir, damage.why.Error(), 0)
			wantOthersServed(t, c)
			if damage.remedy == "delete" {
				if status, answer := request(t, dir, "DELETE", "/api/queues/%2F/q"); status != 204 {
					t.Fatalf("%d %s", status, answer)
				}
				stop(c, e)
				if _, err := os.Lstat(victim); !errors.Is(err, os.ErrNotExist) {
					t.Errorf("what was in its place is still there: %v", err)
				}
				return
			}
			if damage.remedy == "start" {
				c.Abort()
				if err := e.Stop(); !errors.Is(err, damage.why) { // the next start is one after a crash
					t.Errorf("Stop: %v", err)
				}
			}
			if err := errors.Join(os.Remove(victim), os.Rename(elsewhere, victim)); err != nil {
				t.Fatal(err)
			}
			if damage.remedy == "start" {
				c, e = start()
			} else if status, answer := request(t, dir, "PUT", "/api/queues/%2F/q/restart"); status != 204 {
				t.Fatalf("%d %s", status, answer)
			}
			if status, answer := request(t, dir, "GET", "/api/queues/%2F/q"); status != 200 || !strings.Contains(answer, `"closed_reason":null`) {
				t.Errorf("%d %s", status, answer)
			}
			wantMessages(t, c, 0, 6)
			if n := c.fillLarge("q", 6, 7); n != 1 {
				t.Errorf("%d confirmed", n)
			}
			stop(c, e)
			c, e = start()
			wantMessages(t, c, 6, 7)
			stop(c, e)
		})
	}
}
