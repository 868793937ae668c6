package engine_test

import (
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// withQueue makes a step: $q exists and holds bodies, then step.
func withQueue(step func(c *amqptest.Client), bodies ...string) func(*amqptest.Client) {
	return func(c *amqptest.Client) {
		c.Declare("$q", 0)
		c.PublishAll(1, "$q", bodies...)
		step(c)
	}
}

// holding makes a step: the client holds n unacked messages of $q, tags 1 to n.
func holding(n int, step func(c *amqptest.Client)) func(*amqptest.Client) {
	bodies := []string{"m1", "m2", "m3", "m4", "m5"}[:n]
	return withQueue(func(c *amqptest.Client) {
		for range n {
			c.Get(1, "$q", 0)
		}
		step(c)
	}, bodies...)
}

func publishStep(m amqptest.Message) func(*amqptest.Client) {
	return func(c *amqptest.Client) { c.Publish(1, m) }
}

func chain(steps ...func(*amqptest.Client)) func(*amqptest.Client) {
	return func(c *amqptest.Client) {
		for _, step := range steps {
			step(c)
		}
	}
}

// TestBasicPublish: basic.publish and what may be wrong with it (1.8.3.7).
func TestBasicPublish(t *testing.T) {
	with := func(p amqp.Properties) func(*amqptest.Client) {
		return withQueue(publishStep(amqptest.Message{Key: "nowhere", Properties: &p}))
	}
	precondition := func(text string) []string {
		return []string{"1 channel.close 406 (60,40) PRECONDITION_FAILED - " + text}
	}
	returned := func(code, text, exchange, key, body string) string {
		return "1 basic.return ReplyCode=" + code + " ReplyText=" + text + " Exchange=" + exchange + " RoutingKey=" + key + ` "` + body + `"`
	}
	missing := []string{"1 channel.close 404 (60,40) NOT_FOUND - no exchange '$none' in vhost '/'"}
	expiration := func(s string) amqp.Properties {
		return amqp.Properties{Flags: amqp.FlagExpiration, Expiration: []byte(s)}
	}
	mode := func(m uint8) amqp.Properties {
		return amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: m}
	}
	user := func(s string) amqp.Properties { return amqp.Properties{Flags: amqp.FlagUserID, UserID: []byte(s)} }
	runRows(t, start(t), []row{
		{name: "missing exchange", do: publishStep(amqptest.Message{Exchange: "$none"}), want: missing},
		{name: "missing exchange, more behind it", do: chain(publishStep(amqptest.Message{Exchange: "$none", Body: "a"}), publishStep(amqptest.Message{Key: "x"}), publishStep(amqptest.Message{Exchange: "$none"})), want: missing},
		{name: "missing exchange, mandatory, confirms", do: chain(confirmSelect, publishStep(amqptest.Message{Exchange: "$none", Mandatory: true})), want: missing},
		{name: "exchange amq.default", do: publishStep(amqptest.Message{Exchange: "amq.default"}), want: []string{"1 channel.close 404 (60,40) NOT_FOUND - no exchange 'amq.default' in vhost '/'"}},
		{name: "unroutable", do: publishStep(amqptest.Message{Key: "$nope", Body: "b"})},
		{name: "mandatory unroutable", do: publishStep(amqptest.Message{Key: "$nope", Mandatory: true, Body: "b"}), want: []string{returned("312", "NO_ROUTE", "", "$nope", "b")}},
		{name: "mandatory unroutable, empty body", do: publishStep(amqptest.Message{Key: "$nope", Mandatory: true}), want: []string{returned("312", "NO_ROUTE", "", "$nope", "")}},
		{name: "mandatory unroutable, topic", do: publishStep(amqptest.Message{Exchange: "amq.topic", Key: "$nope", Mandatory: true}), want: []string{returned("312", "NO_ROUTE", "amq.topic", "$nope", "")}},
		{name: "mandatory unroutable, confirms: return first", do: chain(confirmSelect, publishStep(amqptest.Message{Key: "$nope", Mandatory: true})), want: []string{
			returned("312", "NO_ROUTE", "", "$nope", ""), "1 basic.ack DeliveryTag=1 Multiple=false",
		}},
		{name: "unroutable, confirms", do: chain(confirmSelect, publishStep(amqptest.Message{Key: "$nope"})), want: []string{"1 basic.ack DeliveryTag=1 Multiple=false"}},
		{name: "mandatory routed, confirms", do: withQueue(chain(confirmSelect, publishStep(amqptest.Message{Key: "$q", Mandatory: true}))), want: []string{"1 basic.ack DeliveryTag=1 Multiple=false"}},

		// RabbitMQ refuses the immediate flag (540); here it works as specified:
		// what no consumer can have at once comes back, so what nobody can have does.
		{name: "immediate, no consumer", do: withQueue(publishStep(amqptest.Message{Key: "$q", Immediate: true, Body: "b"})), want: []string{returned("313", "NO_CONSUMERS", "", "$q", "b")}},
		{name: "immediate, no consumer, confirms", do: withQueue(chain(confirmSelect, publishStep(amqptest.Message{Key: "$q", Immediate: true}))), want: []string{
			returned("313", "NO_CONSUMERS", "", "$q", ""), "1 basic.ack DeliveryTag=1 Multiple=false",
		}},
		{name: "immediate, unroutable", do: publishStep(amqptest.Message{Key: "$nope", Immediate: true, Body: "b"}), want: []string{returned("313", "NO_CONSUMERS", "", "$nope", "b")}},
		{name: "immediate, unroutable, twice, confirms", do: func(c *amqptest.Client) {
			confirmSelect(c)
			c.Publish(1, amqptest.Message{Key: "$nope", Immediate: true})
			c.Want(returned("313", "NO_CONSUMERS", "", "$nope", ""), "1 basic.ack DeliveryTag=1 Multiple=false")
			c.Publish(1, amqptest.Message{Key: "$nope", Immediate: true})
		}, want: []string{returned("313", "NO_CONSUMERS", "", "$nope", ""), "1 basic.ack DeliveryTag=2 Multiple=false"}},
		{name: "immediate and mandatory, unroutable", do: publishStep(amqptest.Message{Key: "$nope", Immediate: true, Mandatory: true}), want: []string{returned("312", "NO_ROUTE", "", "$nope", "")}},
		{name: "immediate, missing exchange", do: publishStep(amqptest.Message{Exchange: "$none", Immediate: true}), want: missing},
		{name: "immediate, idle consumer", do: withQueue(func(c *amqptest.Client) {
			c.Subscribe(2, "$q", "t", amqptest.NoAck)
			c.WantQuiet(2)
			c.Publish(1, amqptest.Message{Key: "$q", Immediate: true, Body: "b"})
		}), want: []string{`2 basic.deliver ConsumerTag=t DeliveryTag=1 Redelivered=false Exchange= RoutingKey=$q "b"`}},
		{name: "immediate, consumer without credit", do: withQueue(func(c *amqptest.Client) {
			amqptest.Ask[*amqp.BasicQosOk](c, 2, &amqp.BasicQos{PrefetchCount: 1})
			c.Subscribe(2, "$q", "t", 0)
			c.PublishAll(1, "$q", "m1")
			c.Want("2 basic.deliver *")
			c.Publish(1, amqptest.Message{Key: "$q", Immediate: true, Body: "b"})
		}), want: []string{returned("313", "NO_CONSUMERS", "", "$q", "b")}},

		{name: "user_id own", do: with(user("guest"))},
		{name: "user_id of another", do: with(user("other")), want: precondition("user_id property set to 'other' but authenticated user was 'guest'")},
		{name: "expiration abc", do: with(expiration("abc")), want: precondition("invalid expiration 'abc'*")},
		{name: "expiration -1", do: with(expiration("-1")), want: precondition("invalid expiration '-1'*")},
		{name: "expiration 1.5", do: with(expiration("1.5")), want: precondition("invalid expiration '1.5'*")},
		{name: "expiration empty", do: with(expiration("")), want: precondition("invalid expiration ''*")},
		{name: "expiration 99999999999", do: with(expiration("99999999999"))},
		{name: "delivery mode 3", do: with(mode(3)), want: precondition("invalid message: *")},
		{name: "delivery mode 0", do: with(mode(0)), want: precondition("invalid message: *")},
		{name: "priority 255", do: with(amqp.Properties{Flags: amqp.FlagPriority, Priority: 255})},
	})
}

