package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

const replyQueue = "amq.rabbitmq.reply-to"

// request publishes to a queue with the pseudo queue as reply_to, and returns
// the name that the broker has put in its place.
func request(c, server *amqptest.Client, body string) (replyTo string) {
	c.Publish(1, amqptest.Message{Key: "rpc", Body: body, Properties: &amqp.Properties{
		Flags: amqp.FlagReplyTo | amqp.FlagCorrelationID, ReplyTo: []byte(replyQueue), CorrelationID: []byte(body)}})
	got := amqptest.Expect[*amqp.BasicDeliver](server)
	p := properties(got)
	if string(p.CorrelationID) != string(got.Body) {
		panic(got.String())
	}
	return string(p.ReplyTo)
}

// rpc starts a client and a server of requests.
func rpc(t *testing.T) (client, server *amqptest.Client) {
	t.Helper()
	e := start(t)
	client, server = open(t, e), open(t, e)
	server.Declare("rpc", 0)
	server.Subscribe(1, "rpc", "s", amqptest.NoAck)
	client.Subscribe(1, replyQueue, "r", amqptest.NoAck)
	return client, server
}

func TestReplyTo(t *testing.T) {
	t.Parallel()
	client, server := rpc(t)
	first := ""
	for i := range 5 { // some on the path for equal publishes
		name := request(client, server, fmt.Sprint("request ", i))
		if first == "" {
			first = name
		}
		if name != first || !strings.HasPrefix(name, replyQueue+".") || len(name) < len(replyQueue)+20 {
			t.Fatalf("reply to %q, before %q", name, first)
		}
		reply := fmt.Sprint("reply ", i)
		server.Publish(1, amqptest.Message{Key: name, Body: reply, Properties: &amqp.Properties{Flags: amqp.FlagCorrelationID, CorrelationID: []byte("c")}})
		got := amqptest.Expect[*amqp.BasicDeliver](client)
		d := got.Method.(*amqp.BasicDeliver)
		if string(d.ConsumerTag) != "r" || d.Redelivered || string(d.Exchange) != "" || string(d.RoutingKey) != name ||
			string(got.Body) != reply || string(properties(got).CorrelationID) != "c" {
			t.Fatal(got)
		}
	}
	// Several at once, in order; and large ones, which see no disk.
	large := strings.Repeat("x", 3<<20)
	for i := range 50 {
		server.Publish(1, amqptest.Message{Key: first, Body: fmt.Sprint(i)})
	}
	server.Publish(1, amqptest.Message{Key: first, Body: large})
	server.Publish(1, amqptest.Message{Key: first, Body: ""})
	for i := range 50 {
		if _, body := delivery(client); body != fmt.Sprint(i) {
			t.Fatal(body)
		}
	}
	if _, body := delivery(client); body != large {
		t.Fatalf("%d bytes", len(body))
	}
	if _, body := delivery(client); body != "" {
		t.Fatal(body)
	}

	// Who answers can find out whether the client is still there.
	for _, flags := range []amqptest.Flags{0, amqptest.Passive} {
		if ok := amqptest.Ask[*amqp.QueueDeclareOk](server, 1, server.QueueDeclare(first, flags, nil)); ok.MessageCount != 0 || ok.ConsumerCount != 1 {
			t.Fatal(ok)
		}
	}
	if ok := amqptest.Ask[*amqp.QueueDeclareOk](client, 1, client.QueueDeclare(replyQueue, amqptest.Passive, nil)); ok.ConsumerCount != 1 {
		t.Fatal(ok)
	}

	// In a transaction, and confirmed.
	server.OpenChannel(2)
	amqptest.Ask[*amqp.TxSelectOk](server, 2, &amqp.TxSelect{})
	server.Publish(2, amqptest.Message{Key: first, Body: "in tx"})
	client.WantQuiet(1)
	amqptest.Ask[*amqp.TxCommitOk](server, 2, &amqp.TxCommit{})
	if _, body := delivery(client); body != "in tx" {
		t.Fatal(body)
	}
	amqptest.Ask[*amqp.ConfirmSelectOk](server, 1, &amqp.ConfirmSelect{})
	server.Publish(1, amqptest.Message{Key: first, Body: "confirmed", Mandatory: true})
	server.Want("1 basic.ack DeliveryTag=1 Multiple=false")
	if _, body := delivery(client); body != "confirmed" {
		t.Fatal(body)
	}

	// When the client has gone, replies come back if they are mandatory.
	amqptest.Ask[*amqp.BasicCancelOk](client, 1, &amqp.BasicCancel{ConsumerTag: []byte("r")})
	server.Publish(1, amqptest.Message{Key: first, Body: "late", Mandatory: true})
	server.Want(`1 basic.return ReplyCode=312 ReplyText=NO_ROUTE Exchange= RoutingKey=`+first+` "late"`, "1 basic.ack DeliveryTag=2 Multiple=false")
	server.Publish(1, amqptest.Message{Key: first, Body: "later"})
	server.Want("1 basic.ack DeliveryTag=3 Multiple=false")
	client.WantQuiet(1)
	server.OpenChannel(3)
	server.Method(3, server.QueueDeclare(first, amqptest.Passive, nil))
	server.Want("3 channel.close 404 (50,10) NOT_FOUND - no queue '" + first + "' in vhost '/'")

	// A new consumer has a new name.
	client.Subscribe(1, replyQueue, "r2", amqptest.NoAck)
	if again := request(client, server, "again"); again == first {
		t.Fatal("the old name is used again")
	}
}

