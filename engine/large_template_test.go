package engine_test

import (
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// A large delivery takes the consumer's reader along; the next reader counts
// batches from the beginning, which made the consumer take the template of the
// large message for that of the next one.
func TestMessageAfterALargeOneKeepsItsOwnProperties(t *testing.T) {
	c := amqptest.OpenClient(t, start(t).Addr(), amqptest.Options{})
	c.Declare("q", amqptest.Durable)
	large := amqp.Properties{Flags: amqp.FlagMessageID, MessageID: []byte("large")}
	c.Publish(1, amqptest.Message{Key: "q", Body: strings.Repeat("x", 1<<20), Properties: &large})
	c.Sync(1)
	c.Publish(1, amqptest.Message{Key: "q", Body: "small"})
	c.Sync(1)
	c.Subscribe(1, "q", "c", 0)
	for _, want := range []string{"large", ""} {
		event := amqptest.Expect[*amqp.BasicDeliver](c)
		p, err := amqp.DecodeProperties(event.Properties)
		if err != nil {
			t.Fatal(err)
		}
		if string(p.MessageID) != want {
			t.Errorf("a delivery of %d bytes has message-id %q, want %q", len(event.Body), p.MessageID, want)
		}
	}
}
