package broker

import (
	"errors"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// This file moves the large bodies of dead letters: by another name for the
// same file, made before the letter is appended; the old one is removed when the
// letter is settled, durably if that is promised.

// bodyLink is a large body being named for the targets of its letter.
type bodyLink struct {
	offset  uint64
	targets []*Queue
	ref     bodies.Ref // by its new name
	done    chan struct{}
	err     error
}

// doomedBodies are removed when the transaction that settled their messages is
// durable.
type doomedBodies struct {
	ids    []uint64
	ticket uint64
}

// linkBody has the external body of a letter named for its targets: found when
// it is, m.link then has the reference; absent when there is no body any more.
func (k *keeper) linkBody(q *Queue, set *settings, l *letter, rec *segstore.Record) sought {
	m := &q.upkeep.move
	if link := m.link; link != nil {
		select {
		case <-link.done:
		default:
			return reading
		}
		switch {
		case errors.Is(link.err, bodies.ErrDamaged):
			return absent
		case link.err != nil:
			return failed
		}
		if link.offset == rec.Offset && slices.Equal(link.targets, l.targets) {
			return found
		}
		for _, target := range link.targets { // the topology has changed meanwhile
			target.RemoveBodies([]uint64{link.ref.ID})
		}
		m.link = nil
	}
	ref, ok := bodies.DecodeRef(rec.Body)
	if !ok || k.broker.bodies == nil {
		return absent
	}
	q.FoundBody(rec.Offset, ref.ID)
	link := &bodyLink{offset: rec.Offset, targets: slices.Clone(l.targets), done: make(chan struct{})}
	m.link = link
	dirs := make([]bodies.Dir, len(l.targets))
	for i, target := range l.targets {
		dirs[i] = target.BodyDir()
	}
	sync := amqp.DeliveryMode(l.properties) == 2 || set.atLeastOnce
	k.broker.bodies.LinkSoon(q.BodyDir(), ref, dirs, sync, func(ref bodies.Ref, err error) {
		link.ref, link.err = ref, err
		close(link.done)
		k.arm(q, 0)
	})
	return reading
}

// afterLink says how it goes on when a body is not linked.
func (k *keeper) afterLink(q *Queue, set *settings, state sought, now int64) (again int64) {
	m := &q.upkeep.move
	if state == reading {
		return unlimited
	}
	var err error = bodies.ErrDamaged
	if m.link != nil {
		err = m.link.err
	}
	m.link = nil
	k.broker.logger.Error("the body of a dead letter cannot be named for its new queues", "queue", q.Name, "vhost", q.VHost.Name, "err", err)
	if set.atLeastOnce && state == failed {
		m.retryAt = now + retryInterval
		return m.retryAt
	}
	q.settleDead(1)
	return 0
}

// removeDoomed removes the bodies of letters that have safely moved.
func (k *keeper) removeDoomed(q *Queue) (again int64) {
	m := &q.upkeep.move
	if len(m.doomed) == 0 {
		return unlimited
	}
	durable := k.broker.store.TxDurable()
	for len(m.doomed) > 0 && m.doomed[0].ticket <= durable {
		q.RemoveBodies(m.doomed[0].ids)
		m.doomed = m.doomed[1:]
	}
	if len(m.doomed) == 0 {
		m.doomed = nil
		return unlimited
	}
	return k.now() + pressureInterval
}
