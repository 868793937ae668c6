package stats

import "sync/atomic"

// Kind says what is counted.
type Kind uint8

// Kinds. Publishes count when they are accepted from the client, returned and
// dropped ones included; deliveries when they have been written into the output of
// a connection.
const (
	Publish          Kind = iota // messages published; to a queue: put into it
	BytesIn                      // bodies of what Publish counts
	Confirm                      // publishes confirmed by basic.ack
	PublishIn                    // of an exchange: messages published to it
	PublishOut                   // copies that went into queues
	ReturnUnroutable             // returned to their publisher
	DropUnroutable               // dropped for want of a queue
	Deliver                      // delivered to consumers that acknowledge
	DeliverNoAck                 // delivered to those that don't
	Get                          // got by basic.get, to be acknowledged
	GetNoAck                     // got without
	GetEmpty                     // basic.get on an empty queue
	Redeliver                    // those of the deliveries and gets that were not the first of their message
	Ack                          // acknowledged
	Reject                       // rejected, or given back
	BytesOut                     // bodies of all deliveries and gets

	Kinds
)

// Counts are counters guarded by their owner.
type Counts [Kinds]uint64

// Add adds the counters of other.
func (c *Counts) Add(other *Counts) {
	for i := range c {
		c[i] += other[i]
	}
}

// DeliverGet is the number of deliveries and gets of all kinds.
func (c *Counts) DeliverGet() uint64 { return c[Deliver] + c[DeliverNoAck] + c[Get] + c[GetNoAck] }

// Shared are counters that any goroutine may read.
type Shared [Kinds]atomic.Uint64

// Add counts n of a kind.
func (s *Shared) Add(k Kind, n uint64) { s[k].Add(n) }

// AddTo adds the present values to c.
func (s *Shared) AddTo(c *Counts) {
	for i := range c {
		c[i] += s[i].Load()
	}
}

// Loop are the counters of one loop in one virtual host. Any goroutine.
type Loop struct {
	Shared
	OctetsIn, OctetsOut atomic.Uint64 // of its connections' sockets, counted by read and write
}

// Exchange are the counters of an exchange. Any goroutine.
type Exchange struct {
	In, Out, Unroutable, Bytes atomic.Uint64
}

// AddTo adds the present values to c.
func (e *Exchange) AddTo(c *Counts) {
	c[PublishIn] += e.In.Load()
	c[PublishOut] += e.Out.Load()
	c[DropUnroutable] += e.Unroutable.Load()
	c[BytesIn] += e.Bytes.Load()
}

// Delivered is what a consumer has sent and its queue has not heard of yet.
type Delivered struct {
	Messages, Bytes, Redelivered, Acked uint64
}

// Event is a kind of what comes and goes.
type Event uint8

// Events.
const (
	ConnectionCreated Event = iota
	ConnectionClosed
	ChannelCreated
	ChannelClosed
	QueueDeclared // declarations that succeeded, of queues that were there, too
	QueueCreated
	QueueDeleted

	Events
)

// Churn counts events. Any goroutine.
type Churn [Events]atomic.Uint64

// Count counts one event.
func (c *Churn) Count(e Event) { c[e].Add(1) }

// AddTo adds the present values to n.
func (c *Churn) AddTo(n *[Events]uint64) {
	for i := range n {
		n[i] += c[i].Load()
	}
}
