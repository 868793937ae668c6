package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

func TestStream_LargeBodiesAndRetention(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := startIn(t, dir)
	c := open(t, e)
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 1, &amqp.ConfirmSelect{})
	stream(c, "s", "x-max-length-bytes", 6<<20, "x-stream-max-segment-size-bytes", 2<<20)
	reader := open(t, e)
	subscribeStream(reader, 1, "s", "", 1, "x-stream-offset", "first")
	for n := range 20 {
		c.Publish(1, large("s", n, true))
		amqptest.Expect[*amqp.BasicAck](c)
		if n == 0 {
			got := reader.Read()
			if string(got.Body) != largeBody(0) || offsetOf(t, got) != 0 {
				t.Fatalf("%d bytes", len(got.Body))
			}
		}
	}
	eventually(t, "retention removes bodies", func() bool {
		_, files, _ := bodyFiles(t, dir)
		return files < 10 && uint32(files) == ready(c, "s")
	})
	// The reader jumps to what is left.
	before := int(ready(c, "s"))
	reader.Ack(1, 1, 0)
	got := reader.Read()
	after := int(ready(c, "s")) // retention may go on meanwhile
	if n := int(offsetOf(t, got)); n < 20-before || n > 20-after || string(got.Body) != largeBody(n) {
		t.Fatalf("offset %d with %d, then %d left", n, before, after)
	}
}

func TestStream_RetentionBySize(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	stream(c, "s", "x-max-length-bytes", 200_000, "x-stream-max-segment-size-bytes", 50_000)
	stream(c, "exact")
	body := strings.Repeat("x", 1000)
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 1, &amqp.ConfirmSelect{})
	for range 100 {
		c.PublishAll(1, "s", slices.Repeat([]string{body}, 20)...)
		for acked := uint64(0); acked == 0; {
			acked = amqptest.Expect[*amqp.BasicAck](c).Method.(*amqp.BasicAck).DeliveryTag
		}
	}
	d := open(t, e)
	eventually(t, "retention", func() bool { n := ready(d, "s"); return n > 50 && n < 300 })
	before := int64(ready(d, "s"))
	d.OpenChannel(2)
	subscribeStream(d, 2, "s", "", 1, "x-stream-offset", int64(0)) // clamped
	first := offsetOf(t, d.Read())
	after := int64(ready(d, "s")) // retention may go on meanwhile
	if first < 2000-before || first > 2000-after {
		t.Fatalf("first offset %d, %d messages before, %d after", first, before, after)
	}
}

func TestStream_TransactionsAndExchanges(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := open(t, e)
	stream(c, "s")
	declareWith(c, "q", 0)
	for _, q := range []string{"s", "q"} {
		amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind(q, "amq.fanout", "", nil))
	}
	subscribeStream(c, 1, "s", "me", 10, "x-stream-offset", "first")
	c.OpenChannel(2)
	amqptest.Ask[*amqp.TxSelectOk](c, 2, &amqp.TxSelect{})
	c.Publish(2, amqptest.Message{Exchange: "amq.fanout", Body: "m0"})
	c.Publish(2, amqptest.Message{Exchange: "amq.fanout", Body: "m1"})
	c.WantQuiet(1)
	c.Method(2, &amqp.TxCommit{})
	c.Want("2 tx.commit-ok")
	wantStream(t, c, streamed(0, 2)...)
	if got := drain(c, "q"); !slices.Equal(got, []string{"m0", "m1"}) {
		t.Fatal(got)
	}
	// Republished by a consumer, a message gets the offset of its new place.
	b := amqp.NewTableBuilder(nil)
	b.SetInt64("x-stream-offset", 77)
	b.SetString("other", "kept")
	c.Publish(1, amqptest.Message{Key: "s", Body: "m2", Properties: &amqp.Properties{
		Flags: amqp.FlagHeaders | amqp.FlagContentType | amqp.FlagMessageID, ContentType: []byte("text"), MessageID: []byte("id"), Headers: b.Table(),
	}})
	got := c.Read()
	if p := properties(got); headers(got) != "{x-stream-offset=2 other=kept}" || string(p.MessageID) != "id" || string(p.ContentType) != "text" {
		t.Fatalf("%s: %s", got, headers(got))
	}
}
