package engine_test

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// connect opens the connection and its channels.
func (w *turnsWorker) connect() error {
	conn, err := amqptest.Open(w.engine.Addr(), amqptest.Options{})
	if err != nil {
		return err
	}
	w.conn = conn
	if w.slow { // little is enough to fill the socket
		_ = w.conn.Socket.(*net.TCPConn).SetReadBuffer(64 << 10)
	}
	for i := range w.channels {
		ch := &turnsChannel{number: uint16(i + 1)}
		w.channels[i] = ch
		if i > 0 {
			if err := w.call(ch, &amqp.ChannelOpen{}, amqp.ChannelOpenOkID); err != nil {
				return err
			}
		}
		if err := w.begin(ch); err != nil {
			return err
		}
	}
	return nil
}

// begin prepares a channel that has just been opened.
func (w *turnsWorker) begin(ch *turnsChannel) error {
	*ch = turnsChannel{number: ch.number, consumers: map[string]*turnsConsumer{}}
	if w.plain {
		return nil
	}
	if w.random.IntN(3) == 0 {
		ch.limit = 1 + w.random.IntN(40)
		if err := w.call(ch, &amqp.BasicQos{Global: true, PrefetchCount: uint16(ch.limit)}, amqp.BasicQosOkID); err != nil {
			return err
		}
	}
	if ch.tx = !w.noAck && w.random.IntN(4) == 0; ch.tx {
		return w.call(ch, &amqp.TxSelect{}, amqp.TxSelectOkID)
	}
	return nil
}

// call sends a method and takes what comes until its answer is there.
func (w *turnsWorker) call(ch *turnsChannel, m amqp.Method, answer uint32) error {
	if err := w.conn.SendMethod(ch.number, m); err != nil {
		return err
	}
	for {
		event, err := w.conn.Next()
		switch {
		case err != nil:
			return fmt.Errorf("while waiting for %s: %w", amqp.MethodName(answer), err)
		case event.Method == nil:
		case event.Content:
			if err := w.take(event); err != nil {
				return err
			}
		case event.Method.ID() == answer && event.Channel == ch.number:
			return nil
		default:
			return fmt.Errorf("got %s instead of %s", event, amqp.MethodName(answer))
		}
	}
}

// take notes a delivery.
func (w *turnsWorker) take(event amqptest.Event) error {
	d := event.Method.(*amqp.BasicDeliver)
	ch := w.channels[event.Channel-1]
	consumer := ch.consumers[string(d.ConsumerTag)]
	if consumer == nil {
		return fmt.Errorf("a delivery to a consumer that has gone: %s", event.Method)
	}
	if ch.returning && !w.noAck {
		return nil // it was under way, and may have gone to another one since
	}
	id, err := w.ledger.delivered(event.Body, d.Redelivered)
	if err != nil {
		return err
	}
	if w.noAck {
		w.ledger.ended(false, id)
		return nil
	}
	ch.held = append(ch.held, turnsDelivery{d.DeliveryTag, id, consumer})
	consumer.held++
	if n := len(ch.held) + len(ch.staged); ch.limit > 0 && n > ch.limit {
		return fmt.Errorf("%d messages on a channel with a limit of %d", n, ch.limit)
	}
	if consumer.prefetch > 0 && consumer.held > consumer.prefetch {
		return fmt.Errorf("%d messages for a consumer with a prefetch of %d", consumer.held, consumer.prefetch)
	}
	return nil
}

// step does something.
func (w *turnsWorker) step() error {
	ch := w.channels[w.random.IntN(len(w.channels))]
	if w.slow && w.random.IntN(3) > 0 {
		w.ledger.await(1 + w.random.IntN(30))
		return w.settle(ch, min(3, len(ch.held)), false)
	}
	switch n := w.random.IntN(100); {
	case n < 25:
		return w.sync(ch)
	case n < 50:
		return w.settle(ch, w.random.IntN(len(ch.held)+1), false)
	case n < 58:
		return w.settle(ch, w.random.IntN(len(ch.held)+1), true)
	case n < 75:
		return w.subscribe(ch)
	case n < 83:
		return w.cancel(ch)
	case n < 86:
		return w.pause(turnsNames[w.random.IntN(3)], true)
	case n < 93:
		return w.pause(turnsNames[w.random.IntN(3)], false)
	case n < 96:
		return w.reopen(ch)
	case n < 98 && !w.noAck && !ch.tx:
		ch.returning = true
		err := w.call(ch, &amqp.BasicRecover{Requeue: true}, amqp.BasicRecoverOkID)
		ch.returning = false
		ch.drop()
		return err
	case n < 98 && !w.noAck:
		return w.endTx(ch, w.random.IntN(2) == 0)
	case n < 99 && !w.noAck:
		for _, ch := range w.channels {
			w.ledger.ended(true, ch.sent...)
		}
		w.conn.Abort()
		return w.connect()
	}
	return nil
}

// sync takes what has come so far; the broker has heard what was sent.
func (w *turnsWorker) sync(ch *turnsChannel) error {
	err := w.call(ch, &amqp.BasicCancel{ConsumerTag: []byte("nobody")}, amqp.BasicCancelOkID)
	if err == nil {
		ch.sent = nil
	}
	return err
}