func confirmSelect(c *amqptest.Client) {
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 1, &amqp.ConfirmSelect{})
}

func txSelect(c *amqptest.Client) { amqptest.Ask[*amqp.TxSelectOk](c, 1, &amqp.TxSelect{}) }

// TestBasicConsumeGet: basic.get, consume, cancel, qos.
func TestBasicConsumeGet(t *testing.T) {
	consume := func(channel uint16, tag string, f amqptest.Flags) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Method(channel, c.Consume("$q", tag, f)) }
	}
	get := func(c *amqptest.Client) { c.Method(1, &amqp.BasicGet{Queue: []byte(c.Name("$q"))}) }
	noQueue := func(ids string) []string {
		return []string{"1 channel.close 404 (" + ids + ") NOT_FOUND - no queue '$q' in vhost '/'"}
	}
	inUse := []string{"1 channel.close 403 (60,20) ACCESS_REFUSED - queue '$q' in vhost '/' in exclusive use"}
	subscribed := func(channel uint16, tag string, f amqptest.Flags) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Subscribe(channel, "$q", tag, f) }
	}
	drop := func(c *amqptest.Client) { c.Method(1, &amqp.QueueDelete{Queue: []byte(c.Name("$q"))}) }
	runRows(t, start(t), []row{
		{name: "get missing", do: get, want: noQueue("60,70")},
		{name: "get empty", do: withQueue(get), want: []string{"1 basic.get-empty"}},
		{name: "get", do: withQueue(get, "m1", "m2"), want: []string{`1 basic.get-ok DeliveryTag=1 Redelivered=false Exchange= RoutingKey=$q MessageCount=1 "m1"`}},
		{name: "consume missing", do: consume(1, "t", 0), want: noQueue("60,20")},
		{name: "consume without tag", do: withQueue(consume(1, "", 0)), want: []string{"1 basic.consume-ok ConsumerTag=amq.ctag-*"}},
		{name: "consume nowait", do: withQueue(consume(1, "t", amqptest.NoWait))},
		{name: "consume nowait without tag", do: withQueue(consume(1, "", amqptest.NoWait))},
		{name: "consume no-local", do: withQueue(consume(1, "t", amqptest.NoLocal)), want: []string{"1 basic.consume-ok ConsumerTag=t"}},
		{name: "tag in use", do: withQueue(chain(consume(1, "t", 0), consume(1, "t", 0))), want: []string{
			"1 basic.consume-ok ConsumerTag=t", "0 connection.close 530 (60,20) NOT_ALLOWED - attempt to reuse consumer tag 't'",
		}},
		{name: "tag in use on another channel", do: withQueue(chain(consume(1, "t", 0), consume(2, "t", 0))), want: []string{
			"1 basic.consume-ok ConsumerTag=t", "2 basic.consume-ok ConsumerTag=t",
		}},
		{name: "tag free again after cancel", do: withQueue(func(c *amqptest.Client) {
			c.Subscribe(1, "$q", "t", 0)
			c.Method(1, &amqp.BasicCancel{ConsumerTag: []byte("t")})
			consume(1, "t", 0)(c)
		}), want: []string{"1 basic.cancel-ok ConsumerTag=t", "1 basic.consume-ok ConsumerTag=t"}},
		{name: "exclusive beside another", do: withQueue(chain(subscribed(2, "t", 0), consume(1, "t", amqptest.Exclusive))), want: inUse},
		{name: "beside an exclusive one", do: withQueue(chain(subscribed(2, "t", amqptest.Exclusive), consume(1, "t", 0))), want: inUse},
		{name: "two exclusive", do: withQueue(chain(subscribed(2, "t", amqptest.Exclusive), consume(1, "t", amqptest.Exclusive))), want: inUse},
		{name: "exclusive after the exclusive one has gone", do: withQueue(func(c *amqptest.Client) {
			c.Subscribe(2, "$q", "t", amqptest.Exclusive)
			amqptest.Ask[*amqp.BasicCancelOk](c, 2, &amqp.BasicCancel{ConsumerTag: []byte("t")})
			consume(1, "t", amqptest.Exclusive)(c)
		}), want: []string{"1 basic.consume-ok ConsumerTag=t"}},
		{name: "get beside an exclusive consumer", do: withQueue(chain(subscribed(2, "t", amqptest.Exclusive), get)), want: []string{"1 basic.get-empty"}},
		{name: "cancel unknown tag", do: send(1, &amqp.BasicCancel{ConsumerTag: []byte("nope")}), want: []string{"1 basic.cancel-ok ConsumerTag=nope"}},
		{name: "cancel without tag", do: send(1, &amqp.BasicCancel{}), want: []string{"1 basic.cancel-ok ConsumerTag="}},
		{name: "cancel nowait", do: send(1, &amqp.BasicCancel{ConsumerTag: []byte("nope"), NoWait: true})},
		{name: "own queue deleted: delete-ok, then cancel", do: withQueue(chain(subscribed(1, "t", 0), drop)), want: []string{
			"1 queue.delete-ok MessageCount=0", "1 basic.cancel ConsumerTag=t NoWait=true",
		}},
		{name: "own queue deleted, client without consumer_cancel_notify", options: amqptest.Options{NoCapabilities: true}, do: withQueue(chain(subscribed(1, "t", 0), drop)), want: []string{
			"1 queue.delete-ok MessageCount=0",
		}},
		{name: "qos", do: send(1, &amqp.BasicQos{PrefetchCount: 65535}), want: []string{"1 basic.qos-ok"}},
		{name: "qos global", do: send(1, &amqp.BasicQos{PrefetchCount: 5, Global: true}), want: []string{"1 basic.qos-ok"}},
		{name: "qos prefetch_size", do: send(1, &amqp.BasicQos{PrefetchSize: 1}), want: []string{"0 connection.close 540 (60,10) NOT_IMPLEMENTED - prefetch_size!=0 (1)"}},
	})
}

