package amqp

import (
	"encoding/binary"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Consumers of streams (package broker, stream.go). They are in no ring: each
// takes windows of offsets from its own cursor, passes over what it does not
// want, and sends the rest with the header x-stream-offset, as far as its credit
// goes. Acknowledgements give that back and do nothing to the message.

// streamDelivery is what a consumer of a stream has besides.
type streamDelivery struct {
	position uint64 // offset after the last record sent or passed over
	noted    bool   // in conn.ackedStreams

	// What the deliver template was built from.
	known  bool
	raw    segstore.Template // copies
	wanted bool              // messages with these properties are
	hole   int               // where consumer.built.Properties has the offset
}

// consumeStream subscribes cs. Codes: 406 and 540 as RabbitMQ answers.
func (ch *channel) consumeStream(cs *consumer, arguments amqp.Table) error {
	q := cs.Queue
	switch {
	case cs.prefetch == 0:
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "consumer prefetch count is not set for 'queue '%s' in vhost '%s''", q.Name, q.VHost.Name)
	case cs.NoAck:
		return streamLacks("automatic acknowledgement", q)
	case ch.globalLimit > 0:
		return amqp.Errorf(amqp.CodeNotImplemented, 0, "queue '%s' in vhost '%s' does not support global qos", q.Name, q.VHost.Name)
	}
	cs.stream = &streamDelivery{}
	return q.AttachStream(&cs.Consumer, arguments)
}

// streamLacks is the error for what streams do not do.
func streamLacks(what string, q *broker.Queue) error {
	return amqp.Errorf(amqp.CodeNotImplemented, 0, "%s not supported by stream queues queue '%s' in vhost '%s'", what, q.Name, q.VHost.Name)
}

const streamRejects = "basic.nack and basic.reject"

// fillStream is fill for a stream: it sends what cs may have; false when the
// output buffer is full.
func (cs *consumer) fillStream() bool {
	for cs.credit() > 0 {
		if cs.run.Count == 0 {
			cs.run = cs.Queue.TakeStream(&cs.Consumer)
			if cs.run.Count == 0 {
				cs.idle()
				return true
			}
		}
		switch cs.encodeStream() {
		case full:
			return false
		case fetching:
			cs.reading = true
			return true
		}
	}
	cs.Queue.Heed(&cs.Consumer)
	return true
}

// encodeStream encodes deliveries of the window at hand, as far as credit goes.
func (cs *consumer) encodeStream() outcome {
	c := cs.ch.conn
	for cs.run.Count > 0 {
		credit := cs.credit()
		if credit == 0 {
			return runDone
		}
		if !cs.place() {
			if cs.run.Count == 0 {
				continue
			}
			return fetching
		}
		if !c.room(outBytesMax - c.outLen) {
			return full
		}
		switch state := cs.encodeStreamBatch(credit); state {
		case unreadable, shelved:
			cs.have = false
			cs.skip(1)
		case full, fetching:
			return state
		}
	}
	return runDone
}

// encodeStreamBatch is encodeBatch for a stream. It sends at most credit records.
func (cs *consumer) encodeStreamBatch(credit uint64) (state outcome) {
	c, ch := cs.ch.conn, cs.ch
	out := c.out.Bytes()[:c.outLen]
	limit := c.out.Len()
	n, bytes := uint64(0), uint64(0) // of a row of deliveries that end before run.First
	for sent := uint64(0); sent < credit && cs.run.Count > 0; {
		if !cs.have {
			if !cs.reader.Next(&cs.record) {
				cs.placed = false
				break
			}
			cs.at++
		}
		if cs.record.Template != cs.number || cs.reader.BatchSeq() != cs.batchSeq {
			cs.buildStreamTemplate()
		}
		if !cs.stream.wanted || cs.Stream.Early(cs.record.Offset, cs.record.Timestamp) {
			cs.have = false
			cs.sentStream(n, bytes)
			n, bytes = 0, 0
			cs.run.First++
			cs.run.Count--
			continue
		}
		if cs.external {
			cs.have = true
			if state = cs.openBody(); state == runDone && len(out) > 0 {
				state = full
			}
			if state != runDone {
				break
			}
			cs.startLarge(cs.deliverFile, cs.body.Size())
			return full
		}
		if cs.traced {
			cs.traceDelivery()
		}
		body := cs.record.Body
		if len(out)+cs.deliver.Size(len(body), c.frameMax) > limit {
			if len(out) == 0 {
				cs.startLarge(cs.deliverLarge, uint64(len(body)))
				return full
			}
			cs.have, state = true, full
			break
		}
		cs.have = false
		ch.deliveryTag++
		out = cs.deliver.AppendNumbered(out, ch.deliveryTag, body, c.frameMax, cs.record.Offset)
		cs.run.First++
		cs.run.Count--
		n++
		bytes += uint64(len(body))
		sent++
	}
	c.outLen = len(out)
	cs.sentStream(n, bytes)
	return state
}

// startLarge sends the record at hand, the only one in the output, by itself.
func (cs *consumer) startLarge(deliver func(tag uint64), size uint64) {
	cs.have = false
	cs.ch.conn.outLen = 0
	binary.BigEndian.PutUint64(cs.built.Properties[cs.stream.hole:], cs.record.Offset)
	cs.ch.deliveryTag++
	deliver(cs.ch.deliveryTag)
	cs.run.First++
	cs.run.Count--
	cs.sentStream(1, size)
}