// settle acknowledges n of the messages, in any order, or gives them back.
func (w *turnsWorker) settle(ch *turnsChannel, n int, requeue bool) error {
	var raw []byte
	for ; n > 0; n-- {
		i := w.random.IntN(len(ch.held))
		d := ch.held[i]
		ch.held = slices.Delete(ch.held, i, i+1)
		switch {
		case ch.tx:
			ch.staged = append(ch.staged, d)
			raw = amqp.AppendMethodFrame(raw, ch.number, &amqp.BasicAck{DeliveryTag: d.tag})
		case requeue:
			d.consumer.held--
			raw = amqp.AppendMethodFrame(raw, ch.number, &amqp.BasicNack{DeliveryTag: d.tag, Requeue: true})
		default:
			d.consumer.held--
			ch.sent = append(ch.sent, d.id)
			w.ledger.ended(false, d.id)
			raw = amqp.AppendMethodFrame(raw, ch.number, &amqp.BasicAck{DeliveryTag: d.tag})
		}
	}
	if err := w.conn.Send(raw); err != nil || !ch.tx {
		return err
	}
	return w.endTx(ch, w.random.IntN(2) == 0)
}

// endTx commits, or rolls back.
func (w *turnsWorker) endTx(ch *turnsChannel, commit bool) error {
	if !commit {
		if err := w.call(ch, &amqp.TxRollback{}, amqp.TxRollbackOkID); err != nil {
			return err
		}
		ch.held, ch.staged = append(ch.held, ch.staged...), nil
		return nil
	}
	for _, d := range ch.staged {
		w.ledger.ended(false, d.id)
	}
	for _, d := range ch.staged {
		d.consumer.held--
	}
	ch.staged = nil
	return w.call(ch, &amqp.TxCommit{}, amqp.TxCommitOkID)
}

// subscribe adds a consumer.
func (w *turnsWorker) subscribe(ch *turnsChannel) error {
	if len(ch.consumers) == 4 {
		return w.sync(ch)
	}
	consumer := &turnsConsumer{prefetch: max(w.random.IntN(40)-2, 0)}
	if err := w.call(ch, &amqp.BasicQos{PrefetchCount: uint16(consumer.prefetch)}, amqp.BasicQosOkID); err != nil {
		return err
	}
	tag := strconv.Itoa(w.random.IntN(1 << 30))
	ch.consumers[tag] = consumer
	return w.call(ch, &amqp.BasicConsume{Queue: []byte(turnsNames[w.random.IntN(3)]), ConsumerTag: []byte(tag), NoAck: w.noAck}, amqp.BasicConsumeOkID)
}

// cancel ends one of the consumers. What it holds stays with the channel.
func (w *turnsWorker) cancel(ch *turnsChannel) error {
	var tags []string
	for tag := range ch.consumers {
		tags = append(tags, tag)
	}
	if len(tags) == 0 {
		return nil
	}
	slices.Sort(tags)
	tag := tags[w.random.IntN(len(tags))]
	err := w.call(ch, &amqp.BasicCancel{ConsumerTag: []byte(tag)}, amqp.BasicCancelOkID)
	delete(ch.consumers, tag)
	return err
}

// pause pauses a queue, or lets it go on.
func (w *turnsWorker) pause(name string, paused bool) error {
	vh := w.engine.Broker().VHost("/")
	_, err := vh.PauseQueue(vh.FindQueue(name), paused)
	return err
}

// reopen closes a channel and opens it again.
func (w *turnsWorker) reopen(ch *turnsChannel) error {
	ch.returning = true
	if err := w.call(ch, &amqp.ChannelClose{}, amqp.ChannelCloseOkID); err != nil {
		return err
	}
	if err := w.call(ch, &amqp.ChannelOpen{}, amqp.ChannelOpenOkID); err != nil {
		return err
	}
	return w.begin(ch)
}

// drop forgets what the broker has taken back.
func (ch *turnsChannel) drop() {
	for _, d := range ch.held {
		d.consumer.held--
	}
	ch.held = nil
}

// leave has the broker hear everything before the connection goes.
func (w *turnsWorker) leave() error {
	for _, ch := range w.channels {
		ch.returning = true
		if err := w.call(ch, &amqp.ChannelClose{}, amqp.ChannelCloseOkID); err != nil {
			return err
		}
	}
	return nil
}

// drain takes and acknowledges everything until it is stopped.
func (w *turnsWorker) drain(stop *atomic.Bool) error {
	ch := w.channels[0]
	for tag, name := range turnsNames {
		ch.consumers[strconv.Itoa(tag)] = &turnsConsumer{}
		if err := w.call(ch, &amqp.BasicConsume{Queue: []byte(name), ConsumerTag: []byte(strconv.Itoa(tag))}, amqp.BasicConsumeOkID); err != nil {
			return err
		}
	}
	for !stop.Load() {
		if err := w.settle(ch, len(ch.held), false); err != nil {
			return err
		}
		if err := w.sync(ch); err != nil {
			return err
		}
	}
	return w.leave()
}
