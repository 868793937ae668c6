package broker

import (
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Priority queues. A queue declared with x-max-priority is a family of queues,
// its levels: one for each priority that has been used, each with its own log,
// cursor, returned offsets and upkeep, like any other queue. The queue that the
// definitions name is the level of priority 0, the base. A level is made when
// the first message of its priority comes.
//
//   - All levels share the base's crowd: one lock, one set of consumers. Take,
//     Get, Purge, Counts and limits of the base are those of the family; a run
//     says which level it is from (Run.Queue), and that is where it goes back
//     to, is settled, expires or dies.
//   - Routing gives publishers the level of their message (VHost.Route), so
//     confirms, transactions and large bodies know of logs only.
//   - The highest level with ready messages is served first, and that is also
//     where a queue over its limit drops its head, as RabbitMQ documents it.
//   - Each level looks after its own head: a message that has expired goes even
//     if messages of higher priority before it live on.
//
// The ids of a family's logs are given out together when the queue is declared,
// so that its one definition record is all that has to be durable: level p has
// the id of the base plus p, and its delivery counts that plus the highest
// priority. Ids that are never used cost nothing.

// levels is the family of a priority queue. Guarded by the crowd's mu but for
// base and max.
type levels struct {
	base *Queue
	max  uint8
	list []*Queue // those there are, highest priority first; the base is the last
	at   []*Queue // by priority
}

// maxPriority is what arguments say of x-max-priority: 0 for a plain queue.
func maxPriority(arguments amqp.Table) uint8 {
	if v, ok := arguments.Lookup("x-max-priority"); ok {
		if n, ok := v.Int64(); ok && n > 0 && n <= 255 {
			return uint8(n)
		}
	}
	return 0
}

// levelIDs is how many log ids behind its own a queue with these arguments has.
func levelIDs(arguments amqp.Table) uint64 { return 2 * uint64(maxPriority(arguments)) }

// raise makes q, which is new, the base of a priority queue if its arguments
// ask for one.
func (q *Queue) raise() {
	if n := maxPriority(q.Arguments); n > 0 {
		q.levels = &levels{base: q, max: n, list: []*Queue{q}, at: make([]*Queue, int(n)+1)}
		q.levels.at[0] = q
	}
}

// isLevel says that q is a level above the base.
func (q *Queue) isLevel() bool { return q.crowd != &q.own }

// base is the queue that the definitions know.
func (q *Queue) base() *Queue {
	if q.isLevel() {
		return q.levels.base
	}
	return q
}

// IsPartOf says that q is another queue, or a level of it.
func (q *Queue) IsPartOf(of *Queue) bool { return q.base() == of.base() }

// each calls f for all levels of q's family, highest first, or for a plain q;
// the caller holds mu.
func (q *Queue) each(f func(*Queue)) {
	if q.levels == nil {
		f(q)
		return
	}
	for _, l := range q.levels.list {
		f(l)
	}
}

// family is a snapshot of what each visits.
func (q *Queue) family() []*Queue {
	q.mu.Lock()
	defer q.mu.Unlock()
	var all []*Queue
	q.each(func(l *Queue) { all = append(all, l) })
	return all
}

// total is how many messages of the family are ready.
func (q *Queue) total() (n uint64) {
	if q.levels == nil {
		return q.ready()
	}
	for _, l := range q.levels.list {
		n += l.ready()
	}
	return n
}

// totalBytes is how many bytes of bodies they have, where that is limited.
func (q *Queue) totalBytes() (n uint64) {
	q.each(func(l *Queue) {
		if l.upkeep != nil {
			n += l.upkeep.readyBytes
		}
	})
	return n
}

// top is the level that is served next: the highest with ready messages.
func (q *Queue) top() *Queue {
	if q.levels == nil {
		return q
	}
	for _, l := range q.levels.list {
		if l.ready() > 0 {
			return l
		}
	}
	return q.levels.base
}

// level returns the level for messages of a priority, making it. q is the base;
// its mu is not held. When the level's log cannot be opened, no log can: the
// base takes the message, and says so.
func (q *Queue) level(priority uint8) *Queue {
	f := q.levels
	priority = min(priority, f.max)
	if priority == 0 {
		return q
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := f.at[priority]; l != nil {
		return l
	}
	if q.deleted || q.unread != nil {
		return q
	}
	l, err := q.openLevel(priority)
	if err != nil {
		q.VHost.broker.logger.Error("a level of a priority queue cannot be opened: its messages get priority 0",
			"queue", q.Name, "vhost", q.VHost.Name, "priority", priority, "err", err)
		return q
	}
	return l
}

// openLevel makes a level of which nothing is stored; the caller holds mu.
func (q *Queue) openLevel(priority uint8) (*Queue, error) {
	l, err := q.newLevel(priority)
	if err == nil {
		err = l.log.Unread()
	}
	if err != nil {
		return nil, err
	}
	l.recover(true)
	q.addLevel(l, priority)
	l.follow()
	return l, nil
}

// newLevel opens the log of a level.
func (q *Queue) newLevel(priority uint8) (*Queue, error) {
	l := &Queue{
		Name: q.Name, VHost: q.VHost, Durable: q.Durable, Arguments: q.Arguments, Owner: q.Owner,
		ID: q.ID + uint64(priority), crowd: q.crowd,
	}
	log, err := q.VHost.broker.store.OpenLog(l.ID, segstore.LogOptions{Transient: !q.Durable || q.Owner != nil})
	if err != nil {
		return nil, err
	}
	l.log = log
	return l, nil
}

// addLevel adds a level to the family; the caller holds mu, or is the start.
func (q *Queue) addLevel(l *Queue, priority uint8) {
	f, at := q.levels, 0
	for at < len(f.list) && f.list[at].ID > l.ID {
		at++
	}
	f.list = append(f.list[:at], append([]*Queue{l}, f.list[at:]...)...)
	f.at[priority] = l
}

// follow gives a level the settings of its base.
func (l *Queue) follow() {
	if e := l.base().upkeep; e != nil {
		l.applyLocked(e.set)
		l.upkeep.dedup = e.dedup
	}
}

// countsLogID is the id of a level's log of delivery counts.
func (q *Queue) countsLogID() uint64 { return q.ID + uint64(q.levels.max) }

// openLevels opens, at the start, the logs of levels of which there is something:
// on says which those are. known gets them.
func (q *Queue) openLevels(on func(id uint64) bool, known map[uint64]*Queue) error {
	if q.levels == nil {
		return nil
	}
	for p := 1; p <= int(q.levels.max); p++ {
		id := q.ID + uint64(p)
		counts := id + uint64(q.levels.max)
		if !on(id) && !on(counts) {
			continue
		}
		l, err := q.newLevel(uint8(p))
		if err != nil {
			return err
		}
		q.addLevel(l, uint8(p))
		known[id] = l
		if on(counts) {
			l.needSides().countsID = counts
			if err := l.openSides(known); err != nil {
				return err
			}
		}
	}
	return nil
}

// rank replaces priority queues by their levels for a message with these
// properties.
func rank(queues []*Queue, properties []byte) {
	priority, known := uint8(0), false
	for i, q := range queues {
		if !q.Ranked() {
			continue
		}
		if !known {
			known = true
			if p, err := amqp.DecodeProperties(clearMarks(properties)); err == nil && p.Flags&amqp.FlagPriority != 0 {
				priority = p.Priority
			}
		}
		queues[i] = q.level(priority)
	}
}

// Ranked says that routes to q depend on the priority of the message.
func (q *Queue) Ranked() bool { return q.crowd != nil && q.levels != nil }
