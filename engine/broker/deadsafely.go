package broker

import (
	"errors"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
)

// moveSafely is the end of moveRun for at-least-once: the count letters from
// first on are in the batch.
func (k *keeper) moveSafely(q *Queue, l *letter, first, count uint64, refs []BodyAt, now int64) (again int64) {
	m := &q.upkeep.move
	if len(l.targets) == 0 && !l.lost {
		if !m.told {
			m.told = true
			k.broker.logger.Warn("dead letters have nowhere to go and stay in their queue until they have (at-least-once)",
				"queue", q.Name, "vhost", q.VHost.Name, "exchange", string(l.exchange), "routing_key", string(l.key))
		}
		m.retryAt = now + retryInterval
		return m.retryAt
	}
	m.told = false
	tx := k.broker.store.Begin()
	failed := false
	var refused []int // by one of the targets at least
	var takers []taker
	for _, target := range l.targets {
		end, _, err := target.Publish(m.builder, now, refs...)
		inLog := count
		took := taker{queue: target}
		var full *Overflow
		if errors.As(err, &full) {
			inLog, err = uint64(full.Appended), nil
			if inLog < count { // else they have become that queue's dead letters
				refused = MergeRefused(refused, full.Refused)
				took.refused = full.Refused
			}
		}
		if err == nil && end > 0 {
			tx.Appended(target.log, end-inLog, end)
		}
		if err == nil {
			takers = append(takers, took)
		}
		failed = failed || err != nil
		k.reportRefusal(q, target, err)
	}
	if failed || len(refused) > 0 {
		m.note(takers, first, count, refused, failed)
	}
	var ids []uint64
	if !failed {
		ids = q.settleMoved(tx, count, refused)
		m.given.forget(first, count, refused)
	}
	ticket := tx.End()
	if len(ids) > 0 {
		m.doomed = append(m.doomed, doomedBodies{ids, ticket})
	}
	if failed || len(refused) > 0 {
		m.retryAt = now + retryInterval
		return m.retryAt
	}
	return 0
}

// givenLetters has, by offset, the queues that have already taken a dead letter
// which stays because another one did not. It is not kept over a restart: then
// they get it once more.
type givenLetters map[uint64][]*Queue

// taker is a queue that has taken a batch, but for those it refused (ascending).
type taker struct {
	queue   *Queue
	refused []int
}

// left is a letter as it is still to go for the record at an offset.
func (g givenLetters) left(l *letter, offset uint64) *letter {
	taken := g[offset]
	if len(taken) == 0 {
		return l
	}
	rest := *l
	rest.targets = slices.DeleteFunc(slices.Clone(l.targets), func(target *Queue) bool { return slices.Contains(taken, target) })
	rest.lost = len(rest.targets) == 0 // everybody has it, whoever did not is gone
	return &rest
}

// forget ends what was noted of those of count letters that do not stay.
func (g givenLetters) forget(first, count uint64, refused []int) {
	for offset := range g {
		n := offset - first
		if _, stays := slices.BinarySearch(refused, int(n)); n < count && !stays {
			delete(g, offset)
		}
	}
}

// note keeps who has taken those letters that stay: the refused ones, or all.
func (m *mover) note(takers []taker, first, count uint64, refused []int, all bool) {
	for _, t := range takers {
		for n := range int(count) {
			_, stays := slices.BinarySearch(refused, n)
			if _, no := slices.BinarySearch(t.refused, n); no || !stays && !all {
				continue
			}
			if m.given == nil {
				m.given = givenLetters{}
			}
			m.given[first+uint64(n)] = append(m.given[first+uint64(n)], t.queue)
		}
	}
}

// settleMoved settles, in a transaction, those of the first count dead letters
// that were not refused; the others stay. It returns their external bodies.
func (q *Queue) settleMoved(tx *segstore.Tx, count uint64, refused []int) (ids []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil
	}
	l := &q.upkeep.dead
	run := l.front()
	l.pop(count)
	l.putBack(run.first, refused, run.why)
	settle := func(from, to uint64) {
		if from < to {
			ids = append(ids, q.settle(from, to-from)...)
			tx.Settled(q.log, from, to-from)
		}
	}
	at := run.first
	for _, n := range refused {
		settle(at, run.first+uint64(n))
		at = run.first + uint64(n) + 1
	}
	settle(at, run.first+count)
	return ids
}
