package broker

import (
	"bytes"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// This file makes a dead letter's properties: what RabbitMQ documents about the
// headers x-death, x-first-death-* and x-last-death-*, and how it finds cycles.

// death is one dead-lettering.
type death struct {
	queue, exchange string // where it died, and by which exchange it had come
	key             []byte // with which routing key
	why             reason
	seconds         uint64 // when, Unix time
}

// deadProperties returns the encoded properties of a message that has died, the
// headers among them, and the routing keys that come from its CC header. With
// rekeyed the message gets another routing key, and CC goes.
func (d *death) deadProperties(properties []byte, rekeyed bool) (dead []byte, headers amqp.Table, cc [][]byte, err error) {
	p, err := amqp.DecodeProperties(clearMarks(properties))
	if err != nil {
		return nil, nil, nil, err
	}
	if p.Flags&amqp.FlagHeaders == 0 {
		p.Headers = nil
	}
	if p.Flags&amqp.FlagExpiration == 0 {
		p.Expiration = nil
	}
	cc = carbonCopies(p.Headers, "CC")
	b := amqp.NewTableBuilder(p.Headers)
	if _, ok := p.Headers.Lookup("x-first-death-reason"); !ok {
		d.mark(b, "x-first-death-")
	}
	d.mark(b, "x-last-death-")
	b.SetValue("x-death", amqp.ArrayValue(d.merge(p.Headers, p.Expiration, cc)))
	if rekeyed {
		b.Delete("CC")
		cc = nil
	}
	p.Headers = b.Table()
	p.Flags = p.Flags&^amqp.FlagExpiration | amqp.FlagHeaders
	p.Expiration = nil
	dead = p.Append(nil)
	if IsExternal(properties) {
		MarkExternal(dead)
	}
	return dead, p.Headers, cc, nil
}

func (d *death) mark(b *amqp.TableBuilder, prefix string) {
	b.SetString(prefix+"reason", reasonNames[d.why])
	b.SetString(prefix+"queue", d.queue)
	b.SetString(prefix+"exchange", d.exchange)
}

// merge puts the death in front of the x-death array: as a new event, or as one
// more of the same queue and reason, which keeps what it says of the first.
func (d *death) merge(headers amqp.Table, expiration []byte, cc [][]byte) amqp.Array {
	var first amqp.Table
	var others []amqp.Value
	if v, ok := headers.Lookup("x-death"); ok {
		if events, ok := v.Array(); ok {
			for event := range events.All() {
				t, ok := event.Table()
				if ok && first == nil && d.same(t) {
					first = again(t)
				} else {
					others = append(others, event)
				}
			}
		}
	}
	if first == nil {
		first = d.event(expiration, cc)
	}
	return amqp.ArrayOf(append([]amqp.Value{amqp.TableValue(first)}, others...)...)
}

// event is a new event; its fields are in RabbitMQ's order, which is
// alphabetical.
func (d *death) event(expiration []byte, cc [][]byte) amqp.Table {
	keys := []amqp.Value{amqp.StringBytes(d.key)}
	for _, key := range cc {
		keys = append(keys, amqp.StringBytes(key))
	}
	b := new(amqp.TableBuilder)
	b.SetInt64("count", 1)
	b.SetString("exchange", d.exchange)
	if expiration != nil {
		b.SetBytes("original-expiration", expiration)
	}
	b.SetString("queue", d.queue)
	b.SetString("reason", reasonNames[d.why])
	b.SetValue("routing-keys", amqp.ArrayValue(amqp.ArrayOf(keys...)))
	b.SetValue("time", amqp.TimestampValue(d.seconds))
	return b.Table()
}

func (d *death) same(event amqp.Table) bool {
	return fieldIs(event, "queue", d.queue) && fieldIs(event, "reason", reasonNames[d.why])
}

// again is an event that has happened once more.
func again(event amqp.Table) amqp.Table {
	n := int64(0)
	if v, ok := event.Lookup("count"); ok {
		n, _ = v.Int64()
	}
	b := amqp.NewTableBuilder(event)
	b.SetInt64("count", n+1)
	return b.Table()
}

func fieldIs(t amqp.Table, name, value string) bool {
	v, ok := t.Lookup(name)
	if !ok {
		return false
	}
	text, ok := v.Bytes()
	return ok && string(text) == value
}

// isCycle says whether a message with these headers has been in the queue
// before and came back without anybody rejecting it on the way: such a message
// would go round for ever.
func isCycle(headers amqp.Table, queue string) bool {
	v, ok := headers.Lookup("x-death")
	if !ok {
		return false
	}
	events, ok := v.Array()
	if !ok {
		return false
	}
	for event := range events.All() {
		t, ok := event.Table()
		if !ok || fieldIs(t, "reason", reasonNames[rejected]) {
			return false
		}
		if fieldIs(t, "queue", queue) {
			return true
		}
	}
	return false
}

// carbonCopies returns the routing keys in a CC or BCC header.
func carbonCopies(headers amqp.Table, name string) (keys [][]byte) {
	v, ok := headers.Lookup(name)
	if !ok {
		return nil
	}
	list, ok := v.Array()
	if !ok {
		return nil
	}
	for item := range list.All() {
		if key, ok := item.Bytes(); ok {
			keys = append(keys, bytes.Clone(key))
		}
	}
	return keys
}
