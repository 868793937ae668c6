package amqp

import (
	"errors"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// outcome is what encode came to.
type outcome uint8

const (
	runDone    outcome = iota // everything taken has been encoded
	full                      // no room left in the output buffer
	fetching                  // the disk is being read
	unreadable                // the next record's body is damaged: encodeBatch only
	shelved                   // it cannot be read now, and has been shelved: likewise
	overdue                   // the next record has expired: encodeBatch only
)

// encode writes deliveries of the taken run into the output buffer.
func (cs *consumer) encode() outcome {
	c := cs.ch.conn
	for cs.run.Count > 0 {
		if !cs.place() {
			if cs.run.Count == 0 {
				continue
			}
			return fetching
		}
		if !c.room(outBytesMax - c.outLen) {
			return full
		}
		done, bytes, state := cs.encodeBatch()
		cs.sent(done, bytes)
		switch state {
		case unreadable:
			cs.have = false
			cs.skip(1)
		case shelved:
			cs.have = false
			cs.run.Shift(1)
			cs.unsent(1)
		case overdue:
			cs.have = false
			cs.expire()
		case full, fetching:
			return state
		}
	}
	return runDone
}

// place positions the reader at the run's first offset; false when that needs
// the disk, or when the run turned out to be gone.
func (cs *consumer) place() bool {
	if cs.have || cs.placed && cs.at == cs.run.First {
		return true
	}
	if cs.reader == nil {
		cs.reader = cs.from.Log().NewReader()
		cs.reader.Use(&cs.ch.conn.shard.positions)
		cs.wake = cs.Wake
	}
	if cs.stream != nil {
		cs.reader.SetQuery(cs.Stream.Query)
	}
	cs.placed = false
	for cs.run.Count > 0 {
		err := cs.reader.Seek(cs.run.First, cs.wake)
		if err == nil {
			cs.placed, cs.at = true, cs.run.First
			return true
		}
		if errors.Is(err, segstore.ErrNotResident) {
			return false
		}
		var missing segstore.ErrMissing
		if !errors.As(err, &missing) {
			if !errors.Is(err, segstore.ErrDeleted) { // else the queue is gone, and the consumer about to hear of it
				cs.ch.conn.shard.srv.logger.Error("messages cannot be read and are passed over until the queue is opened again",
					"queue", cs.Queue.Name, "vhost", cs.Queue.VHost.Name, "offset", cs.run.First, "count", cs.run.Count, "err", err)
			}
			cs.giveUp()
			return false
		}
		stride := max(cs.run.Stride, 1)
		cs.skip(min((missing.Next-cs.run.First+stride-1)/stride, cs.run.Count))
	}
	return false
}

// skip drops offsets that have no record: damaged ones, reported by the store;
// of a stream also those that retention removed or that the filter passes over.
func (cs *consumer) skip(n uint64) {
	if cs.stream == nil {
		cs.settle(n)
	}
	cs.run.Shift(n)
	cs.unsent(n)
}

// settle settles the first n messages of the run.
func (cs *consumer) settle(n uint64) {
	run := cs.run
	run.Count = n
	cs.from.SettleRun(run, 0)
}

// giveUp cancels a consumer whose queue cannot be read; the messages stay.
func (cs *consumer) giveUp() {
	cs.Cancelled()
}

// encodeBatch encodes records of the batch the reader is in. It stops before a
// record that does not fit, or whose external body is not open yet or damaged.
func (cs *consumer) encodeBatch() (done, bytes uint64, state outcome) {
	c := cs.ch.conn
	out := c.out.Bytes()[:c.outLen]
	limit := c.out.Len()
	tag := cs.ch.deliveryTag
	count, stride := cs.run.Count, cs.run.Stride
	for done < count {
		if !cs.have {
			if stride > 1 {
				cs.at = cs.run.First + done*stride
				if !cs.reader.NextAt(cs.at, &cs.record) {
					cs.placed = false
					break
				}
			} else if !cs.reader.Next(&cs.record) {
				cs.placed = false
				break
			}
			cs.at++
		}
		if cs.record.Template != cs.number || cs.reader.BatchSeq() != cs.batchSeq {
			cs.buildTemplate()
		}
		if cs.careful {
			if cs.overdue() {
				state = overdue
				break
			}
			if cs.traced {
				cs.traceDelivery()
			}
		}
		if cs.external {
			cs.have = true
			if state = cs.openBody(); state == runDone && len(out) > 0 {
				state = full
			}
			if state != runDone {
				break
			}
			cs.have = false
			c.outLen = 0
			size := cs.body.Size()
			cs.deliverFile(tag + 1)
			cs.ch.deliveryTag = tag + 1
			return done + 1, bytes + size, full
		}
		body := cs.record.Body
		if len(out)+cs.deliver.Size(len(body), c.frameMax) > limit {
			if len(out) == 0 {
				cs.have = false
				c.outLen = 0
				cs.deliverLarge(tag + 1)
				cs.ch.deliveryTag = tag + 1
				return done + 1, bytes + uint64(len(body)), full
			}
			cs.have, state = true, full
			break
		}
		cs.have = false
		tag++
		out = cs.deliver.Append(out, tag, cs.run.Redelivered, body, c.frameMax)
		bytes += uint64(len(body))
		done++
	}
	c.outLen = len(out)
	cs.ch.deliveryTag = tag
	return done, bytes, state
}

// buildTemplate prepares the deliver frame for the record's template. Batches
// of one publisher repeat the same one: then the frame is kept.
func (cs *consumer) buildTemplate() {
	cs.number, cs.batchSeq = cs.record.Template, cs.reader.BatchSeq()
	t := cs.reader.Template(cs.number)
	cs.careful = (cs.from.Kept() || expires(t.Properties)) && cs.beCareful(&t)
	if cs.traced = cs.Queue.VHost.Tracing(); cs.traced {
		cs.beTraced()
	}
	if string(t.Properties) == string(cs.built.Properties) && string(t.RoutingKey) == string(cs.built.RoutingKey) &&
		string(t.Exchange) == string(cs.built.Exchange) && cs.built.Properties != nil {
		return
	}
	cs.built.Properties = append(cs.built.Properties[:0], t.Properties...)
	cs.built.RoutingKey = append(cs.built.RoutingKey[:0], t.RoutingKey...)
	cs.built.Exchange = append(cs.built.Exchange[:0], t.Exchange...)
	cs.external = broker.IsExternal(t.Properties)
	if cs.external {
		return // delivered by deliverFile
	}
	cs.deliver.Build(cs.ch.id, []byte(cs.Tag), t.Exchange, t.RoutingKey, t.Properties)
}

// deliverLarge starts a delivery that does not fit an output buffer: its body
// is cut into frames as the socket takes them, and a reader of its own keeps
// the bytes.
func (cs *consumer) deliverLarge(tag uint64) {
	t := cs.built
	reader := cs.reader
	cs.reader, cs.placed = nil, false
	cs.number = -1 // the next reader counts batches anew
	cs.ch.conn.emitContent(cs.ch.id, &amqp.BasicDeliver{
		ConsumerTag: []byte(cs.Tag), DeliveryTag: tag, Redelivered: cs.run.Redelivered,
		Exchange: t.Exchange, RoutingKey: t.RoutingKey,
	}, t.Properties, cs.record.Body, reader.Close)
}

// sent accounts for n deliveries just encoded from the run's front, with so many
// bytes of bodies.
func (cs *consumer) sent(n, bytes uint64) {
	if n == 0 {
		return
	}
	cs.countSent(n, bytes)
	cs.timeDelivery()
	ch := cs.ch
	if cs.NoAck {
		cs.settle(n)
	}
	first := cs.run.First
	cs.run.Shift(n)
	ch.conn.shard.tracer.sent(cs, cs.run.First)
	if cs.NoAck {
		return
	}
	cs.unacked += n
	ch.outstanding += n
	ch.taken -= n
	r := unackedRun{tag: ch.deliveryTag - n + 1, spaced: spaced{first, n, max(cs.run.Stride, 1)}, queue: cs.from, consumer: cs, since: ch.conn.shard.loop.Now().Unix()}
	if cs.timeout > 0 {
		r.deadline = ch.expectAck(cs.timeout)
	}
	ch.unacked.add(r)
}
