package broker

import (
	"errors"
	"strconv"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Times to live. A message's is the lower of its queue's x-message-ttl and its
// own expiration, counted from when the broker took it in: records carry that
// time, so it goes on across restarts. As in RabbitMQ only the head of a queue
// expires; a message behind one that lives longer waits for its turn.
//
// Who finds out:
//
//   - a consumer or basic.get, that has taken the message and reads its record
//     (Deadline, Expire): an expired message is never delivered;
//   - the keeper, while no consumer can take: it reads the record at the head,
//     and comes back when its time is over or (attend) the head is another.
//
// Nothing expires early: a message is expired when more milliseconds than it
// may live have passed, by clocks that are rounded down.
//
// A time to live of 0 means "now or never": such a message stays as long as a
// consumer is ready to take it, and expires when none is.

// timed says that messages of the queue may expire.
func (e *upkeep) timed() bool { return e.expiring || e.set.messageTTL != unlimited }

// Deadline is the first millisecond at which a record is expired; NoDeadline
// without a time to live. One of 0 counts for redelivered messages only: others
// never expire in the hands of a consumer.
func (q *Queue) Deadline(timestamp int64, properties []byte, redelivered bool) int64 {
	ttl := Expiration(properties)
	if s := q.settings.Load(); s != nil {
		ttl = min(ttl, s.messageTTL)
	}
	if ttl == 0 && !redelivered {
		return NoDeadline
	}
	return later(timestamp, ttl)
}

// NoDeadline is the deadline of what never expires.
const NoDeadline = unlimited

// Expiration returns the expiration property in milliseconds, NoDeadline when
// there is none.
func Expiration(properties []byte) int64 {
	if len(properties) < 2 || uint16(properties[0])<<8&amqp.FlagExpiration == 0 {
		return NoDeadline
	}
	p, err := amqp.DecodeProperties(clearMarks(properties))
	if err != nil {
		return NoDeadline
	}
	ms, err := strconv.ParseInt(string(p.Expiration), 10, 64)
	if err != nil || ms < 0 {
		return NoDeadline
	}
	return ms
}

// clearMarks returns the properties without the marks that records carry.
func clearMarks(properties []byte) []byte {
	if !IsExternal(properties) {
		return properties
	}
	properties = append([]byte(nil), properties...)
	UnmarkExternal(properties)
	return properties
}

// expireRecordsMax bounds how many records one step looks at.
const expireRecordsMax = 4096

// expire ends the expired messages at q's head and returns when to look again.
func (k *keeper) expire(q *Queue, now int64) (again int64) {
	e := q.upkeep
	q.mu.Lock()
	e.looked = false
	// Until sizes are known, nobody can tell what is over the limit and what has
	// only expired: readSizes goes first.
	if q.deleted || !e.timed() || q.ready() == 0 || e.sizeFrom < e.sizeEnd {
		q.mu.Unlock()
		e.look.close()
		return unlimited
	}
	if e.set.messageTTL == 0 {
		if q.ring == nil {
			q.dropHead(q.ready(), expired)
		}
		q.mu.Unlock()
		return unlimited
	}
	ttl, head, busy := e.set.messageTTL, q.headOffset(), q.ring != nil
	q.mu.Unlock()

	if e.look.reader == nil {
		e.look.reader = q.log.NewReader()
	}
	r := e.look.reader
	switch state, next := k.seek(q, r, head); state {
	case reading:
		return unlimited
	case failed:
		return now + retryInterval
	case absent:
		q.passDamaged(head, next)
		return 0
	}
	var rec segstore.Record
	count, deadline, now0 := uint64(0), int64(unlimited), false
	lives, number := int64(unlimited), -1
	for count < expireRecordsMax && r.Next(&rec) {
		if rec.Template != number {
			number = rec.Template
			lives = min(ttl, Expiration(r.Template(number).Properties))
		}
		if now0 = lives == 0 && busy; now0 {
			deadline = unlimited // to a consumer now, or (attend) never
			break
		}
		deadline = later(rec.Timestamp, lives)
		if lives == 0 {
			deadline = now
		}
		if deadline > now {
			break
		}
		count++
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || q.ready() == 0 {
		return unlimited
	}
	if q.headOffset() != head {
		return 0
	}
	if count == 0 {
		e.looked, e.head = !now0, head
		return deadline
	}
	if run := q.popHead(count); run.Count > 0 {
		q.bury(run.First, run.Count, expired)
	}
	return 0
}

// passDamaged settles ready offsets from head on that have no record.
func (q *Queue) passDamaged(head, next uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || q.ready() == 0 || q.headOffset() != head || next <= head {
		return
	}
	if run := q.popHead(next - head); run.Count > 0 {
		q.upkeep.doomed = append(q.upkeep.doomed, q.settle(run.First, run.Count)...)
	}
}

// Outcomes of seek.
type sought uint8

const (
	found   sought = iota
	reading        // from disk; the keeper will come back
	absent         // there is no such record
	failed
)

// retryInterval is when the keeper tries again what could not be done, in ms.
const retryInterval = 1000

// seek positions a reader of the keeper's; next is the next offset that may
// exist when this one does not.
func (k *keeper) seek(q *Queue, r *segstore.Reader, offset uint64) (state sought, next uint64) {
	err := r.Seek(offset, func() { k.arm(q, 0) })
	if err == nil {
		return found, 0
	}
	if errors.Is(err, segstore.ErrNotResident) {
		return reading, 0
	}
	if next, ok := missing(err); ok {
		return absent, next
	}
	if !errors.Is(err, segstore.ErrDeleted) && !errors.Is(err, segstore.ErrClosed) {
		k.broker.logger.Error("a queue cannot be read: its messages neither expire nor become dead letters",
			"queue", q.Name, "vhost", q.VHost.Name, "offset", offset, "err", err)
	}
	return failed, 0
}