func TestReplyTo_Refused(t *testing.T) {
	t.Parallel()
	e := start(t)
	for _, test := range []struct {
		name string
		do   func(c *amqptest.Client)
		want []string
	}{
		{"with acknowledgements", func(c *amqptest.Client) { c.Method(1, c.Consume(replyQueue, "t", 0)) },
			[]string{"1 channel.close 406 (60,20) PRECONDITION_FAILED - reply consumer cannot acknowledge"}},
		{"twice", func(c *amqptest.Client) {
			c.Method(1, c.Consume(replyQueue, "a", amqptest.NoAck))
			c.Method(1, c.Consume(replyQueue, "b", amqptest.NoAck))
		}, []string{"1 basic.consume-ok ConsumerTag=a", "1 channel.close 406 (60,20) PRECONDITION_FAILED - reply consumer already set"}},
		{"a tag in use", func(c *amqptest.Client) {
			c.Method(1, c.Consume(replyQueue, "a", amqptest.NoAck))
			c.Method(1, c.Consume("q", "a", amqptest.NoAck))
		}, []string{"1 basic.consume-ok ConsumerTag=a", "0 connection.close 530 (60,20) NOT_ALLOWED - attempt to reuse consumer tag 'a'"}},
		{"a request without consumer", func(c *amqptest.Client) {
			c.Publish(1, amqptest.Message{Key: "q", Body: "m", Properties: &amqp.Properties{Flags: amqp.FlagReplyTo, ReplyTo: []byte(replyQueue)}})
		}, []string{"1 channel.close 406 (60,40) PRECONDITION_FAILED - fast reply consumer does not exist"}},
		{"a consumer of another channel", func(c *amqptest.Client) {
			c.OpenChannel(2)
			c.Subscribe(2, replyQueue, "a", amqptest.NoAck)
			c.Publish(1, amqptest.Message{Key: "q", Body: "m", Properties: &amqp.Properties{Flags: amqp.FlagReplyTo, ReplyTo: []byte(replyQueue)}})
		}, []string{"1 channel.close 406 (60,40) PRECONDITION_FAILED - fast reply consumer does not exist"}},
		{"get", func(c *amqptest.Client) { c.Method(1, &amqp.BasicGet{Queue: []byte(replyQueue)}) },
			[]string{"1 channel.close 404 (60,70) NOT_FOUND - no queue 'amq.rabbitmq.reply-to' in vhost '/'"}},
		{"a name that nobody has", func(c *amqptest.Client) { c.Method(1, c.QueueDeclare(replyQueue+".x", 0, nil)) },
			[]string{"1 channel.close 404 (50,10) NOT_FOUND - no queue 'amq.rabbitmq.reply-to.x' in vhost '/'"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := open(t, e)
			test.do(c)
			c.Want(test.want...)
		})
	}
}

// TestReplyTo_Unread: a client that does not read its replies costs a bounded
// amount of memory; what is beyond goes back, or nowhere.
func TestReplyTo_Unread(t *testing.T) {
	t.Parallel()
	client, server := rpc(t)
	name := request(client, server, "a")
	amqptest.Ask[*amqp.ConfirmSelectOk](server, 1, &amqp.ConfirmSelect{})
	body := strings.Repeat("x", 500_000)
	sent, returned := 0, 0
	for returned == 0 {
		server.Publish(1, amqptest.Message{Key: name, Body: body, Mandatory: true})
		sent++
		for {
			event := server.Read()
			if _, ok := event.Method.(*amqp.BasicAck); ok {
				break
			}
			if _, ok := event.Method.(*amqp.BasicReturn); !ok {
				t.Fatal(event)
			}
			returned++
		}
		if sent > 1000 {
			t.Fatal("half a gigabyte is on its way to a client that does not read")
		}
	}
	for range sent - returned { // what was taken comes
		if _, got := delivery(client); got != body {
			t.Fatalf("%d bytes", len(got))
		}
	}
	server.Publish(1, amqptest.Message{Key: name, Body: "on"})
	if _, got := delivery(client); got != "on" {
		t.Fatal(got)
	}
}
