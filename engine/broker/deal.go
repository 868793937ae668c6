package broker

// Dealing. Several consumers of one priority that can take get a queue's ready
// messages strictly in turn, as cards are dealt: the next message goes to the one
// behind the one that got the last, however many are ready. What that costs does
// not depend on how many there are. A run of n consecutive offsets that is dealt to
// k consumers is k shares, each with every k-th offset; a share is four numbers in
// its consumer, and what is dealt next makes it longer:
//
//	ready     10 11 12 13 14 15 16 17
//	a's turn   a  b  c  a  b  c  a  b
//	shares    a: 10, 13, 16   b: 11, 14, 17   c: 12, 15   (First, Count, Stride 3)
//
// Who has a share was told so when it got it, fetches it with Take, and encodes it
// on its own loop, beside the others. So there is one wake-up for each share, where
// handing each message on from loop to loop was one for each message.
//
// What is dealt is not ready any more. It is bounded by what the consumers have
// room for (prefetch), and by shareLimit. When the one whose turn it is has as much
// as it may have, the others wait for it to fetch that. It does, at once, unless
// its connection cannot send; then it is passed over (expel). So is one that is out
// of credit. What it has been dealt and has not fetched goes back as if it had
// never been touched: not flagged as redelivered, and first in turn again.
//
// A consumer that is alone in its ring takes as much as it likes when it likes,
// without any of this.
const (
	// shareMax messages at most wait in a share; with fewer, consumers on several
	// loops would wait for each other too often.
	shareMax = 1024
	// dealtMax bounds what the shares have together: acknowledgements of consumers
	// that take turns leave gaps, which the log keeps a window for.
	dealtMax = 32768
	// shareBytesMax of messages, by their average size, wait in a share at most.
	shareBytesMax = 128 << 10
)

// What a watcher of the dealing is told: model tests follow it, under mu.
type dealStep uint8

const (
	stepDealt    dealStep = iota // a run is about to be dealt, beginning with q.ring
	stepUnsent                   // a run has come back unsent
	stepExpelled                 // c has been taken out of its ring
)

func (q *Queue) watched(step dealStep, run Run, c *Consumer) {
	if watch := q.VHost.broker.watchDeals; watch != nil {
		watch(q, step, run, c)
	}
}

// wakes are the consumers to be told after unlocking.
type wakes struct {
	few  [16]*Consumer
	n    int
	more []*Consumer
}

func (w *wakes) add(c *Consumer) {
	if w.n < len(w.few) {
		w.few[w.n] = c
		w.n++
		return
	}
	w.more = append(w.more, c)
}

// tell does, after unlocking, what was decided under the lock.
func (w *wakes) tell(relieved []Publisher) {
	for _, c := range w.few[:w.n] {
		c.Owner.Wake()
	}
	for _, c := range w.more {
		c.Owner.Wake()
	}
	relieve(relieved)
}

// part is run from its i-th message on, n of them.
func (r Run) part(i, n uint64) Run {
	r.First, r.Count = r.offset(i), n
	return r
}

// offset is that of the i-th message.
func (r *Run) offset(i uint64) uint64 { return r.First + i*max(r.Stride, 1) }

// Each calls f for the consecutive offsets that the run is made of.
func (r *Run) Each(f func(first, count uint64)) {
	if r.Stride <= 1 || r.Count == 1 {
		f(r.First, r.Count)
		return
	}
	for i := range r.Count {
		f(r.First+i*r.Stride, 1)
	}
}

// Shift takes n messages off the run's front.
func (r *Run) Shift(n uint64) {
	r.First, r.Count = r.offset(n), r.Count-n
}

// follows says whether n messages of from, stride apart from offset on, can be
// added to the share.
func (r *Run) follows(from *Queue, offset, n, stride uint64, redelivered bool) bool {
	switch {
	case r.Count == 0:
		return true
	case r.Queue != from || r.Redelivered != redelivered || offset <= r.First:
		return false
	case r.Count == 1:
		return n == 1 || offset-r.First == stride
	}
	return offset == r.First+r.Count*r.Stride && (n == 1 || r.Stride == stride)
}

// extend adds them.
func (r *Run) extend(offset, n uint64) {
	if r.Count == 1 {
		r.Stride = offset - r.First
	}
	r.Count += n
}

// grant sees to it that somebody has what is ready: it gives the token to a lone
// consumer, deals to several. by is the one that is being served: it is not told.
// The caller holds mu.
func (q *Queue) grant(by *Consumer, w *wakes) {
	expelled := false
	for q.ring != nil {
		if q.ringLen == 1 {
			if q.ring.blocked {
				q.expel(q.ring)
				expelled = true
				continue
			}
			if c := q.grantToken(); c != nil && c != by {
				w.add(c)
			}
			break
		}
		q.woken = nil
		from := q.top()
		n, at := q.dealable(from)
		if n > 0 {
			q.deal(from.take(n), by, w)
			continue
		}
		if from.ready() == 0 || !at.blocked && (at.room > 0 || at.share.Count > 0) {
			break
		}
		q.expel(at)
		expelled = true
	}
	if expelled {
		q.attend()
	}
}

