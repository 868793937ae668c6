package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Moving messages from one queue to another. A batch at a time is taken, read,
// appended to the target and settled, the last two in one transaction of the
// store: a crash leaves a message in one of the two queues, and in both only if
// that transaction was not durable yet and the target is not durable at all.
// Messages keep exchange, routing key and properties; that they came back before,
// and how often, is forgotten, and their time to live begins anew. Bodies in
// files get another name, their bytes stay where they are.
//
// A stream's messages stay: they are copied.

// MoveMax stands for all messages that are ready when the move begins.
const MoveMax = 1 << 62

// Moved is what became of a move.
type Moved struct {
	Messages uint64
	// Next is, of a stream, the offset to go on with: copying it in steps.
	Next uint64
}

// moveRunMax is how many messages are taken at once.
const moveRunMax = 512

// Move moves up to count ready messages from the head of one queue to another, of
// paused queues too, and returns when they are safe there. Of a stream it copies
// those from offset on. It returns how many there were, also with an error: those
// are moved, all others are where they were. Errors: 406 for a move to the same
// queue; the target is full or takes no messages; a message cannot be read; the
// context's.
func (b *Broker) Move(ctx context.Context, from, to *Queue, count, offset uint64) (Moved, error) {
	if from.base() == to.base() {
		return Moved{}, amqp.Errorf(amqp.CodePreconditionFailed, 0, "queue '%s' in vhost '%s' cannot be moved to itself", from.Name, from.VHost.Name)
	}
	if err := from.Unread(); err != nil {
		return Moved{}, err
	}
	m := &moving{broker: b, ctx: ctx, to: to, reader: newWaitingReader(ctx), batch: b.store.NewBatch()}
	defer m.reader.close()
	defer m.batch.Release()
	m.next = offset
	var err error
	if from.stream != nil {
		err = m.copyStream(from, count)
	} else {
		err = m.moveReady(from, count)
	}
	if failure := b.awaitTx(ctx, m.ticket); err == nil {
		err = failure
	}
	return Moved{m.moved, m.next}, err
}

// moving is a move under way.
type moving struct {
	broker *Broker
	ctx    context.Context
	to     *Queue
	reader *waitingReader
	batch  *segstore.Batch

	moved  uint64
	next   uint64 // of a stream: the offset after the last one copied
	ticket uint64 // of the last transaction
}

// portion is what one batch takes: messages that follow each other and go to the
// same level of the target.
type portion struct {
	from     *Queue
	passed   uint64 // offsets that have been dealt with otherwise; then count is 0
	first    uint64
	count    uint64
	target   *Queue
	external []BodyAt
	expiring bool
}

// moveReady moves up to count messages of a queue, of those that are ready now.
func (m *moving) moveReady(from *Queue, count uint64) error {
	for left := min(count, from.Counts().Ready); left > 0; {
		if err := m.broker.AwaitRoom(m.ctx); err != nil {
			return err
		}
		run, _ := from.Pull(min(left, moveRunMax))
		if run.Count == 0 {
			return nil
		}
		left -= run.Count
		rest, err := m.moveRun(run)
		if err != nil {
			if rest.Count > 0 {
				rest.Queue.Return(rest)
			}
			return err
		}
	}
	return nil
}

// copyStream copies up to count records of a stream, of those that are there now.
func (m *moving) copyStream(from *Queue, count uint64) error {
	at, end, _ := from.streamRange(offsetSpec{kind: offsetAt, n: int64(min(m.next, 1<<62))})
	for at < end && count > 0 {
		if err := m.broker.AwaitRoom(m.ctx); err != nil {
			return err
		}
		first, n := from.log.NextUnsettled(at, min(moveRunMax, count))
		if n == 0 || first >= end {
			return nil
		}
		n = min(n, end-first)
		before := m.moved
		rest, err := m.moveRun(Run{Queue: from, First: first, Count: n})
		m.next = rest.First
		if err != nil {
			return err
		}
		at, count = first+n, count-(m.moved-before)
	}
	return nil
}

// moveRun moves a run; with an error rest has not been touched.
func (m *moving) moveRun(run Run) (rest Run, err error) {
	for run.Count > 0 {
		p, err := m.gather(run)
		if err == nil && p.count > 0 {
			err = m.transfer(&p)
		}
		run.First += p.passed + p.count
		run.Count -= p.passed + p.count
		if err != nil {
			return run, err
		}
	}
	return run, nil
}

// gather puts the first messages of a run into the batch. Those that are gone or
// have expired are passed, by themselves.
func (m *moving) gather(run Run) (p portion, err error) {
	l, b, r := run.Queue, m.batch, m.reader
	p = portion{from: l, first: run.First}
	now := m.broker.keeper.now()
	b.Reset(now)
	var rec segstore.Record
	for p.count < run.Count && b.Size() < segstore.BatchBytesTarget {
		err := r.seek(l, run.First+p.count)
		switch next, absent := missing(err); {
		case err != nil && p.count > 0:
			return p, nil // it is the next one's turn to fail
		case absent:
			p.passed = min(max(next, run.First+1)-run.First, run.Count)
			if l.stream == nil {
				l.Settle(run.First, p.passed)
			}
			return p, nil
		case err != nil:
			return p, l.unreadable(run.First, err)
		}
		for p.count < run.Count && b.Size() < segstore.BatchBytesTarget && r.reader.Next(&rec) {
			t := r.reader.Template(rec.Template)
			switch {
			case l.stream == nil && l.Deadline(rec.Timestamp, t.Properties, run.Redelivered) <= now:
				if p.count == 0 {
					p.passed = 1
					l.Expire(run.First, 1)
				}
				return p, nil
			case !m.goesWith(&p, t):
				return p, nil
			case IsExternal(t.Properties):
				return p, m.link(&p, t, rec.Body, rec.Offset)
			}
			number := b.Template(t.Exchange, t.RoutingKey, t.Properties)
			if number < 0 {
				return p, nil // too many templates; the next batch has room
			}
			b.Add(number, rec.Body)
			p.count++
			p.expiring = p.expiring || Expiration(t.Properties) != NoDeadline
		}
	}
	return p, nil
}

