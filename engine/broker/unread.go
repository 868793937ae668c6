package broker

import (
	"errors"
	"fmt"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// What cannot be read at a start. When a file of a log gives an error, the broker
// starts all the same, and the queue is there, but closed (StateClosed): what is
// stored is neither known nor changed.
//
//   - That one log of a queue cannot be read, or the directory of its large bodies
//     (bodies.Store.Unread), closes all of them, levels, counts and values seen included: what they say only makes sense together. The store fences
//     the log; the others are withheld, which does the same (segstore.Log.Withhold).
//     So publishers hear what they hear of any closed queue, without being asked for.
//   - Nothing is ready, nothing expires, nothing is counted as unused, and whoever wants
//     messages is answered with 541 (Unread) rather than with "empty". A policy waits.
//   - It can be deleted, but not on condition that it is empty.
//   - RestartQueue reads again what could not be read, gives the queue what a start gives
//     it (adopt), and only then has the fences lifted.
//
// The hidden queues of exchanges, and the values that exchanges have seen, likewise:
// RestartExchange. Meanwhile messages to such an exchange are refused.

// unreadRemedy is what helps.
const unreadRemedy = "nothing of it is lost; mend the disk or the permissions, and restart it (basaltmqctl restart_queue)"

// unreadable says why.
type unreadable struct{ why error }

// Unread says why what is stored of the queue is not known, as a 541; nil if it is.
func (q *Queue) Unread() error {
	if q.crowd == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.unread == nil {
		return nil
	}
	return q.cannotBeRead()
}

func (q *Queue) cannotBeRead() error {
	return amqp.Errorf(amqp.CodeInternalError, 0, "queue '%s' in vhost '%s' cannot be read: %s (%v)", q.Name, q.VHost.Name, unreadRemedy, q.unread.why)
}

// openStored opens, at the start, all logs of a queue; on says of which levels there
// is something. known gets the logs' ids.
func (q *Queue) openStored(clean bool, on func(id uint64) bool, known map[uint64]*Queue) error {
	log, err := q.VHost.broker.store.OpenLog(q.ID, q.logOptions(clean))
	if err != nil {
		return err
	}
	q.log = log
	known[q.ID] = q
	if err := q.openSides(known); err != nil {
		return err
	}
	return q.openLevels(on, known)
}

// openSides opens the logs beside that of q's messages.
func (q *Queue) openSides(known map[uint64]*Queue) (err error) {
	side := q.side
	if side == nil {
		return nil
	}
	open := func(id uint64) (log *segstore.Log) {
		if id != 0 && err == nil {
			known[id] = q
			log, err = q.VHost.broker.store.OpenLog(id, segstore.LogOptions{})
		}
		return log
	}
	side.countsLog, side.dedupLog = open(side.countsID), open(side.dedupID)
	return err
}

// logs lists all logs of a queue; the caller holds VHost.mu or is the start.
func (q *Queue) logs() (all []*segstore.Log) {
	for _, l := range q.family() {
		side := l.sides()
		_, schedule := l.schedules()
		for _, log := range [...]*segstore.Log{l.log, side.countsLog, side.dedupLog, schedule} {
			if log != nil {
				all = append(all, log)
			}
		}
	}
	return all
}

// shut closes a queue that cannot be read.
func (q *Queue) shut(why error) {
	q.mu.Lock()
	q.unread = &unreadable{why}
	q.mu.Unlock()
	for _, log := range q.logs() {
		log.Withhold(fmt.Errorf("broker: all that belongs to it is closed: %w", why))
	}
	remedy := "restart_queue"
	if q.hidden != nil {
		remedy = "restart_exchange"
	}
	q.VHost.broker.logger.Error("a queue cannot be read: it is closed, and what is stored stays as it is; mend the disk or the permissions, then use basaltmqctl "+remedy+", or restart the broker",
		"queue", q.Name, "vhost", q.VHost.Name, "err", why)
}

// partUnread says which part of a queue could not be read: a log, or the directory of
// large bodies.
func (q *Queue) partUnread() error {
	for _, log := range q.logs() {
		if err := log.Unread(); err != nil {
			return err
		}
	}
	if store := q.VHost.broker.bodies; store != nil {
		for _, l := range q.family() {
			if err := store.Unread(l.BodyDir()); err != nil {
				return err
			}
		}
	}
	return nil
}

// levelCounts is what the log of a level's delivery counts says.
type levelCounts struct {
	of     *Queue
	counts counts
}

// adopt gives a queue whose logs are open what is stored in them: at the start, or
// later, when they could be read at last. It waits for the disk. On an error nothing
// has been changed.
func (q *Queue) adopt(clean bool) error {
	if err := q.partUnread(); err != nil {
		return err
	}
	var found []levelCounts
	var tracked *trackedOffsets
	var err error
	family := q.family()
	for _, l := range family {
		log := l.sides().countsLog
		switch {
		case log == nil || err != nil:
		case q.stream != nil:
			tracked, err = readTracked(log)
		default:
			var c counts
			c, err = l.readCounts(log)
			found = append(found, levelCounts{l, c})
		}
	}
	var values *dedup
	if log := q.sides().dedupLog; log != nil && err == nil {
		values, err = q.readDedup(log)
	}
	if err != nil {
		return err
	}
	q.mu.Lock()
	if q.deleted {
		q.mu.Unlock()
		return nil
	}
	q.unread = nil
	for _, l := range family {
		l.recover(clean)
		if q.sides().hadExpirations {
			l.needUpkeep().noted = true
			if q.stream == nil {
				l.expectExpirations()
			}
		}
	}
	for _, f := range found {
		f.of.needUpkeep().counts = f.counts
	}
	if tracked != nil {
		q.stream.tracked = *tracked
	}
	if values != nil {
		q.needUpkeep().dedup = values
	}
	q.mu.Unlock()
	q.applyArguments()
	if q.levels != nil {
		q.mu.Lock()
		for _, l := range family[:len(family)-1] { // the base is the last
			l.follow()
		}
		q.attend() // limits are those of all levels together
		q.mu.Unlock()
	}
	return nil
}

// readAgain reads a queue again that could not be read, with adopt for what comes
// then; read says that there was something to do. It waits for the disk.
func (q *Queue) readAgain(adopt func() error) (read bool, err error) {
	b := q.VHost.broker
	b.rereading.Lock()
	defer b.rereading.Unlock()
	if q.Unread() == nil {
		return false, nil
	}
	q.VHost.mu.RLock()
	logs := q.logs()
	q.VHost.mu.RUnlock()
	if err := errors.Join(rereadLogs(logs), q.rereadBodies()); err != nil {
		return false, err
	}
	if err := adopt(); err != nil {
		return false, err
	}
	var scans []*Queue
	for _, l := range q.family() {
		q.mu.Lock()
		if !l.deleted && l.external != nil && len(l.external.unseen) > 0 {
			scans = append(scans, l)
		}
		q.mu.Unlock()
	}
	if len(scans) > 0 {
		b.scan.start(b, scans)
	}
	return true, nil
}

// rereadBodies lists directories of large bodies again that could not be listed.
func (q *Queue) rereadBodies() (err error) {
	store := q.VHost.broker.bodies
	if store == nil {
		return nil
	}
	for _, l := range q.family() {
		left, e := store.Reread(l.BodyDir())
		err = errors.Join(err, e)
		if len(left.IDs) > 0 {
			l.leftBodies(left)
		}
	}
	return err
}

func rereadLogs(logs []*segstore.Log) (err error) {
	for _, log := range logs {
		if e := log.Reread(); e != nil && !errors.Is(e, segstore.ErrDeleted) {
			err = errors.Join(err, e)
		}
	}
	return err
}

// Unread says why what the exchange has seen is not known, as a 541; nil if it is.
// Then nothing may be published to it.
func (x *Deduplicator) Unread() error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.unread == nil {
		return nil
	}
	return amqp.Errorf(amqp.CodeInternalError, 0, "what exchange '%s' in vhost '%s' has seen cannot be read: nothing of it is lost; mend the disk or the permissions, and restart it (basaltmqctl restart_exchange) (%v)",
		x.exchange, x.vhost, x.unread)
}