// TestBasicAck: ack, nack, reject, recover (1.8.3.13 and on).
func TestBasicAck(t *testing.T) {
	unknown := func(tag, ids string) []string {
		return []string{"1 channel.close 406 (" + ids + ") PRECONDITION_FAILED - unknown delivery tag " + tag}
	}
	ack := func(tag uint64, f amqptest.Flags) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Ack(1, tag, f) }
	}
	nack := func(tag uint64, f amqptest.Flags) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Nack(1, tag, f) }
	}
	reject := func(tag uint64, requeue bool) func(*amqptest.Client) {
		return send(1, &amqp.BasicReject{DeliveryTag: tag, Requeue: requeue})
	}
	get := func(c *amqptest.Client) { c.Method(1, &amqp.BasicGet{Queue: []byte(c.Name("$q"))}) }
	const all = amqptest.Multiple
	got := func(tag, redelivered, count, body string) string {
		return "1 basic.get-ok DeliveryTag=" + tag + " Redelivered=" + redelivered + " Exchange= RoutingKey=$q MessageCount=" + count + ` "` + body + `"`
	}
	recover1 := send(1, &amqp.BasicRecover{Requeue: true})
	rows := []row{
		{name: "ack 1, nothing delivered", do: ack(1, 0), want: unknown("1", "60,80")},
		{name: "ack 0", do: ack(0, 0), want: unknown("0", "60,80")},
		{name: "ack 0 multiple, nothing outstanding", do: ack(0, all)},
		{name: "ack 5 multiple, nothing outstanding", do: ack(5, all), want: unknown("5", "60,80")},
		{name: "reject 1, nothing delivered", do: reject(1, true), want: unknown("1", "60,90")},
		{name: "reject 0", do: reject(0, false), want: unknown("0", "60,90")},
		{name: "nack 1, nothing delivered", do: nack(1, 0), want: unknown("1", "60,120")},
		{name: "nack 0", do: nack(0, 0), want: unknown("0", "60,120")},
		{name: "nack 0 multiple, nothing outstanding", do: nack(0, all)},
		{name: "double ack", do: holding(1, chain(ack(1, 0), ack(1, 0))), want: unknown("1", "60,80")},
		{name: "ack 2 multiple, ack 1", do: holding(3, chain(ack(2, all), ack(1, 0))), want: unknown("1", "60,80")},
		{name: "ack 2 multiple twice", do: holding(3, chain(ack(2, all), ack(2, all))), want: unknown("2", "60,80")},
		{name: "ack 7 multiple of 3", do: holding(3, ack(7, all)), want: unknown("7", "60,80")},
		{name: "ack 0 multiple twice", do: holding(3, chain(ack(0, all), ack(0, all)))},
		{name: "reject, ack", do: holding(1, chain(reject(1, false), ack(1, 0))), want: unknown("1", "60,80")},
		{name: "ack 3, ack 2 multiple", do: holding(3, chain(ack(3, 0), ack(2, all)))},
		{name: "ack 2, ack 2 multiple", do: holding(3, chain(ack(2, 0), ack(2, all))), want: unknown("2", "60,80")},
		{name: "ack of a no-ack get", do: withQueue(func(c *amqptest.Client) {
			c.Get(1, "$q", amqptest.NoAck)
			c.Ack(1, 1, 0)
		}, "m1"), want: unknown("1", "60,80")},
		{name: "ack on another channel", do: holding(1, func(c *amqptest.Client) { c.Ack(2, 1, 0) }), want: []string{
			"2 channel.close 406 (60,80) PRECONDITION_FAILED - unknown delivery tag 1",
		}},
		{name: "nack 0 multiple requeue, get", do: holding(2, chain(nack(0, all|amqptest.Requeue), get)), want: []string{got("3", "true", "1", "m1")}},
		{name: "nack without requeue, get", do: holding(2, chain(nack(1, 0), nack(2, amqptest.Requeue), get)), want: []string{got("3", "true", "0", "m2")}},
		{name: "reject requeue, get", do: holding(1, chain(reject(1, true), get)), want: []string{got("2", "true", "0", "m1")}},
		{name: "recover, nothing outstanding", do: recover1, want: []string{"1 basic.recover-ok"}},
		{name: "recover, get", do: holding(3, chain(recover1, get)), want: []string{"1 basic.recover-ok", got("4", "true", "2", "m1")}},
		{name: "recover-async, get", do: holding(1, chain(send(1, &amqp.BasicRecoverAsync{Requeue: true}), get)), want: []string{got("2", "true", "0", "m1")}},
		{name: "recover requeue=false", do: send(1, &amqp.BasicRecover{}), want: []string{"0 connection.close 540 (60,110) NOT_IMPLEMENTED - requeue=false"}},
		{name: "recover-async requeue=false", do: send(1, &amqp.BasicRecoverAsync{}), want: []string{"0 connection.close 540 (60,100) NOT_IMPLEMENTED - requeue=false"}},
		{name: "recover with a consumer", do: withQueue(func(c *amqptest.Client) {
			amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 2})
			c.Subscribe(1, "$q", "t", 0)
			c.Want("1 basic.deliver ConsumerTag=t DeliveryTag=1 Redelivered=false *", "1 basic.deliver ConsumerTag=t DeliveryTag=2 Redelivered=false *")
			recover1(c)
		}, "m1", "m2", "m3"), want: []string{
			"1 basic.recover-ok",
			`1 basic.deliver ConsumerTag=t DeliveryTag=3 Redelivered=true Exchange= RoutingKey=$q "m1"`,
			`1 basic.deliver ConsumerTag=t DeliveryTag=4 Redelivered=true Exchange= RoutingKey=$q "m2"`,
		}},
		{name: "cancel, then nack requeue, get", do: withQueue(func(c *amqptest.Client) {
			c.Subscribe(1, "$q", "t", 0)
			c.Want("1 basic.deliver *")
			c.Method(1, &amqp.BasicCancel{ConsumerTag: []byte("t")})
			get(c)
			c.Nack(1, 1, amqptest.Requeue)
			get(c)
		}, "m1"), want: []string{"1 basic.cancel-ok ConsumerTag=t", "1 basic.get-empty", got("2", "true", "0", "m1")}},
	}
	runRows(t, start(t), rows)
}

