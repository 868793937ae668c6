package segstore

import "math/bits"

// Stripes. Consumers that take turns at a queue's messages settle every k-th
// offset each, and only together what is next to each other. A window of bits in
// front of the settled intervals takes such offsets: there one costs a bit, where
// an interval of its own costs two searches and a move. What is wholly settled at
// the window's beginning raises the watermark. All else goes to the intervals, as
// the runs that the bits have grown to by then, before anybody looks at those
// (foldStripes): at each tick of the flusher, and when offsets come that are
// outside of the window.
//
// Nobody but this file reads the window; each access to Log.settled and
// Log.pending follows a fold.

// stripeWords bounds what consumers may have from the lowest unsettled offset on
// before intervals take it: 8 KiB, while a log has that much settled in stripes.
const stripeWords = 1024

type stripes struct {
	base  uint64 // offset of the first bit, a multiple of 64
	count int    // bits set
	end   int    // words from here on are 0
	used  bool   // since the last tick
	words []uint64
}

// SettleEvery is Settle for count offsets from first on that are stride apart.
func (l *Log) SettleEvery(first, stride, count uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, low := l.next.Load(), l.low.Load()
	if l.deleted || count == 0 {
		return
	}
	if l.stripes == nil {
		l.stripes = new(stripes)
	}
	w := l.stripes
	w.used = true
	for offset := first; count > 0 && offset < next; offset, count = offset+stride, count-1 {
		if offset < low {
			continue
		}
		if w.count == 0 || !w.covers(offset) {
			l.spillStripes()
			if low = l.low.Load(); offset < low {
				continue
			}
			if w.base = low &^ 63; !w.covers(offset) {
				w.base = offset &^ 63
			}
		}
		w.set(offset)
	}
	for w.count > 0 && w.covers(low) && w.has(low) {
		l.moveLow(w.prefix(low))
		low = l.low.Load()
		w.clearBelow(low)
	}
	l.settledMore()
}

func (w *stripes) covers(offset uint64) bool {
	return offset >= w.base && offset-w.base < stripeWords*64
}

func (w *stripes) set(offset uint64) {
	at, bit := (offset-w.base)/64, uint64(1)<<(offset%64)
	if at >= uint64(len(w.words)) {
		w.words = append(w.words, make([]uint64, max(at+1-uint64(len(w.words)), uint64(len(w.words)), 8))...)
	}
	if w.words[at]&bit == 0 {
		w.words[at] |= bit
		w.count++
		w.end = max(w.end, int(at)+1)
	}
}

func (w *stripes) has(offset uint64) bool {
	return (offset-w.base)/64 < uint64(w.end) && w.words[(offset-w.base)/64]>>(offset%64)&1 != 0
}

// prefix is the first offset from low on whose bit is not set.
func (w *stripes) prefix(low uint64) uint64 {
	at := (low - w.base) / 64
	rest := ^(w.words[at] >> (low % 64)) // shifted in zeros end it
	if n := uint64(bits.TrailingZeros64(rest)); n < 64-low%64 {
		return low + n
	}
	for at++; at < uint64(w.end); at++ {
		if ^w.words[at] != 0 {
			return w.base + at*64 + uint64(bits.TrailingZeros64(^w.words[at]))
		}
	}
	return w.base + at*64
}

// clearBelow forgets the bits below low, and moves the window up when that is far.
func (w *stripes) clearBelow(low uint64) {
	words := min((low-w.base)/64, uint64(w.end))
	for i := range words {
		w.count -= bits.OnesCount64(w.words[i])
		w.words[i] = 0
	}
	if words < uint64(w.end) {
		below := w.words[words] & (1<<(low%64) - 1)
		w.count -= bits.OnesCount64(below)
		w.words[words] &^= below
	}
	if w.count == 0 {
		w.end = 0
	} else if words >= 64 && words >= uint64(w.end)/2 {
		copy(w.words, w.words[words:w.end])
		clear(w.words[uint64(w.end)-words : w.end])
		w.end -= int(words)
		w.base += words * 64
	}
}

// hold says that the window has all of [first, end), which is short.
func (w *stripes) hold(first, end uint64) bool {
	if end-first > 64 {
		return false
	}
	for ; first < end; first++ {
		if !w.covers(first) || !w.has(first) {
			return false
		}
	}
	return true
}

// foldStripesOf is foldStripes for who looks at [first, end) only.
func (l *Log) foldStripesOf(first, end uint64) {
	w := l.stripes
	if w.count == 0 || first >= w.base+uint64(w.end)*64 || end <= w.base || end <= l.low.Load() {
		return
	}
	if end == first+1 && !w.has(first) {
		return
	}
	l.foldStripes()
}

// foldStripes moves what the window holds to the intervals. Called with the log's
// mutex held.
func (l *Log) foldStripes() {
	if l.stripes != nil {
		l.spillStripes()
	}
}

// restStripes is foldStripes at a tick: a window that nobody has used since the
// last one goes.
func (l *Log) restStripes() {
	if w := l.stripes; w != nil {
		if !w.used {
			l.spillStripes()
			l.stripes = nil
			return
		}
		w.used = false
		l.spillStripes()
	}
}

// spillStripes leaves the window empty.
func (l *Log) spillStripes() {
	w := l.stripes
	if w.count == 0 {
		return
	}
	run := interval{}
	flush := func() {
		if run.first < run.end {
			l.settleInterval(run.first, run.end)
		}
	}
	for i, word := range w.words[:w.end] {
		for word != 0 {
			from := uint64(bits.TrailingZeros64(word))
			n := uint64(bits.TrailingZeros64(^(word >> from)))
			first := w.base + uint64(i)*64 + from
			if n = min(n, 64-from); first == run.end && run.first < run.end {
				run.end += n
			} else {
				flush()
				run = interval{first, first + n}
			}
			if from+n == 64 {
				break
			}
			word = word >> (from + n) << (from + n)
		}
	}
	clear(w.words[:w.end])
	w.count, w.end = 0, 0
	flush()
}
