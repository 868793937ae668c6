package broker

import (
	"slices"
	"sync"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// dedupArguments are those of exchanges and queues that deduplicate.
var dedupArguments = []string{"x-message-deduplication", "x-cache-size", "x-cache-ttl", "x-deduplication-header"}

// Deduplicator is what an exchange that was declared with
// x-message-deduplication remembers of the messages published to it. The rules
// are those of queues, see dedup.go.
//
// It judges a batch when all of it is known: Judge says what is left, the caller
// publishes that to its queues, Done remembers. Its lock is held in between, so
// that of two equal messages on two connections one is a duplicate, and only if
// the other has been taken. Values of refused messages are not remembered: who
// repeats one must be heard.
//
// Dead letters and messages that come over another exchange are not judged.
// Otherwise a message that is tried again by way of a dead letter exchange would
// be a duplicate of itself.
//
// Lock order: Deduplicator.mu comes before Queue.mu. VHost.mu is not taken under it.
type Deduplicator struct {
	broker   *Broker
	exchange string
	vhost    string
	id       uint64 // of the log; 0: values are forgotten with the process

	mu    sync.Mutex
	dedup *dedup // nil: the exchange has been deleted
	log   *segstore.Log
	// unread says why the values are not known, nil if they are; see unread.go.
	unread error

	// Between Judge and Done.
	batch      *segstore.Batch // without the duplicates; nil: there are none
	duplicates []int
	repeats    []dedupRepeat
	values     []dedupEntry
	gone       []BodyAt
	now        int64
}

// newDeduplicator makes what an exchange remembers, without a log; nil if its
// arguments ask for nothing.
func (vh *VHost) newDeduplicator(e *Exchange, id uint64) *Deduplicator {
	var s settings
	s.deduplicates(settingSource{e.Arguments, "x-"})
	if !s.dedups {
		return nil
	}
	return &Deduplicator{broker: vh.broker, exchange: e.Name, vhost: vh.Name, id: id, dedup: newDedup(&s)}
}

// open opens the log; queues are those that the start found, by their logs.
func (x *Deduplicator) open(queues map[uint64]*Queue) error {
	if x.id == 0 {
		return nil
	}
	log, err := x.broker.store.OpenLog(x.id, segstore.LogOptions{})
	if err != nil {
		return err
	}
	x.log = log
	err = log.Unread()
	if err == nil {
		err = x.adopt(func(id, end uint64) bool {
			q := queues[id]
			return q != nil && q.unread == nil && q.log.Next() < end
		})
	}
	if err != nil {
		x.shut(err)
	}
	return nil
}

// adopt takes back what is in the log; lost says of a queue's log that it does not
// reach up to end. It waits for the disk.
func (x *Deduplicator) adopt(lost func(id, end uint64) bool) error {
	x.mu.Lock()
	if x.dedup == nil {
		x.mu.Unlock()
		return nil
	}
	d := &dedup{header: x.dedup.header, size: x.dedup.size, ttl: x.dedup.ttl, until: map[dedupValue]int64{}}
	x.mu.Unlock()
	if err := d.read(x.log, lost); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dedup != nil {
		x.dedup, x.unread = d, nil
	}
	return nil
}

// openDeduplicators opens the logs of values of all exchanges and returns their
// ids; the queues' logs are open.
func (b *Broker) openDeduplicators(queues map[uint64]*Queue) (ids map[uint64]bool, err error) {
	ids = map[uint64]bool{}
	for _, vh := range b.vhosts {
		for _, e := range vh.exchanges {
			if e.dedup == nil {
				continue
			}
			if err := e.dedup.open(queues); err != nil {
				return nil, err
			}
			ids[e.dedup.id] = true
		}
	}
	return ids, nil
}

// delete ends it: its exchange is gone.
func (x *Deduplicator) delete() {
	x.mu.Lock()
	x.dedup = nil
	x.mu.Unlock()
	if x.log == nil {
		return
	}
	if err := x.log.Delete(); err != nil {
		x.broker.logger.Error("cannot delete the values that an exchange has seen", "exchange", x.exchange, "vhost", x.vhost, "err", err)
	}
}

// Deduplicator returns what an exchange remembers; nil if it takes duplicates.
func (vh *VHost) Deduplicator(exchange []byte) *Deduplicator {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	if e := vh.exchanges[string(exchange)]; e != nil {
		return e.dedup
	}
	return nil
}

// Knows says that a message with these properties would be a duplicate now.
func (x *Deduplicator) Knows(properties []byte, now int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.dedup == nil {
		return false
	}
	value, _, ok := x.dedup.valueOf(properties)
	return ok && x.dedup.until[value] > now
}

// Judge returns what is to be published of a batch, and the bodies that go with
// it. Done must follow; until then the batch is valid and the lock is held.
func (x *Deduplicator) Judge(b *segstore.Batch, external []BodyAt, now int64) (*segstore.Batch, []BodyAt) {
	x.mu.Lock()
	x.now = now
	if x.dedup == nil {
		return b, external
	}
	x.duplicates, x.repeats, x.values = x.dedup.judge(b, now)
	if len(x.duplicates) == 0 {
		return b, external
	}
	x.batch = b.Without(x.duplicates)
	external, x.gone = splitBodies(external, x.duplicates)
	return x.batch, external
}

// Done remembers the values of what was judged, except for the refused records,
// whose numbers are those of the batch that Judge returned; queues are where the
// others went. With failure nothing is remembered: a queue could not be written.
// It returns the refused by their numbers in the batch that Judge was given. tx
// is nil, or the transaction of which all that is a part.
func (x *Deduplicator) Done(queues []*Queue, refused []int, failure bool, tx *segstore.Tx) []int {
	defer x.mu.Unlock()
	if x.batch != nil {
		x.batch.Release()
		x.batch = nil
	}
	refused = withRepeats(renumber(refused, x.duplicates), x.repeats)
	values := slices.DeleteFunc(x.values, func(v dedupEntry) bool { _, found := slices.BinarySearch(refused, v.at); return found })
	if x.dedup != nil && !failure {
		first := uint64(0)
		if x.log != nil {
			first = x.log.Next()
		}
		err := x.dedup.remember(x.broker.store, values, x.dedup.mark(queues...), x.now)
		if err != nil {
			x.broker.logger.Error("values for deduplication are forgotten with the next restart", "exchange", x.exchange, "vhost", x.vhost, "err", err)
		} else if tx != nil && x.log != nil {
			tx.Appended(x.log, first, x.log.Next())
		}
	}
	for _, q := range queues {
		q.refuseBodies(x.gone)
	}
	x.duplicates, x.repeats, x.values, x.gone = nil, nil, nil, nil
	return refused
}

// validateDedup checks what an exchange is to remember. Errors: 406.
func (vh *VHost) validateDedup(d *ExchangeDeclare) error {
	for _, c := range queueArgumentChecks {
		v, ok := given(d.Arguments, c.name)
		if !ok || !slices.Contains(dedupArguments, c.name) {
			continue
		}
		if problem := c.check(v, d.Arguments); problem != "" {
			return amqp.Errorf(amqp.CodePreconditionFailed, 0, "invalid arg '%s' for exchange '%s' in vhost '%s': %s", c.name, d.Name, vh.Name, problem)
		}
	}
	return nil
}
