package engine_test

import (
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestRefused: when a queue's log takes nothing any more, publishers hear of it:
// by basic.nack if they asked for confirms, by connection.close 541 otherwise.
func TestRefused(t *testing.T) {
	t.Parallel()
	e, err := engine.Start(engine.Config{DataDir: t.TempDir(), Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Stop() }) // the store is not well, and says so
	confirming, plain := open(t, e), open(t, e)
	confirming.Declare("q", amqptest.Durable)
	amqptest.Ask[*amqp.ConfirmSelectOk](confirming, 1, &amqp.ConfirmSelect{})
	e.Broker().Store().Crash()

	confirming.PublishAll(1, "q", "a", "b")
	for tag := uint64(0); tag < 2; {
		nack := amqptest.Expect[*amqp.BasicNack](confirming).Method.(*amqp.BasicNack)
		tag = nack.DeliveryTag
	}
	plain.PublishAll(1, "q", "c")
	m := amqptest.Expect[*amqp.ConnectionClose](plain).Method.(*amqp.ConnectionClose)
	if m.ReplyCode != amqp.CodeInternalError || !strings.Contains(string(m.ReplyText), "queue 'q'") {
		t.Errorf("%d %s", m.ReplyCode, m.ReplyText)
	}
	plain.FinishClose()
}
