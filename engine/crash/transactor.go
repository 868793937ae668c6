package crash

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// transactor moves messages between queues that only it uses: each transaction
// acks some that it got and publishes others.
type transactor struct {
	number uint16
	queues []string

	c       *client
	pending *transaction // not answered yet
}

// transaction is what one tx.commit asks for.
type transaction struct {
	publishes, acks []place
	asked           bool // tx.commit was sent
}

type place struct {
	queue string
	id    messageID
}

// run commits and rolls back until the connection ends.
func (t *transactor) run(s *Session, r *rand.Rand) (err error) {
	if t.c, err = s.connect(); err != nil {
		return err
	}
	defer s.watch(t.c)()
	if _, err := t.c.Call(1, &amqp.TxSelect{}, amqp.TxSelectOkID); err != nil {
		return err
	}
	for {
		t.pending = &transaction{}
		raw, err := t.getSome(s, r)
		if err != nil {
			return err
		}
		raw = t.publishSome(s, r, raw)
		if r.IntN(10) == 0 {
			err = t.rollback(s, raw)
		} else {
			err = t.commit(s, raw)
		}
		if err != nil {
			return err
		}
	}
}

// getSome takes messages and prepares their acks.
func (t *transactor) getSome(s *Session, r *rand.Rand) (raw []byte, err error) {
	var last uint64
	for range r.IntN(9) {
		queue := t.queues[r.IntN(len(t.queues))]
		if err := t.c.SendMethod(1, &amqp.BasicGet{Queue: []byte(queue)}); err != nil {
			return nil, err
		}
		event, err := t.c.Next()
		if err != nil {
			return nil, err
		}
		m, ok := event.Method.(*amqp.BasicGetOk)
		if !ok {
			if _, empty := event.Method.(*amqp.BasicGetEmpty); empty {
				continue
			}
			return nil, fmt.Errorf("transactor %d got %q", t.number, event)
		}
		id, err := identify(event)
		if err != nil {
			return nil, fmt.Errorf("invariant 4: queue %s: %w", queue, err)
		}
		s.ledger.deliver(queue, id, m.Redelivered, map[uint16]uint64{})
		t.pending.acks = append(t.pending.acks, place{queue, id})
		last = m.DeliveryTag
		if r.IntN(2) == 0 {
			raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicAck{DeliveryTag: m.DeliveryTag})
			last = 0
		}
	}
	if last != 0 {
		raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicAck{DeliveryTag: last, Multiple: true})
	} else if n := len(t.pending.acks); n > 0 {
		// Some may be left; a transaction settles all it got.
		raw = amqp.AppendMethodFrame(raw, 1, &amqp.BasicAck{Multiple: true})
	}
	return raw, nil
}

// publishSome adds publishes to one, two or three queues.
func (t *transactor) publishSome(s *Session, r *rand.Rand, raw []byte) []byte {
	if s.ledger.full(t.queues, 200, queueBytesMax/4) {
		return raw
	}
	for range 1 + r.IntN(4) {
		for _, i := range r.Perm(len(t.queues))[:1+r.IntN(len(t.queues))] {
			queue := t.queues[i]
			s.sequences[t.number]++
			id := messageID{publisher: t.number, sequence: s.sequences[t.number]}
			size := randomSize(r, false)
			s.ledger.publish([]string{queue}, id, size, true, staged)
			t.pending.publishes = append(t.pending.publishes, place{queue, id})
			raw = appendPublish(raw, "", queue, id, size, true)
		}
	}
	return raw
}

// commit sends everything but tx.commit before the ledger hears of it: only
// from then on may any of it be seen.
func (t *transactor) commit(s *Session, raw []byte) error {
	if err := t.c.Send(raw); err != nil {
		return err
	}
	s.ledger.committing(t.pending)
	asked := time.Now()
	if _, err := t.c.Call(1, &amqp.TxCommit{}, amqp.TxCommitOkID); err != nil {
		return err
	}
	if !s.ledger.answered(asked, t.pending.needsDisk(s.config.Rules), "tx.commit") {
		return errStopped // it stays pending
	}
	s.ledger.committed(t.pending)
	t.pending = nil
	return nil
}

// needsDisk says whether commit-ok has something to wait for.
func (t *transaction) needsDisk(rules Rules) bool {
	return len(t.publishes) > 0 || rules.Transactions && len(t.acks) > 0
}

// rollback takes all back; what was got returns to its queue by basic.recover.
func (t *transactor) rollback(s *Session, raw []byte) error {
	raw = amqp.AppendMethodFrame(raw, 1, &amqp.TxRollback{})
	if err := t.c.Send(raw); err != nil {
		return err
	}
	if _, err := t.c.Expect(amqp.TxRollbackOkID); err != nil {
		return err
	}
	s.ledger.rolledBack(t.pending)
	for _, p := range t.pending.acks {
		s.ledger.giveBack(p.queue, p.id)
	}
	_, err := t.c.Call(1, &amqp.BasicRecover{Requeue: true}, amqp.BasicRecoverOkID)
	return err
}

// committing notes that a commit is about to be sent.
func (l *ledger) committing(t *transaction) {
	for _, p := range t.acks {
		l.acking(p.queue, p.id)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.asked = true
	for _, p := range t.publishes {
		l.queue(p.queue).entries[p.id].state = sent
	}
}

// committed notes commit-ok.
func (l *ledger) committed(t *transaction) {
	for _, p := range t.publishes {
		l.confirm([]string{p.queue}, p.id)
	}
	for _, p := range t.acks {
		l.acked(p.queue, true, p.id)
	}
	l.mu.Lock()
	l.counts.Commits++
	l.mu.Unlock()
}

// rolledBack notes rollback-ok.
func (l *ledger) rolledBack(t *transaction) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Rollbacks++
	for _, p := range t.publishes {
		q := l.queue(p.queue)
		q.end(q.entries[p.id], "rolled back")
	}
}

// checkTransaction compares a transaction that was cut with what the audit of
// its queues has found: all of it or nothing.
func (l *ledger) checkTransaction(t *transaction) {
	if t == nil || !t.asked || !l.rules.Transactions {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var done, undone []string
	look := func(p place, what string, happened bool) {
		text := what + " of " + p.id.String() + " in " + p.queue
		if happened {
			done = append(done, text)
		} else {
			undone = append(undone, text)
		}
	}
	// The audit has seen what is there; what is not may be doubtful still.
	there := func(p place) bool { return l.queue(p.queue).entries[p.id].lastLife == l.life }
	for _, p := range t.publishes {
		look(p, "publish", there(p))
	}
	for _, p := range t.acks {
		look(p, "ack", !there(p))
	}
	if len(done) > 0 && len(undone) > 0 {
		l.note("invariant 7: half a transaction: done %v, not done %v", done, undone)
	}
}