// sentStream accounts for the n deliveries before run.First; the last of them
// has the channel's last tag.
func (cs *consumer) sentStream(n, bytes uint64) {
	cs.stream.position = cs.run.First
	if n == 0 {
		return
	}
	cs.countSent(n, bytes)
	ch := cs.ch
	cs.unacked += n
	ch.outstanding += n
	ch.unacked.add(unackedRun{tag: ch.deliveryTag - n + 1, spaced: spaced{cs.run.First - n, n, 1}, queue: cs.Queue, consumer: cs, since: ch.conn.shard.loop.Now().Unix()})
}

// buildStreamTemplate prepares the deliver frame for the record's template, and
// finds out whether such messages are wanted. Batches of one publisher repeat
// the same template: then what there is, is kept.
func (cs *consumer) buildStreamTemplate() {
	cs.number, cs.batchSeq = cs.record.Template, cs.reader.BatchSeq()
	cs.traced = cs.Queue.VHost.Tracing()
	t, s := cs.reader.Template(cs.number), cs.stream
	if s.known && string(t.Properties) == string(s.raw.Properties) && string(t.RoutingKey) == string(s.raw.RoutingKey) &&
		string(t.Exchange) == string(s.raw.Exchange) {
		return
	}
	s.known = true
	s.raw.Properties = append(s.raw.Properties[:0], t.Properties...)
	s.raw.RoutingKey = append(s.raw.RoutingKey[:0], t.RoutingKey...)
	s.raw.Exchange = append(s.raw.Exchange[:0], t.Exchange...)
	if s.wanted = cs.Stream.Wants(t.Properties); !s.wanted {
		return
	}
	cs.built.RoutingKey, cs.built.Exchange = s.raw.RoutingKey, s.raw.Exchange
	cs.built.Properties, s.hole = appendOffsetHeader(cs.built.Properties[:0], t.Properties)
	cs.external = broker.IsExternal(t.Properties)
	if !cs.external {
		cs.deliver.Build(cs.ch.id, []byte(cs.Tag), t.Exchange, t.RoutingKey, cs.built.Properties)
		cs.deliver.DigHole(s.hole)
	}
}

// headerOffset is the header that tells a message's offset.
const headerOffset = "x-stream-offset"

// appendOffsetHeader appends encoded properties with the header x-stream-offset,
// before any other, and tells where in them its eight bytes are. One that the
// message brought along is left out.
func appendOffsetHeader(dst, properties []byte) (out []byte, hole int) {
	start := len(dst)
	flags, rest := uint16(0), []byte(nil)
	if len(properties) >= 2 {
		flags, rest = binary.BigEndian.Uint16(properties), properties[2:]
	}
	dst = binary.BigEndian.AppendUint16(dst, flags|amqp.FlagHeaders)
	for _, flag := range [...]uint16{amqp.FlagContentType, amqp.FlagContentEncoding} {
		if flags&flag != 0 && len(rest) > 0 {
			n := min(1+int(rest[0]), len(rest))
			dst = append(dst, rest[:n]...)
			rest = rest[n:]
		}
	}
	var headers amqp.Table
	if flags&amqp.FlagHeaders != 0 && len(rest) >= 4 {
		n := min(4+uint64(binary.BigEndian.Uint32(rest)), uint64(len(rest)))
		headers, rest = amqp.Table(rest[4:n]), rest[n:]
		for _, ok := headers.Lookup(headerOffset); ok; _, ok = headers.Lookup(headerOffset) {
			b := amqp.NewTableBuilder(headers)
			b.Delete(headerOffset)
			headers = b.Table()
		}
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(1+len(headerOffset)+1+8+len(headers)))
	dst = append(append(dst, byte(len(headerOffset))), headerOffset...)
	dst = append(dst, 'l')
	hole = len(dst) - start
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = append(dst, headers...)
	return append(dst, rest...), hole
}

// concludeStream ends deliveries of a stream: credit comes back, and the
// consumer's tracked offset may move.
func (ch *channel) concludeStream(r unackedRun) {
	ch.countAcked(r.count)
	if r.consumer != nil {
		r.consumer.Delivered.Acked += r.count
	}
	if cs := r.consumer; cs != nil && !cs.stream.noted && cs.Tracks() {
		cs.stream.noted = true
		ch.conn.ackedStreams = append(ch.conn.ackedStreams, cs)
	}
	ch.released(r)
}

// flushAcked tells streams how far their consumers have acknowledged: up to the
// oldest message that they have not.
func (c *conn) flushAcked() {
	for i, cs := range c.ackedStreams {
		c.ackedStreams[i] = nil
		cs.stream.noted = false
		offset := cs.stream.position
		for _, r := range cs.ch.unacked.live() {
			if r.consumer == cs {
				offset = r.offset
				break
			}
		}
		cs.Queue.Acknowledged(&cs.Consumer, offset)
	}
	c.ackedStreams = c.ackedStreams[:0]
}

// rejectsStream finds a stream among the deliveries that tag and multiple name:
// they cannot be rejected.
func (l *unackedList) rejectsStream(tag uint64, multiple bool) *broker.Queue {
	if !multiple {
		if i := l.find(tag); i >= 0 && l.runs[i].queue.IsStream() {
			return l.runs[i].queue
		}
		return nil
	}
	for _, r := range l.live() {
		if tag != 0 && r.tag > tag {
			break
		}
		if r.queue.IsStream() {
			return r.queue
		}
	}
	return nil
}
