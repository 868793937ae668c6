package broker

import (
	"errors"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
)

// Dead letters. What is rejected, expires, is over a limit or has been delivered
// too often leaves the ready messages at once and goes to the queue's list of
// dead letters: offsets and reasons, nothing else. The keeper works the list off
// in order, a batch at a time: it reads the records, gives them the headers that
// tell of the death (deaths.go), routes them by the dead letter exchange, appends
// them to the queues found, and settles them here. No two queues are locked at
// once.
//
//	at-most-once   the letters are settled when they have been appended. A queue
//	               that refuses them, a missing exchange or route loses them; a
//	               crash may lose, or double, those of the last moments.
//	at-least-once  appending and settling is one transaction of the store: after
//	               a crash either both are durable or neither is. Where there is
//	               no route, or a queue refuses, the letter stays and is tried
//	               again every second, those behind it waiting. Where only one of
//	               several queues refused, the others are left out then (but for a
//	               restart in between).
//
// A body in a file of its own gets another name in each target's directory; its
// bytes are not touched.
//
// What a stop of the broker finds still on a list (drain) stays where it is: in
// the log of its queue, unsettled. The next start finds it ready and, but for
// what a consumer rejected, dead for the same reason.

// deadRun is consecutive offsets that died of one reason.
type deadRun struct {
	first, count uint64
	why          reason
}

// deadList is a queue of deadRuns.
type deadList struct {
	runs []deadRun
	head int
	len  uint64
}

func (l *deadList) add(first, count uint64, why reason) {
	l.len += count
	if n := len(l.runs); n > l.head {
		if last := &l.runs[n-1]; last.why == why && last.first+last.count == first {
			last.count += count
			return
		}
	}
	if l.head > 64 && l.head > len(l.runs)/2 {
		l.runs = append(l.runs[:0], l.runs[l.head:]...)
		l.head = 0
	}
	l.runs = append(l.runs, deadRun{first, count, why})
}

// front returns the run that is next; count 0 when there is none.
func (l *deadList) front() (run deadRun) {
	if l.head < len(l.runs) {
		run = l.runs[l.head]
	}
	return run
}

// pop removes n offsets of the front run.
func (l *deadList) pop(n uint64) {
	run := &l.runs[l.head]
	run.first += n
	run.count -= n
	l.len -= n
	if run.count > 0 {
		return
	}
	if l.head++; l.head == len(l.runs) {
		*l = deadList{}
	}
}

// putBack puts offsets in front again; numbers count from first, ascending.
func (l *deadList) putBack(first uint64, numbers []int, why reason) {
	var again []deadRun
	for _, n := range numbers {
		offset := first + uint64(n)
		if last := len(again) - 1; last >= 0 && again[last].first+again[last].count == offset {
			again[last].count++
			continue
		}
		again = append(again, deadRun{offset, 1, why})
	}
	l.len += uint64(len(numbers))
	l.runs, l.head = append(again, l.runs[l.head:]...), 0
}

// mover is the keeper's place in a queue's list of dead letters.
type mover struct {
	watcher
	builder *segstore.Batch
	link    *bodyLink
	doomed  []doomedBodies
	retryAt int64
	told    bool // that there is no route; once
	given   givenLetters
	gather  gather // of delayed messages; see gather.go
}

func (m *mover) close() {
	m.watcher.close()
	if m.builder != nil {
		m.builder.Release()
		m.builder = nil
	}
	m.gather, m.given = gather{}, nil
}

// letter is what the letters of one template and reason have in common.
type letter struct {
	exchange, key, properties []byte
	targets                   []*Queue
	lost                      bool              // a cycle, or nothing that could be routed
	expiring                  bool              // they have expirations of their own
	of                        segstore.Template // what a delayed message's letter was made of
}

// pressureInterval is how long the keeper waits while the store has more
// unwritten data than it likes, in ms.
const pressureInterval = 5

// moveDead moves one batch of q's dead letters and returns when to come back.
func (k *keeper) moveDead(q *Queue, now int64) (again int64) {
	m := &q.upkeep.move
	again = k.removeDoomed(q)
	q.mu.Lock()
	run, set, gone := q.upkeep.dead.front(), q.upkeep.set, q.deleted
	q.mu.Unlock()
	switch {
	case gone || run.count == 0:
		m.close()
		return again
	case m.retryAt > now:
		return min(again, m.retryAt)
	case k.broker.store.Pressured():
		return min(again, now+pressureInterval)
	case !set.deadLetters: // a policy has ended it
		q.settleDead(run.count)
		return 0
	}
	if m.reader == nil {
		m.reader = q.log.NewReader()
	}
	switch state, next := k.seek(q, m.reader, run.first); state {
	case reading:
		return again
	case failed:
		m.retryAt = now + retryInterval
		return min(again, m.retryAt)
	case absent:
		q.settleDead(min(next-run.first, run.count))
		return 0
	}
	return min(again, k.moveRun(q, set, run, now))
}

