package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// largeNames lists the body files of durable queues, oldest first.
func largeNames(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "bodies", "*", "*"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return names
}

// TestLarge_Missing: a message whose body is gone, or too short, is passed over
// like one without a record; the queue goes on, and what is too short is put aside.
func TestLarge_Missing(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"consume", "get"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			c := open(t, startIn(t, dir))
			c.Declare("q", amqptest.Durable)
			confirmSelect(c)
			for n := range 4 {
				c.Publish(1, large("q", n, true))
				amqptest.Expect[*amqp.BasicAck](c)
			}
			names := largeNames(t, dir)
			if err := os.Remove(names[0]); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(names[2], 1000); err != nil {
				t.Fatal(err)
			}
			if how == "consume" {
				c.Subscribe(1, "q", "t", 0)
				wantLarge(t, c, 1, false)
				wantLarge(t, c, 3, false)
				c.WantQuiet(1)
				c.Ack(1, 2, amqptest.Multiple)
			} else {
				for _, n := range []int{1, 3} {
					if got := c.Get(1, "q", amqptest.NoAck); string(got.Body) != largeBody(n) {
						t.Fatalf("got %d bytes", len(got.Body))
					}
				}
				if got := c.Get(1, "q", 0).String(); got != "1 basic.get-empty" {
					t.Fatal(got)
				}
			}
			wantFiles(t, dir, 0, 0)
			if aside, err := filepath.Glob(filepath.Join(dir, "quarantine", "body-*")); err != nil || len(aside) != 1 {
				t.Errorf("what was too short is not put aside: %v, %v", aside, err)
			}
		})
	}
}

// TestLarge_Decayed: damage that shows only at the end of a delivery costs the
// connection (541), once: the body is put aside and its message passed over.
func TestLarge_Decayed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	c := open(t, e)
	c.Declare("q", amqptest.Durable)
	confirmSelect(c)
	for n := range 2 {
		c.Publish(1, large("q", n, true))
		amqptest.Expect[*amqp.BasicAck](c)
	}
	file, err := os.OpenFile(largeNames(t, dir)[0], os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte("decay"), 200_000); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	c.Subscribe(1, "q", "t", 0)
	c.AllowCut()
	c.Want("0 connection.close 541 *")
	c.FinishClose()
	eventually(t, "the body is put aside", func() bool {
		aside, err := filepath.Glob(filepath.Join(dir, "quarantine", "body-*"))
		return err == nil && len(aside) == 1
	})
	c = open(t, e)
	c.Subscribe(1, "q", "t", 0)
	wantLarge(t, c, 1, false)
	c.WantQuiet(1)
}

// TestLarge_CannotBeWritten: a nack for who asked for confirms, a closed channel
// for others (541); nothing is left, and the connection goes on.
func TestLarge_CannotBeWritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "spool"), nil, 0o600); err != nil { // in the way of the directory
		t.Fatal(err)
	}
	c := open(t, e)
	c.Declare("q", amqptest.Durable)
	c.OpenChannel(2)
	c.OpenChannel(3)
	c.Publish(1, large("q", 0, true))
	c.Want("1 channel.close 541 *")
	c.Method(1, closeOk)
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 2, &amqp.ConfirmSelect{})
	c.Publish(2, large("q", 0, true))
	c.Want("2 basic.nack DeliveryTag=1 *")
	amqptest.Ask[*amqp.TxSelectOk](c, 3, &amqp.TxSelect{})
	c.Publish(3, large("q", 0, true))
	c.Publish(3, amqptest.Message{Key: "q", Body: "small"})
	c.Method(3, &amqp.TxCommit{})
	c.Want("3 channel.close 541 (90,20) *")
	c.Method(3, closeOk)
	if err := os.Remove(filepath.Join(dir, "spool")); err != nil {
		t.Fatal(err)
	}
	c.Publish(2, large("q", 7, true))
	c.Want("2 basic.ack DeliveryTag=2 *")
	c.Subscribe(2, "q", "t", amqptest.NoAck)
	wantLarge(t, c, 7, false)
	c.WantQuiet(2)
	memoryBelow(t, e, 1<<20)
}
