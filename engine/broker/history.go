package broker

import (
	"errors"
	"slices"
	"time"

	"github.com/basaltmq/basaltmq/engine/broker/schedule"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// A recent history exchange is a fanout that keeps the last messages published
// to it, and gives them to whatever is bound to it later.
//
// What it keeps them in is a queue that is in no name space: Route adds it to a
// message's queues, behind all others, so publishing, confirms, transactions and
// large bodies need to know nothing of it. That queue drops its oldest message
// for each one over its bound, has no consumers, and is durable if the exchange
// is: the messages survive a restart with it.
//
// A new binding gets the history before it takes effect, so that the messages
// come in order. Reading may wait for the disk: Bind then does, without locks.
// Publishers do not wait for it; if they keep the history growing faster than
// it is read, then after replayRounds the binding is made first, and the last
// part of the history may come behind newer messages.

// historyLengthDefault is how many messages a recent history exchange keeps when
// its declaration does not say.
const historyLengthDefault = 20

// replayRounds is how often a binding waits for what came while it was reading.
const replayRounds = 3

// Hidden says that a queue keeps messages for an exchange: no client knows it.
func (q *Queue) Hidden() bool { return q.hidden != nil }

// hidden is what a queue has that no client sees: one that keeps messages of an
// exchange for later bindings, or until they are due.
type hidden struct {
	keep uint64 // > 0: so many messages are kept, and it delays none

	delays      *schedule.Schedule // see delayed.go
	source      *Exchange          // whose messages are delayed
	scheduleID  uint64
	scheduleLog *segstore.Log
}

// keeps is how many messages a history keeps; 0: it is none.
func (q *Queue) keeps() uint64 {
	if q.hidden == nil {
		return 0
	}
	return q.hidden.keep
}

// schedules returns the log of when delayed messages are due, and its id; of other
// queues nothing.
func (q *Queue) schedules() (id uint64, log *segstore.Log) {
	if q.hidden == nil {
		return 0, nil
	}
	return q.hidden.scheduleID, q.hidden.scheduleLog
}

// delayed says that the queue has delayed messages.
func (q *Queue) delayed() bool { return q.hidden != nil && q.hidden.scheduleID != 0 }

// Nowhere says that a route leads to no queue but an exchange's history: the
// message is unroutable. One that is delayed is not.
func Nowhere(queues []*Queue) bool { return len(queues) == 0 || queues[0].keeps() > 0 }

// historyLength is how many messages an exchange with these arguments keeps.
func historyLength(arguments amqp.Table) uint64 {
	if v, ok := arguments.Lookup(argHistoryLength); ok {
		if n, ok := v.Int64(); ok && n > 0 {
			return uint64(n)
		}
	}
	return historyLengthDefault
}

// newHistory makes the queue of an exchange that keeps messages, without a log.
func (vh *VHost) newHistory(e *Exchange, id uint64) *Queue {
	q := newQueue(vh, &QueueDeclare{Name: "history of exchange " + e.Name, Durable: e.Durable}, id)
	q.hidden = &hidden{keep: historyLength(e.Arguments)}
	return q
}

// openHistory opens the log of e's history.
func (vh *VHost) openHistory(e *Exchange) error {
	q := e.history
	log, err := vh.broker.store.OpenLog(q.ID, segstore.LogOptions{Transient: !q.Durable})
	if err != nil {
		return err
	}
	q.log = log
	if err := q.partUnread(); err != nil {
		q.shut(err)
		return nil
	}
	q.adoptHistory()
	return nil
}

// adoptHistory gives q what is in its log.
func (q *Queue) adoptHistory() {
	q.mu.Lock()
	if q.deleted {
		q.mu.Unlock()
		return
	}
	q.recover(true)
	ids := q.trim()
	q.unread = nil
	q.mu.Unlock()
	q.RemoveBodies(ids)
}

// trim settles what a hidden queue has beyond its bound; the caller holds mu and
// removes the bodies.
func (q *Queue) trim() (ids []uint64) {
	for {
		unsettled := q.log.Unsettled()
		if unsettled <= q.hidden.keep {
			return ids
		}
		first, count := q.log.NextUnsettled(q.log.Low(), unsettled-q.hidden.keep)
		if count == 0 {
			return ids
		}
		ids = append(ids, q.settle(first, count)...)
	}
}

// keepsNot says that a message is not to be kept.
func (r *router) keepsNot() bool {
	v, _ := r.decode().Headers.Lookup("x-recent-history-no-store")
	no, ok := v.Bool()
	return ok && no
}

// Replays says that Bind to a source may have to wait for the disk.
func (vh *VHost) Replays(source string) bool {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	e := vh.exchanges[source]
	return e != nil && e.history != nil
}

// replay brings a destination what a history holds. It belongs to one goroutine.
type replay struct {
	history *Queue
	to      Dest
	next    uint64 // offset up to which the destination has everything
	reader  *segstore.Reader
	woken   chan struct{}

	// Records on their way, all to the same queues.
	batch    *segstore.Batch
	external []BodyAt
	queues   []*Queue
	refBytes []byte
	expiring bool // some have expirations of their own
}

// errStopping ends a replay because the broker is being closed.
var errStopping = errors.New("broker: it is being closed")

func newReplay(history *Queue, to Dest) *replay {
	return &replay{
		history: history, to: to, reader: history.log.NewReader(), woken: make(chan struct{}, 1),
		batch: history.VHost.broker.store.NewBatch(),
	}
}

func (r *replay) close() {
	if r != nil {
		r.reader.Close()
		r.batch.Release()
	}
}

// upTo brings the records below end. What cannot be read is left out.
func (r *replay) upTo(end uint64) error {
	h := r.history
	for r.next < end {
		first, count := h.log.NextUnsettled(r.next, end-r.next)
		if count == 0 || first >= end {
			r.next = end
			break
		}
		r.next = first
		err := r.reader.Seek(first, func() { r.woken <- struct{}{} })
		if errors.Is(err, segstore.ErrNotResident) {
			select {
			case <-r.woken:
			case <-h.VHost.broker.replays.stopping:
				return errStopping
			}
			continue
		}
		if next, ok := missing(err); ok {
			h.mu.Lock()
			ids := h.settle(first, next-first)
			h.mu.Unlock()
			h.RemoveBodies(ids)
			continue
		}
		var record segstore.Record
		if err == nil && r.reader.Next(&record) {
			err = r.add(&record)
		}
		if err != nil {
			h.VHost.broker.logger.Error("a message of a recent history exchange cannot be read: a new binding does not get it",
				"queue", h.Name, "vhost", h.VHost.Name, "err", err)
		}
		r.next = first + 1
	}
	r.flush()
	return nil
}

// add puts a record into the batch for the queues it goes to.
func (r *replay) add(record *segstore.Record) error {
	t := r.reader.Template(record.Template)
	queues := []*Queue{r.to.Queue}
	if e := r.to.Exchange; e != nil {
		vh := r.history.VHost
		vh.mu.RLock()
		queues = vh.routeFrom(e, Envelope{RoutingKey: t.RoutingKey, Properties: t.Properties}, nil)
		vh.mu.RUnlock()
	}
	if len(queues) == 0 {
		return nil
	}
	if r.batch.Count() > 0 && !slices.Equal(queues, r.queues) {
		r.flush()
	}
	if r.batch.Count() == 0 {
		r.begin(queues)
	}
	body := record.Body
	var ref bodies.Ref
	external := IsExternal(t.Properties)
	if external {
		var err error
		if ref, err = r.link(record.Body, t.Properties); err != nil {
			if errors.Is(err, bodies.ErrDamaged) {
				return nil // it has just been dropped from the history
			}
			return err
		}
		body = ref.Append(r.refBytes[:0])
	}
	template := r.batch.Template(t.Exchange, t.RoutingKey, t.Properties)
	if template < 0 {
		r.flush()
		r.begin(queues)
		template = r.batch.Template(t.Exchange, t.RoutingKey, t.Properties)
	}
	r.batch.Add(template, body)
	r.expiring = r.expiring || Expiration(t.Properties) != NoDeadline
	if external {
		r.external = append(r.external, BodyAt{Index: r.batch.Count() - 1, Ref: ref})
	}
	if r.batch.Size() >= segstore.BatchBytesTarget {
		r.flush()
	}
	return nil
}

// begin starts a batch: its messages are new to these queues, so their time is now.
func (r *replay) begin(queues []*Queue) {
	r.queues = queues
	r.batch.Reset(time.Now().UnixMilli())
}

// link names an external body for the queues.
func (r *replay) link(body, properties []byte) (bodies.Ref, error) {
	ref, ok := bodies.DecodeRef(body)
	if !ok {
		return bodies.Ref{}, errors.New("broker: the reference to its body is damaged")
	}
	dirs := make([]bodies.Dir, len(r.queues))
	for i, q := range r.queues {
		dirs[i] = q.BodyDir()
	}
	return r.history.VHost.broker.bodies.Link(r.history.BodyDir(), ref, dirs, amqp.DeliveryMode(properties) == 2)
}

// flush appends the batch to its queues.
func (r *replay) flush() {
	if r.batch.Count() == 0 {
		return
	}
	first := false
	for _, q := range r.queues {
		first = r.expiring && q.ExpectExpirations() || first
	}
	var tx *segstore.Tx
	if first {
		tx = r.history.VHost.broker.store.Begin()
		defer tx.End()
	}
	for _, q := range r.queues {
		end, _, err := q.Publish(r.batch, time.Now().UnixMilli(), r.external...)
		inLog := uint64(r.batch.Count())
		if full := (*Overflow)(nil); errors.As(err, &full) {
			inLog = uint64(full.Appended)
		}
		if tx != nil && end > 0 && inLog > 0 {
			tx.Appended(q.log, end-inLog, end)
		}
		if err != nil {
			q.VHost.broker.logger.Error("a queue takes no messages of a recent history exchange", "queue", q.Name, "vhost", q.VHost.Name, "err", err)
		}
	}
	r.batch.Reset(0)
	r.external, r.expiring = r.external[:0], false
}

// bindReplaying is Bind for a source with a history.
func (vh *VHost) bindReplaying(b Binding, owner any) (seq uint64, err error) {
	if !vh.broker.replays.begin() {
		return 0, errStopping
	}
	defer vh.broker.replays.end()
	var r *replay
	defer func() { r.close() }()
	for round := 0; ; round++ {
		vh.mu.Lock()
		source, d, err := vh.ends(&b, owner)
		if err == nil {
			err = source.validateBinding(&b)
		}
		if err != nil {
			vh.mu.Unlock()
			return 0, err
		}
		h := source.history
		end := uint64(0)
		if h != nil {
			end = h.log.Next()
		}
		if r != nil && (r.history != h || r.to != d) { // deleted and declared anew meanwhile
			r.close()
			r = nil
		}
		caughtUp := h == nil || vh.isBound(source, d, &b) || r != nil && r.next >= end
		if caughtUp || round >= replayRounds {
			seq := vh.bindRecorded(source, d, &b)
			vh.mu.Unlock()
			if !caughtUp {
				if r == nil {
					r = newReplay(h, d)
				}
				err = r.upTo(end)
			}
			return seq, err
		}
		vh.mu.Unlock()
		if r == nil {
			r = newReplay(h, d)
		}
		if err := r.upTo(end); err != nil {
			return 0, err
		}
	}
}