// settleDead ends the first n dead letters and removes their bodies.
func (q *Queue) settleDead(n uint64) {
	q.mu.Lock()
	if q.deleted {
		q.mu.Unlock()
		return
	}
	first := q.upkeep.dead.front().first
	q.upkeep.dead.pop(n)
	ids := q.settle(first, n)
	q.mu.Unlock()
	q.RemoveBodies(ids)
}

// moveRun moves what the reader has of a run, as far as it goes to the same
// queues.
func (k *keeper) moveRun(q *Queue, set *settings, run deadRun, now int64) (again int64) {
	m := &q.upkeep.move
	if m.builder == nil {
		m.builder = k.broker.store.NewBatch()
	}
	b := m.builder
	b.Reset(now)
	var rec segstore.Record
	var base, current *letter
	var body bodies.Ref
	number, count, external := -1, uint64(0), false
	for count < run.count && b.Size() < segstore.BatchBytesTarget && m.reader.Next(&rec) {
		if rec.Template != number {
			base = k.letter(q, set, run.why, m.reader.Template(rec.Template), now)
		}
		next := m.given.left(base, rec.Offset)
		if current != nil && (next.lost != current.lost || !slices.Equal(next.targets, current.targets)) {
			break
		}
		isExternal := !next.lost && IsExternal(next.properties)
		if isExternal && count > 0 {
			break
		}
		number, current = rec.Template, next
		if len(current.targets) > 0 {
			t := b.Template(current.exchange, current.key, current.properties)
			if t < 0 {
				break
			}
			if isExternal {
				if state := k.linkBody(q, set, current, &rec); state != found {
					return k.afterLink(q, set, state, now)
				}
				body, external = m.link.ref, true
				rec.Body = body.Append(nil)
				m.link = nil
			}
			b.Add(t, rec.Body)
		}
		count++
		if external {
			break
		}
	}
	if count == 0 {
		return 0
	}
	var refs []BodyAt
	if external {
		refs = []BodyAt{{Index: 0, Ref: body}}
	}
	if set.atLeastOnce {
		return k.moveSafely(q, current, run.first, count, refs, now)
	}
	for _, target := range current.targets {
		// Who refuses has it lost, as documented.
		_, _, err := target.Publish(b, now, refs...)
		k.reportRefusal(q, target, err)
	}
	q.settleDead(count)
	return 0
}

// reportRefusal logs that a queue took no dead letters, but for full ones.
func (k *keeper) reportRefusal(q, target *Queue, err error) {
	var full *Overflow
	if err != nil && !errors.As(err, &full) {
		k.broker.logger.Error("dead letters could not be delivered", "from", q.Name, "to", target.Name, "vhost", q.VHost.Name, "err", err)
	}
}

// letter prepares the letters of one template.
func (k *keeper) letter(q *Queue, set *settings, why reason, t segstore.Template, now int64) *letter {
	l := &letter{exchange: []byte(set.deadLetterExchange), key: t.RoutingKey}
	d := death{queue: q.Name, exchange: string(t.Exchange), key: t.RoutingKey, why: why, seconds: uint64(now / 1000)}
	properties, headers, cc, err := d.deadProperties(t.Properties, set.hasDeadLetterKey)
	if err != nil {
		k.broker.logger.Error("a message with unreadable properties cannot become a dead letter", "queue", q.Name, "vhost", q.VHost.Name, "err", err)
		l.lost = true
		return l
	}
	l.properties = properties
	if set.hasDeadLetterKey {
		l.key = []byte(set.deadLetterRoutingKey)
	}
	targets, err := q.VHost.Route(l.exchange, Envelope{RoutingKey: l.key, More: cc, Properties: clearMarks(properties)}, nil)
	if err != nil {
		return l // no such exchange
	}
	found := len(targets)
	if why != rejected {
		targets = slices.DeleteFunc(targets, func(target *Queue) bool { return isCycle(headers, target.Name) })
	}
	l.targets = targets
	l.lost = found > 0 && len(targets) == 0
	if l.lost {
		k.broker.logger.Warn("messages are dropped because dead-lettering brings them back to where they were before",
			"queue", q.Name, "vhost", q.VHost.Name, "exchange", string(l.exchange), "routing_key", string(l.key))
	}
	return l
}
