package engine_test

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
)

// row is one transcript: do sends requests on a fresh connection with channel 1
// open (and reads what is not in question), then the broker's answers must be
// want, and nothing else.
//
// When the last line of want is a connection.close, the client answers it and
// the socket must be closed. When it is a channel.close on channel 1, the
// client answers it, and channel 2 must still work.
type row struct {
	name    string
	options amqptest.Options
	do      func(c *amqptest.Client)
	want    []string
}

// runRows runs rows against one broker; "$" is a prefix of each row's own.
func runRows(t *testing.T, e *engine.Engine, rows []row) {
	for i, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			c := amqptest.OpenClient(t, e.Addr(), r.options)
			c.Prefix = fmt.Sprintf("r%d-", i)
			c.OpenChannel(2)
			r.do(c)
			c.Want(r.want...)
			finish(c, r.want)
		})
	}
}

// finish ends a transcript according to its last line.
func finish(c *amqptest.Client, want []string) {
	last := ""
	if len(want) > 0 {
		last = want[len(want)-1]
	}
	switch {
	case isLine(last, "0 connection.close "):
		c.FinishClose()
	case isLine(last, "0 connection.close-ok"):
		c.WantClosed()
	case isLine(last, "1 channel.close "):
		c.Method(1, closeOk)
		c.WantQuiet(2)
		c.OpenChannel(1)
		c.WantQuiet(1)
	case isLine(last, "2 channel.close "):
		c.Method(2, closeOk)
		c.WantQuiet(1)
	default:
		c.WantQuiet(2)
	}
}

func isLine(line, prefix string) bool {
	return len(line) >= len(prefix) && line[:len(prefix)] == prefix
}
