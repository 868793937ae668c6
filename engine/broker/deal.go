package broker

// Dealing. Consumers of one priority that can take get a queue's ready messages
// strictly in turn, as cards are dealt: the next message goes to the one behind the
// one that got the last, however many are ready. The one whose turn it is has the
// token; when it comes to Take, it deals: of n consecutive messages each of the k
// consumers in the ring gets every k-th, its own share at once, the others theirs
// when they Take, on their own loops and beside each other:
//
//	ready      10 11 12 13 14 15 16 17
//	a deals     a  b  c  a  b  c  a  b
//	shares     a: 10, 13, 16   b: 11, 14, 17   c: 12, 15   (First, Count, Stride 3)
//
// Then the turn is c's, and there is no token before all have fetched theirs. So
// there is one wake-up for each share, where handing each message on from loop to
// loop would be one for each message.
//
// What is in a share is not ready any more. It is as much as its consumer has room
// for (prefetch), at most. One that runs out of credit gives its share back (Leave),
// and so does one that goes; who cannot send keeps it, as it keeps what it has
// taken, but nobody waits for it (Stall). A consumer that is alone in its ring takes
// what it likes, when it likes.
const (
	// shareMax messages at most are in a share. With less, consumers on several loops
	// would wait for each other too often: with 256, four got 5.8 million messages of
	// 16 bytes a second instead of 8.8.
	shareMax = 4096
	// dealMax is what is dealt at once, to all.
	dealMax = 16384
	// shareBytesMax of them, by their average size.
	shareBytesMax = 128 << 10
	// dealtMax: a queue with more messages unacknowledged is dealt in runs of
	// consecutive messages, a share each: each gap between acknowledged ones takes
	// memory, and consumers that acknowledge at different speeds would leave as many.
	dealtMax = 1 << 18
)

// wakes are consumers to be told after unlocking.
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

func (w *wakes) tell() {
	for _, c := range w.few[:w.n] {
		c.Owner.Wake()
	}
	for _, c := range w.more {
		c.Owner.Wake()
	}
}

// offset is that of the i-th message.
func (r *Run) offset(i uint64) uint64 { return r.First + i*max(r.Stride, 1) }

// Shift takes n messages off the run's front.
func (r *Run) Shift(n uint64) { r.First, r.Count = r.offset(n), r.Count-n }

// Each calls f for the consecutive offsets that the run is made of.
func (r *Run) Each(f func(first, count uint64)) {
	if r.Stride <= 1 || r.Count == 1 {
		f(r.First, r.Count)
		return
	}
	for i := range r.Count {
		f(r.offset(i), 1)
	}
}

// dealable is how many messages of a level the holder of the token may deal now:
// as far as each consumer whose turn comes has room.
func (q *Queue) dealable(from *Queue) (n uint64) {
	k := uint64(q.ringLen)
	share := min(shareMax, max(dealMax/k, 1))
	if q.levels != nil {
		share = max(takeLevelMax/k, 1)
	}
	if p := from.pace; p != nil && p.recordBytes > 0 {
		share = min(share, max(shareBytesMax/p.recordBytes, 1))
	}
	if from.unacked > dealtMax {
		return min(q.ring.room, share)
	}
	n = min(from.ready(), share*k)
	c := q.ring
	for j := uint64(0); j < min(k, n); j++ {
		room := c.room
		if j > 0 && (c.wary || c.share.Count > 0) {
			room = 0
		}
		if room < share {
			n = min(n, room*k+j)
		}
		c = c.next
	}
	return n
}

// deal distributes a run that was taken, and returns the share of the holder of the
// token.
func (q *Queue) deal(run Run, w *wakes) (own Run) {
	k := uint64(q.ringLen)
	own = run
	if run.Queue.unacked-run.Count > dealtMax {
		q.ring = q.ring.next
		return own
	}
	own.Count, own.Stride = (run.Count+k-1)/k, k
	c := q.ring.next
	for j := uint64(1); j < min(k, run.Count); j++ {
		n := (run.Count - j + k - 1) / k
		c.share = Run{Queue: run.Queue, First: run.First + j, Count: n, Stride: k, Redelivered: run.Redelivered}
		c.room -= n
		q.awaited++
		w.add(c)
		c = c.next
	}
	for range run.Count % k {
		q.ring = q.ring.next
	}
	return own
}

// fetch gives c its share, as far as it has credit.
func (q *Queue) fetch(c *Consumer, limit uint64) Run {
	run := c.share
	if run.Count > limit {
		rest := run
		rest.Shift(limit)
		q.unsend(rest)
		q.attend()
		run.Count = limit
	}
	q.dontAwait(c)
	c.share, c.stalled = Run{}, false
	c.room = limit - run.Count
	return run
}

// dontAwait lets others go on without c fetching its share.
func (q *Queue) dontAwait(c *Consumer) {
	if c.share.Count > 0 && !c.stalled {
		c.stalled = true
		q.awaited--
	}
}

// unshare gives back what c has been dealt and not fetched.
func (q *Queue) unshare(c *Consumer) {
	if c.share.Count > 0 {
		q.dontAwait(c)
		q.unsend(c.share)
		c.share, c.stalled = Run{}, false
	}
}