// goesWith says whether a message goes where the portion goes, which the first
// one decides.
func (m *moving) goesWith(p *portion, t segstore.Template) bool {
	target := [1]*Queue{m.to}
	rank(target[:], t.Properties)
	if p.count > 0 && (IsExternal(t.Properties) || target[0] != p.target) {
		return false
	}
	p.target = target[0]
	return true
}

// link names the external body of the only message of a portion for its target.
func (m *moving) link(p *portion, t segstore.Template, body []byte, offset uint64) error {
	ref, ok := bodies.DecodeRef(body)
	if !ok || m.broker.bodies == nil {
		return p.from.unreadable(offset, bodies.ErrDamaged)
	}
	if p.from.stream == nil {
		p.from.FoundBody(offset, ref.ID)
	}
	type linked struct {
		ref bodies.Ref
		err error
	}
	done := make(chan linked, 1)
	m.broker.bodies.LinkSoon(p.from.BodyDir(), ref, []bodies.Dir{p.target.BodyDir()}, true, func(ref bodies.Ref, err error) { done <- linked{ref, err} })
	l := <-done // a stop of the broker ends this too
	if l.err != nil {
		return p.from.unreadable(offset, l.err)
	}
	p.external = []BodyAt{{Ref: l.ref}}
	m.batch.Add(m.batch.Template(t.Exchange, t.RoutingKey, t.Properties), l.ref.Append(nil))
	p.count = 1
	p.expiring = Expiration(t.Properties) != NoDeadline
	return nil
}

// transfer appends the portion to its target and settles it, as far as the target
// takes it. With an error p.count is what it took.
func (m *moving) transfer(p *portion) error {
	if p.expiring {
		p.target.ExpectExpirations()
	}
	now := m.broker.keeper.now()
	tx := m.broker.store.Begin()
	end, _, err := p.target.Publish(m.batch, now, p.external...)
	inLog := uint64(m.batch.Count())
	var full *Overflow
	if errors.As(err, &full) {
		inLog, err = uint64(full.Appended), nil
	}
	if err == nil && full == nil && end == 0 {
		err = m.to.VHost.noQueue(m.to.Name)
	}
	if err != nil {
		tx.End()
		p.count = 0
		return fmt.Errorf("broker: queue '%s' in vhost '%s' takes no messages: %w", m.to.Name, m.to.VHost.Name, err)
	}
	tx.Appended(p.target.log, end-inLog, end)
	count := p.count
	var refused []int
	if full != nil && !p.target.buriesRefused() {
		refused = full.Refused
	}
	ids := m.settle(tx, p, refused)
	if ticket := tx.End(); ticket > 0 {
		m.ticket = ticket
	}
	m.moved += count - uint64(len(refused))
	m.removeBodies(p.from, ids)
	if len(refused) > 0 {
		return amqp.Errorf(amqp.CodePreconditionFailed, 0, "queue '%s' in vhost '%s' is at its limit", m.to.Name, m.to.VHost.Name)
	}
	return nil
}

// settle ends the messages of a portion at their old place, but for the refused
// ones, which go back to it.
func (m *moving) settle(tx *segstore.Tx, p *portion, refused []int) (ids []uint64) {
	if p.from.stream != nil {
		return nil
	}
	at := uint64(0)
	upTo := func(n uint64) {
		if n > at {
			ids = append(ids, p.from.SettleKeeping(Run{First: p.first + at, Count: n - at}, 0)...)
			tx.Settled(p.from.log, p.first+at, n-at)
		}
	}
	var back []Run
	for _, n := range refused {
		upTo(uint64(n))
		back = append(back, Run{Queue: p.from, First: p.first + uint64(n), Count: 1})
		at = uint64(n) + 1
	}
	upTo(p.count)
	if len(back) > 0 {
		p.from.requeue(false, back...)
	}
	return ids
}

// bodiesPatience bounds how long the old names of bodies wait for the disk; those
// that are left then, the next start finds.
const bodiesPatience = 30 * time.Second

// removeBodies removes the old names of bodies when the transaction is durable.
// Whether anybody still waits for the move does not count: what is moved is moved.
func (m *moving) removeBodies(from *Queue, ids []uint64) {
	if len(ids) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), bodiesPatience)
	defer cancel()
	if m.broker.awaitTx(ctx, m.ticket) == nil {
		from.RemoveBodies(ids)
	}
}

// buriesRefused says that what the queue refuses becomes its dead letter.
func (q *Queue) buriesRefused() bool {
	s := q.settings.Load()
	return s != nil && s.overflow == rejectPublishDLX && s.deadLetters
}
