package broker

import (
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
)

// Pacing. When a queue's consumers could take more than they are given, or
// take very fast already, and a backlog grows all the same, then what is slow
// is the broker, or the machine it shares with its clients. Its publishers are
// then held back a little: the processor's time goes to the consumers, and
// messages that are about to be consumed are not written to disk and read
// again first. (Measured with 16-byte messages, load generator on the same two
// cores: 1.7 times the end-to-end rate, at less than half the memory.)
//
// A queue whose consumers are slow, out of credit or absent holds nobody back:
// absorbing bursts is what queues are for.
const (
	// behindBytes of ready messages make consumers count as behind; at half of
	// it everybody goes on.
	behindBytes = 768 << 10
	// While they are behind, a publisher gets a turn for each turnBytes taken.
	// That is more than one turn of publishing brings, so the backlog shrinks.
	turnBytes = 384 << 10
	// fastBytesPerMs is what consumers take at least to count as fast even when
	// they are not in the ring at the moment: sockets fill up and credit runs
	// out for microseconds.
	fastBytesPerMs = 32 << 10
	// The rate is judged over at least fastWindowMs and holds for fastHoldsMs.
	fastWindowMs = 4
	fastHoldsMs  = 10
)

// Publisher is told when a queue that held it back has been relieved. Like an
// owner it is called without locks, from any goroutine, and must only post.
type Publisher interface {
	Relieved()
}

// pace is what a queue knows of its own speed. Guarded by Queue.mu.
type pace struct {
	taken       uint64 // bytes taken by consumers, ever
	clock       int64  // latest time seen, ms
	windowStart int64
	windowTaken uint64 // taken when the window began
	held        []heldPublisher
	_           [8]byte // to the end of a line of the cache, see usage

	fastUntil   int64
	recordBytes uint64 // average encoded size
	used        int64  // when somebody last published or took, ms
}

// usage is what a queue has once it is used, with all that publishing touches in
// one line of the cache: the end of pace and the beginning of queueCounts.
type usage struct {
	pace
	queueCounts
	_ [16]byte // to a size of whole lines
}

// needPace returns the queue's, making it. An idle queue that was never used has
// none.
func (q *Queue) needPace() *pace {
	if q.pace == nil {
		q.startPace()
	}
	return q.pace
}

// startPace makes the queue's pace, and the counters of its family if they are not
// there yet.
func (q *Queue) startPace() {
	if q.counts != nil {
		q.pace = new(pace)
		return
	}
	u := new(usage)
	q.pace, q.counts = &u.pace, &u.queueCounts
}

// lastTaken is the latest time seen when something was taken, in Unix milliseconds.
func (q *Queue) lastTaken() int64 {
	if q.pace == nil {
		return 0
	}
	return q.pace.clock
}

type heldPublisher struct {
	publisher Publisher
	turn      uint64 // value of taken that makes it this one's turn
}

// published notes a batch; externalBytes are in bodies of their own.
func (p *pace) published(b *segstore.Batch, externalBytes uint64) {
	p.recordBytes = (7*p.recordBytes + (uint64(b.Size())+externalBytes)/uint64(max(b.Count(), 1))) / 8
}

func (p *pace) took(count uint64, now int64) {
	p.taken += count * p.recordBytes
	p.clock, p.used = now, now
	if elapsed := now - p.windowStart; elapsed >= fastWindowMs {
		if p.taken-p.windowTaken >= uint64(elapsed)*fastBytesPerMs {
			p.fastUntil = now + fastHoldsMs
		}
		p.windowStart, p.windowTaken = now, p.taken
	}
}

// behind says that consumers could take, or take fast, and still more than
// limit bytes are ready.
func (q *Queue) behind(limit uint64, now int64) bool {
	return q.pace != nil && (q.ring != nil || now < q.pace.fastUntil && len(q.consumers) > 0) &&
		q.ready()*q.pace.recordBytes > limit
}

// HoldBack asks that p be told when it is its turn; false when consumers are
// not behind (any more). Who holds back must ask StillBehind every few
// milliseconds: nothing else ends it when the consumers stop taking.
func (q *Queue) HoldBack(p Publisher, now int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || !q.behind(behindBytes, now) {
		return false
	}
	turn := q.pace.taken
	if n := len(q.pace.held); n > 0 {
		turn = max(turn, q.pace.held[n-1].turn)
	}
	q.pace.held = append(q.pace.held, heldPublisher{p, turn + turnBytes})
	return true
}

// StillBehind says whether there is still reason to hold p back; if not, p is
// forgotten and goes on by itself.
func (q *Queue) StillBehind(p Publisher, now int64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.deleted && q.behind(behindBytes/2, now) {
		return true
	}
	q.forget(p)
	return false
}

// Forget is for a held publisher that has gone.
func (q *Queue) Forget(p Publisher) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.forget(p)
}

func (q *Queue) forget(p Publisher) {
	if q.pace == nil {
		return
	}
	q.pace.held = slices.DeleteFunc(q.pace.held, func(h heldPublisher) bool { return h.publisher == p })
}

// relieved returns the publishers that may go on.
func (q *Queue) relieved(now int64) []Publisher {
	if q.pace == nil {
		return nil
	}
	held := q.pace.held
	if len(held) == 0 {
		return nil
	}
	n := 0
	if q.behind(behindBytes/2, now) {
		for n < len(held) && held[n].turn <= q.pace.taken {
			n++
		}
	} else {
		n = len(held)
	}
	if n == 0 {
		return nil
	}
	out := make([]Publisher, n)
	for i := range out {
		out[i] = held[i].publisher
	}
	rest := copy(held, held[n:])
	clear(held[rest:])
	q.pace.held = held[:rest]
	return out
}