// shut has nothing published until the values are known.
func (x *Deduplicator) shut(why error) {
	x.mu.Lock()
	x.unread = why
	x.mu.Unlock()
	x.log.Withhold(why)
	x.broker.logger.Error("the values that an exchange has seen cannot be read: it takes no messages, and what is stored stays as it is; mend the disk or the permissions, then restart it, or the broker",
		"exchange", x.exchange, "vhost", x.vhost, "err", why)
}

// readAgain reads values again that could not be read.
func (x *Deduplicator) readAgain() (read bool, err error) {
	x.broker.rereading.Lock()
	defer x.broker.rereading.Unlock()
	if x.Unread() == nil {
		return false, nil
	}
	if err := rereadLogs([]*segstore.Log{x.log}); err != nil {
		return false, err
	}
	return true, x.adopt(x.broker.lostAtStart())
}

// lostAtStart says of a queue's log whether it did not reach up to end when the
// broker started. Of a queue that is unread still nobody knows.
func (b *Broker) lostAtStart() func(id, end uint64) bool {
	next := map[uint64]uint64{}
	b.mu.RLock()
	for _, vh := range b.vhosts {
		for _, q := range vh.Queues() {
			q.mu.Lock()
			if q.unread == nil {
				q.each(func(l *Queue) { next[l.ID] = l.crashed })
			}
			q.mu.Unlock()
		}
	}
	b.mu.RUnlock()
	return func(id, end uint64) bool {
		at, found := next[id]
		return found && !b.cleanStop && at < end
	}
}
