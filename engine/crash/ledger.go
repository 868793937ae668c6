package crash

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Rules say how strictly a cut is judged.
type Rules struct {
	// AckGrace: acks older than this at a cut are on stable storage.
	AckGrace time.Duration
	// Flagged: what comes again after a cut has redelivered set.
	Flagged bool
	// Transactions: atomic across a cut, and durable with their acks from
	// commit-ok on.
	Transactions bool
}

// state is what is known of a message in one queue.
type state uint8

const (
	staged state = iota // in a transaction whose commit was not asked for: must not be seen
	sent                // may be there
	safe                // must be there until acked
	gone                // must not come back
)

type ackState uint8

const (
	notAcked ackState = iota
	ackSent
	ackDone // the broker has processed it
)

// entry is a message in one queue.
type entry struct {
	size       int
	state      state
	ack        ackState
	persistent bool
	durableAck bool // of a transaction that was answered
	lostAck    bool // acked before a cut; may have come back
	held       bool // delivered in this life and neither acked nor given back
	counted    bool // in the queue's depth
	life       int  // published
	lastLife   int  // delivered last; 0: never
	stopLife   int  // delivered again, flagged, while the broker stopped; 0: never
	published, confirmed, delivered,
	ackedAt, doneAt time.Time
	why string // gone
}

// ledger is what the broker owes. All methods may be called by any goroutine.
type ledger struct {
	rules Rules

	mu   sync.Mutex
	life int
	// settled: what is found now outlasts the cuts to come. Not so what a killed
	// broker left in the page cache, if a power cut may come before it is synced.
	settled bool
	start   time.Time
	lastCut time.Time
	// A clean stop is under way: connections are closed one after the other, and
	// what one of them held may go to another.
	stopping bool
	// An outage began and was complete; zero while there is a disk.
	cutBegan, cutDone time.Time
	queues            map[string]*queueLedger
	problems          []string
	kinds             map[string]int // problems by what stands before the colon
	missed            int            // problems beyond those kept
	counts            Counts
}

type queueLedger struct {
	entries map[messageID]*entry
	depth   int // messages that are likely there
	bytes   int
}

// count puts e into the queue's depth or takes it out.
func (q *queueLedger) count(e *entry, in bool) {
	if e.counted == in {
		return
	}
	e.counted = in
	if in {
		q.depth++
		q.bytes += e.size
	} else {
		q.depth--
		q.bytes -= e.size
	}
}

// Counts tell how much a run has tried. Survived were not confirmed before a
// cut, LostAcks were acked; both were there afterwards. Ended were neither
// certain to be there nor were they.
type Counts struct {
	Published, Confirmed, Delivered, Acked, Commits, Rollbacks, Declares int
	Survived, Ended, LostAcks, Audited                                   int
}

// problemsMax bounds the report of a broken run, for each kind of problem.
const problemsMax = 8

// keepGone is for how many lives a finished message is remembered. One that
// comes back later than that is reported as unknown.
const keepGone = 4

func newLedger(rules Rules) *ledger {
	return &ledger{rules: rules, life: 1, start: time.Now(), queues: map[string]*queueLedger{}, kinds: map[string]int{}}
}

// problem notes a broken promise.
func (l *ledger) problem(format string, args ...any) {
	l.mu.Lock()
	l.note(format, args...)
	l.mu.Unlock()
}

func (l *ledger) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	kind, _, _ := strings.Cut(text, ":")
	if l.kinds[kind]++; l.kinds[kind] > problemsMax {
		l.missed++
		return
	}
	l.problems = append(l.problems, text)
}

// story tells what happened to a message, times in seconds since the start.
func (l *ledger) story(queue string, id messageID, e *entry) string {
	s := fmt.Sprintf("message %s of %d bytes in queue %s, life %d, now %d:", id, e.size, queue, e.life, l.life)
	for _, step := range []struct {
		name string
		at   time.Time
	}{{"published", e.published}, {"confirmed", e.confirmed}, {"delivered last", e.delivered}, {"ack sent", e.ackedAt}, {"ack processed", e.doneAt}} {
		if !step.at.IsZero() {
			s += fmt.Sprintf(" %s %.4f", step.name, step.at.Sub(l.start).Seconds())
		}
	}
	if e.lastLife > 0 {
		s += fmt.Sprintf(" (delivered in life %d)", e.lastLife)
	}
	if !e.persistent {
		s += " transient"
	}
	return fmt.Sprintf("%s; last cut %.4f %s", s, l.lastCut.Sub(l.start).Seconds(), e.why)
}

func (l *ledger) queue(name string) *queueLedger {
	q := l.queues[name]
	if q == nil {
		q = &queueLedger{entries: map[messageID]*entry{}}
		l.queues[name] = q
	}
	return q
}

// full says whether a publisher should wait.
func (l *ledger) full(queues []string, depth, bytes int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range queues {
		if q := l.queue(name); q.depth >= depth || q.bytes >= bytes {
			return true
		}
	}
	return false
}

// publish notes a message that is about to be sent.
func (l *ledger) publish(queues []string, id messageID, size int, persistent bool, s state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Published++
	now := time.Now()
	for _, name := range queues {
		q := l.queue(name)
		e := &entry{size: size, state: s, persistent: persistent, life: l.life, published: now}
		q.entries[id] = e
		q.count(e, true)
	}
}