// TestConfirmAndTx: classes confirm (85) and tx (90).
func TestConfirmAndTx(t *testing.T) {
	confirm, tx := send(1, &amqp.ConfirmSelect{}), send(1, &amqp.TxSelect{})
	commit, rollback := send(1, &amqp.TxCommit{}), send(1, &amqp.TxRollback{})
	ack := func(tag uint64) func(*amqptest.Client) {
		return func(c *amqptest.Client) { c.Ack(1, tag, 0) }
	}
	get := func(c *amqptest.Client) { c.Method(1, &amqp.BasicGet{Queue: []byte(c.Name("$q"))}) }
	notTx := "PRECONDITION_FAILED - channel is not transactional"
	runRows(t, start(t), []row{
		{name: "confirm.select twice", do: chain(confirm, confirm), want: []string{"1 confirm.select-ok", "1 confirm.select-ok"}},
		{name: "tx.select on a confirm channel", do: chain(confirmSelect, tx), want: []string{"1 channel.close 406 (90,10) PRECONDITION_FAILED - cannot switch from confirm to tx mode"}},
		{name: "confirm.select on a tx channel", do: chain(txSelect, confirm), want: []string{"1 channel.close 406 (85,10) PRECONDITION_FAILED - cannot switch from tx to confirm mode"}},
		{name: "tx.select twice", do: chain(tx, tx), want: []string{"1 tx.select-ok", "1 tx.select-ok"}},
		{name: "commit without select", do: commit, want: []string{"1 channel.close 406 (90,20) " + notTx}},
		{name: "rollback without select", do: rollback, want: []string{"1 channel.close 406 (90,30) " + notTx}},
		{name: "publish to a missing exchange in tx", do: chain(txSelect, publishStep(amqptest.Message{Exchange: "$none"})), want: []string{"1 channel.close 404 (60,40) NOT_FOUND - no exchange '$none' in vhost '/'"}},
		{name: "mandatory unroutable in tx: returned at commit", do: func(c *amqptest.Client) {
			txSelect(c)
			c.Publish(1, amqptest.Message{Key: "$nope", Mandatory: true})
			c.WantQuiet(1)
			commit(c)
		}, want: []string{`1 basic.return ReplyCode=312 ReplyText=NO_ROUTE Exchange= RoutingKey=$nope ""`, "1 tx.commit-ok"}},
		{name: "mandatory unroutable in tx: not returned after rollback", do: chain(txSelect, publishStep(amqptest.Message{Key: "$nope", Mandatory: true}), rollback), want: []string{"1 tx.rollback-ok"}},
		{name: "unknown tag in tx", do: chain(txSelect, ack(9)), want: []string{"1 channel.close 406 (60,80) PRECONDITION_FAILED - unknown delivery tag 9"}},
		{name: "ack, rollback, ack, commit", do: holding(1, chain(txSelect, ack(1), rollback, ack(1), commit)), want: []string{"1 tx.rollback-ok", "1 tx.commit-ok"}},
		{name: "ack, rollback, recover, get", do: holding(2, chain(txSelect, ack(1), rollback, send(1, &amqp.BasicRecover{Requeue: true}), get)), want: []string{
			"1 tx.rollback-ok", "1 basic.recover-ok",
			`1 basic.get-ok DeliveryTag=3 Redelivered=true Exchange= RoutingKey=$q MessageCount=1 "m1"`,
		}},
		{name: "same tag acked twice in a tx", do: holding(1, chain(txSelect, ack(1), ack(1))), want: []string{"1 channel.close 406 (60,80) PRECONDITION_FAILED - unknown delivery tag 1"}},
		{name: "confirm.select nowait", do: chain(send(1, &amqp.ConfirmSelect{NoWait: true}), publishStep(amqptest.Message{Key: "$nope"})), want: []string{"1 basic.ack DeliveryTag=1 Multiple=false"}},
		{name: "channel closed by an error in tx: acks are undone", do: holding(1, func(c *amqptest.Client) {
			txSelect(c)
			c.Ack(1, 1, 0)
			c.Ack(1, 9, 0)
			c.Want("1 channel.close 406 *")
			c.Method(1, closeOk)
			c.OpenChannel(1)
			get(c)
		}), want: []string{`1 basic.get-ok DeliveryTag=1 Redelivered=true Exchange= RoutingKey=$q MessageCount=0 "m1"`}},
	})
}