// dealable is how many messages from the head of a level can be dealt: as far as
// all whose turn comes have room, and shares that the new offsets can be added to.
// When that is few for now, since somebody has not fetched a large share yet, it is
// none: shares would become small, and cost a wake-up and a write each. at is whose
// turn it would be next.
func (q *Queue) dealable(from *Queue) (n uint64, at *Consumer) {
	n, at = from.ready(), q.ring
	if n == 0 {
		return 0, at
	}
	ready, k, limit := n, uint64(q.ringLen), q.shareLimit(from)
	first := from.headOffset()
	redelivered := from.headReturned()
	c := q.ring
	for j := uint64(0); j < min(k, n); j++ {
		room := min(c.room, limit-min(limit, c.share.Count))
		if room*k+j < n {
			n, at = room*k+j, c
		}
		if n <= j {
			break
		}
		if of := (n - j + k - 1) / k; !c.share.follows(from, first+j, of, k, redelivered) {
			n, at = j, c
			if of > 1 && c.share.follows(from, first+j, 1, k, redelivered) {
				n = j + 1
			}
			break
		}
		c = c.next
	}
	if least := limit / 2; n < ready && n < k*least && least > 0 && at.share.Count >= least {
		return 0, at
	}
	return n, at
}

// shareLimit is how many messages may wait in one share.
func (q *Queue) shareLimit(from *Queue) uint64 {
	limit := uint64(min(shareMax, dealtMax/q.ringLen))
	if p := from.pace; p != nil && p.recordBytes > 0 {
		limit = min(limit, shareBytesMax/p.recordBytes)
	}
	return max(limit, 1)
}

// deal distributes a run that was taken.
func (q *Queue) deal(run Run, by *Consumer, w *wakes) {
	q.watched(stepDealt, run, nil)
	run.Queue.clock(&run)
	k := uint64(q.ringLen)
	c, next := q.ring, q.ring
	for j := uint64(0); j < min(k, run.Count); j++ {
		if j < run.Count%k {
			next = c.next // whole rounds leave the turn where it was
		}
		n := (run.Count - j + k - 1) / k
		c.room -= n
		if c.share.Count > 0 {
			c.share.extend(run.First+j, n)
		} else {
			c.share = Run{Queue: run.Queue, First: run.First + j, Count: n, Stride: k, Redelivered: run.Redelivered, Waited: run.Waited}
			run.Waited = 0
			if c != by {
				w.add(c)
			}
		}
		c = c.next
	}
	q.ring = next
}

// takeShare is Take where consumers take turns, or did.
func (q *Queue) takeShare(c *Consumer, limit uint64, now int64) (run Run, more bool) {
	var w wakes
	if n := c.share.Count; n > limit {
		q.unsend(c.share.part(limit, n-limit))
		c.share.Count = limit
	}
	if c.room = limit - c.share.Count; c.Wary {
		c.room = min(c.room, 1)
	}
	if c.share.Count == 0 && limit > 0 {
		q.grant(c, &w)
	}
	var relieved []Publisher
	if run = c.share; run.Count > 0 {
		c.share = Run{}
		relieved = run.Queue.took(run.Count, now)
	} else if q.alone(c) && limit > 0 {
		run, relieved = q.takeAlone(c, limit, now)
	}
	q.grant(c, &w)
	more = c.share.Count > 0 || q.woken == c
	q.mu.Unlock()
	w.tell(relieved)
	return run, more
}

// unsend makes messages that were dealt or taken, and not sent, ready as before;
// the caller holds mu.
func (q *Queue) unsend(run Run) {
	l := run.Queue
	l.unacked -= run.Count
	l.watched(stepUnsent, run, nil)
	if !run.Redelivered && run.Stride <= 1 && run.First+run.Count == l.cursor {
		l.cursor = run.First
		l.log.SetCursor(l.cursor)
		if l.upkeep != nil {
			l.upkeep.entered(run.First, run.Count)
		}
		return
	}
	run.Each(func(first, count uint64) {
		l.returned.Add(first, count)
		if !run.Redelivered {
			if l.unsent == nil {
				l.unsent = new(rangeSet)
			}
			l.unsent.Add(first, count)
		}
		if l.upkeep != nil {
			l.upkeep.entered(first, count)
		}
	})
}

// unshare gives back what c has been dealt and not fetched.
func (q *Queue) unshare(c *Consumer) {
	if c.share.Count > 0 {
		q.unsend(c.share)
		c.share = Run{}
	}
}

// expel takes c, which cannot take, out of its ring, until it comes to Take.
func (q *Queue) expel(c *Consumer) {
	c.able, c.blocked, c.expelled = false, false, true
	q.part(c)
	q.watched(stepExpelled, Run{}, c)
	q.unshare(c)
}

// readmit ends that.
func (q *Queue) readmit(c *Consumer) {
	c.expelled = false
	if c.attached && !c.able {
		c.able = true
		if !q.paused && (!q.single || q.active == c) {
			q.join(c)
		}
	}
}

// Stall says that c cannot Take for now: it waits for the disk, or (blocked) its
// connection cannot send. Among others that take turns it keeps its place, for a
// while; if not, it has left (as by Leave) and the result is true.
func (q *Queue) Stall(c *Consumer, blocked bool) (left bool) {
	q.mu.Lock()
	if !c.inRing || q.ringLen <= 1 || c.Priority != q.ring.Priority {
		q.mu.Unlock()
		q.Leave(c)
		return true
	}
	q.heed(c)
	var w wakes
	if blocked {
		c.blocked = true
		q.grant(nil, &w)
	}
	relieved := q.relieved(q.lastTaken())
	q.mu.Unlock()
	w.tell(relieved)
	return false
}