// confirm notes that the broker answers for a message.
func (l *ledger) confirm(queues []string, id messageID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Confirmed++
	for _, name := range queues {
		e := l.queue(name).entries[id]
		e.confirmed = time.Now()
		switch {
		case !e.persistent || e.state == gone:
		case !l.cutBegan.IsZero(): // see answered
			if l.impossible(e.published) && e.ack == notAcked {
				l.note("invariant 10: confirmed without a disk: %s", l.story(name, id, e))
			}
		default:
			e.state = safe
		}
	}
}

// stop notes that the broker is about to be told to stop.
func (l *ledger) stop() {
	l.mu.Lock()
	l.stopping = true
	l.mu.Unlock()
}

// outage notes that the disk is about to go, and that it is gone.
func (l *ledger) outage(done bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if done {
		l.cutDone = time.Now()
	} else {
		l.cutBegan = time.Now()
	}
}

// answered judges the answer to a request that was sent at the given time: it
// reports false if it proves nothing. A sync that the end of the disk overtakes
// may return without an error, and the broker cannot know; after a real power
// cut nobody would hear of it. What was sent to a broker without a disk and needs
// one must not be answered.
func (l *ledger) answered(sent time.Time, needsDisk bool, what string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if needsDisk && l.impossible(sent) {
		l.note("invariant 10: answered without a disk: %s", what)
	}
	return l.cutBegan.IsZero()
}

func (l *ledger) impossible(sent time.Time) bool {
	return !l.cutDone.IsZero() && sent.After(l.cutDone)
}

// end makes a message one that must not be seen again.
func (q *queueLedger) end(e *entry, why string) {
	if e.state == gone {
		return
	}
	q.count(e, false)
	e.state, e.why = gone, why
}

// deliver judges a delivery; order is the memory of the consumer it went to.
func (l *ledger) deliver(queue string, id messageID, redelivered bool, order map[uint16]uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Delivered++
	e := l.queue(queue).entries[id]
	if e == nil {
		l.note("invariant 4: message %s in queue %s was never published there, or ended long ago", id, queue)
		return
	}
	again := e.lastLife == l.life
	switch {
	case e.state == gone:
		l.note("invariant 2: it is over, but comes again (redelivered=%t): %s", redelivered, l.story(queue, id, e))
	case e.state == staged:
		l.note("invariant 4: not committed: %s", l.story(queue, id, e))
	case l.stopping && redelivered && e.ack != ackDone:
		e.stopLife = l.life
	case l.stopping && !redelivered && e.ack != ackDone && e.stopLife == l.life:
		// What another connection was sent before, and reads only now.
	case e.ack != notAcked || e.held:
		l.note("invariant 5: delivered twice (redelivered=%t): %s", redelivered, l.story(queue, id, e))
	case again && !redelivered:
		l.note("invariant 5: given back, but not flagged: %s", l.story(queue, id, e))
	case e.lastLife > 0 && !redelivered && l.rules.Flagged:
		l.note("invariant 3: delivered before the cut, but not flagged (ack lost: %t): %s", e.lostAck, l.story(queue, id, e))
	}
	if !redelivered {
		if last := order[id.publisher]; last >= id.sequence {
			l.note("invariant 6: message %d of the publisher came before: %s", last, l.story(queue, id, e))
		}
		order[id.publisher] = id.sequence
	}
	l.queue(queue).count(e, true)
	l.seen(e)
	e.held = true
}

// seen notes that a message is there.
func (l *ledger) seen(e *entry) {
	if e.lostAck {
		l.counts.LostAcks++
	}
	e.lostAck = false
	e.lastLife = l.life
	e.delivered = time.Now()
	if e.state == sent && e.life < l.life && l.settled {
		e.state = safe
		l.counts.Survived++
	}
}

// giveBack notes that a delivery is about to be returned to its queue.
func (l *ledger) giveBack(queue string, ids ...messageID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if e := l.queue(queue).entries[id]; e != nil {
			e.held = false
		}
	}
}

// acking notes acks that are about to be sent.
func (l *ledger) acking(queue string, ids ...messageID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	q := l.queue(queue)
	for _, id := range ids {
		e := q.entries[id]
		if e == nil || e.state == gone {
			continue
		}
		q.count(e, false)
		e.ack, e.held, e.ackedAt = ackSent, false, time.Now()
	}
}

// acked notes acks that the broker has processed. durable: by a transaction.
func (l *ledger) acked(queue string, durable bool, ids ...messageID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if e := l.queue(queue).entries[id]; e != nil && e.state != gone {
			l.counts.Acked++
			e.ack, e.doneAt, e.durableAck = ackDone, time.Now(), durable
		}
	}
}

// cut begins the next life: the broker was taken down at that moment. settled
// as in ledger.
func (l *ledger) cut(at time.Time, settled bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled, l.lastCut = settled, at
	l.cutBegan, l.cutDone, l.stopping = time.Time{}, time.Time{}, false
	for _, q := range l.queues {
		for id, e := range q.entries {
			e.held = false
			switch {
			case e.state == gone:
				if e.life+keepGone < l.life && e.lastLife+keepGone < l.life {
					delete(q.entries, id)
				}
			case e.state == staged:
				q.end(e, "never committed")
			case e.ack == ackDone && (e.durableAck && l.rules.Transactions || at.Sub(e.doneAt) > l.rules.AckGrace):
				q.end(e, fmt.Sprintf("acked by a commit, or long before the cut at %.3f", at.Sub(l.start).Seconds()))
			case e.ack != notAcked:
				// It may come again: as good as an unconfirmed one, but flagged.
				e.ack, e.durableAck, e.state, e.lostAck = notAcked, false, sent, true
			}
		}
	}
	l.life++
}
