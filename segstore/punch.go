package segstore

import (
	"slices"
)

// Giving back the space of settled records. A segment goes when all of it is
// settled; one unsettled record in it keeps the file. So what is settled is cut
// out of sealed segments as holes (hole.go): by whole batches, and of these
// whole blocks of the file system. What stays of 64 MiB with one unsettled record
// is the record's batch, and a block or two at each hole.
//
//  1. At a sync tick the flusher looks at the logs that something was settled in
//     since they were looked at, at a bounded number of segments each: how much
//     of a segment is settled in runs worth a hole, estimated from the offsets
//     alone. When that has grown by Options.PunchBytes, and a 16th of the segment,
//     since the last time (segment.gained), it takes down these runs as a punch.
//     The part below the watermark counts only while the watermark stands still:
//     otherwise the whole segment goes soon. The last segment is sealed for this
//     when nothing was appended for a sync interval.
//  2. When the round of that tick is synced, and with it all entries of the
//     journal that settle the runs, the punch goes to the puncher (puncher.go), a
//     goroutine of its own: all that follows may take its time.
//  3. It finds the batches inside the runs, reading only the parts of the
//     segment where settled and unsettled ones are mixed, writes the marks, syncs
//     the file, punches, and syncs it again.
//  4. The settled file remembers what was looked for, so that a reopened store
//     does not do it again.
//
// What it rests on: offsets never become unsettled, marks lie in one sector, and
// the journal and the settled file keep what is settled until the segment goes.
// A mark is written only when the settling of all offsets in it is on stable
// storage, blocks are punched only when the mark is. So after a crash there are,
// in any mixture and both harmless, batches that are settled and marks; and
// behind a mark nobody looks. A reader that comes by an index entry to a place
// inside a hole, where nothing is readable, asks inHole, and so tells a hole from
// damage. A file is never written behind its batches, nor while it is unsealed.
//
// A failure costs space and no records: nothing is fenced, the hole is not
// made or stays a mark. A file system without holes is told of once.

// punching is what a log remembers of it. Guarded by the log's mutex.
type punching struct {
	wanted bool   // something was settled since all segments were looked at
	from   uint64 // segments below were, in this turn
	low    uint64 // the watermark as the last sync tick saw it
	quiet  uint64 // and Next
	next   *punch // decided, and its round not yet known to be synced
}

// punch is the order to make holes in a segment.
type punch struct {
	log     *Log
	segment *segment
	settled []interval // in order
	gain    int64
	round   uint64 // of the journal's last entry that settles one of them
}

const (
	punchSegmentsMax = 64      // segments of a log looked at in one sync tick
	punchRangesMax   = 1 << 16 // and ranges of settled offsets
	punchRunsMax     = 8192    // ranges in one punch
	punchesMax       = 2       // punches under way: a second's worth, so as not to crowd the disk
	punchShare       = 16      // the part of a segment that is worth a punch
)

// runBytesMin is the estimated length of settled batches that may be worth a
// hole.
func (s *Store) runBytesMin() int64 {
	if s.o.PunchBytes < 4*allocBytes {
		return allocBytes + holeBytes
	}
	return 4 * allocBytes
}

// enterPunch looks for a segment with space to give back. Called with the log's
// mutex held, when what is settled has entered the round.
func (l *Log) enterPunch(r *round, p pass) {
	k, s := &l.punch, l.store
	if !k.wanted || !p.sync || p.final || k.next != nil {
		return
	}
	if s.puncher.unsupported.Load() || len(l.segments) == 0 {
		k.wanted = false
		return
	}
	low := l.low.Load()
	stuck, quiet := low == k.low, l.next.Load() == k.quiet
	k.low, k.quiet = low, l.next.Load()
	if l.txSettlePending() || !l.transient && l.logged.low != low || !s.puncher.room() {
		return // another time
	}
	again := !stuck
	segments, ranges := 0, 0
	for _, seg := range l.segments {
		if seg.base < k.from || seg.dead || seg.punching {
			again = again || seg.punching
			continue
		}
		if !seg.sealed || seg.footerDirty {
			again = l.sealQuiet(seg, stuck, quiet) || again
			break
		}
		if segments++; segments > punchSegmentsMax || ranges > punchRangesMax {
			return // from here on at the next tick
		}
		k.from = seg.next
		if iv, ok := l.pending.after(seg.base); ok && iv.first < seg.next {
			again = true
			continue
		}
		runs, gain, seen := l.punchable(seg, stuck)
		ranges += seen
		if !s.worthPunch(seg, gain) {
			continue
		}
		seg.punching = true
		k.next = &punch{log: l, segment: seg, settled: runs, gain: gain, round: r.number}
		if l.transient {
			k.next.round = 0
		}
		return
	}
	k.from, k.wanted = 0, again
}

// sealQuiet closes the last segment if there is something to give back in it and
// nothing is appended any more: only sealed ones get holes. It reports whether it
// may be worth a look at the next sync tick.
func (l *Log) sealQuiet(seg *segment, stuck, quiet bool) (again bool) {
	if seg.full || seg.end < l.store.tune.sealBytes || seg.size != seg.end {
		return seg.full
	}
	if _, gain, _ := l.punchable(seg, stuck); !l.store.worthPunch(seg, gain) {
		return false
	}
	seg.full = quiet
	return true
}

// worthPunch says that a gain has grown enough since the last time.
func (s *Store) worthPunch(seg *segment, gain int64) bool {
	return gain-seg.gained >= max(s.o.PunchBytes, (seg.size-segmentHeaderBytes)/punchShare)
}

// punchable returns the ranges of settled offsets in the segment that may be
// worth a hole each, the bytes they may give back together, and how many ranges
// it looked at. All estimates are made of offsets, sealed sizes and nothing else,
// so that they are the same after a restart.
func (l *Log) punchable(seg *segment, stuck bool) (runs []interval, gain int64, seen int) {
	perOffset := float64(seg.size-segmentHeaderBytes) / float64(max(seg.next-seg.base, 1))
	least := l.store.runBytesMin()
	add := func(iv interval) bool {
		seen++
		if bytes := int64(float64(iv.end-iv.first) * perOffset); bytes >= least {
			runs = append(runs, iv)
			gain += bytes - min(2*allocBytes, bytes/2)
		}
		return len(runs) < punchRunsMax && seen < punchRangesMax
	}
	if low := l.low.Load(); low > seg.base && stuck {
		add(interval{seg.base, min(low, seg.next)})
	}
	l.settled.within(seg.base, seg.next, add)
	return runs, gain, seen
}

// startPunch hands the punch over when all it rests on is durable. Called with
// the log's mutex held.
func (l *Log) startPunch() {
	k := &l.punch
	if k.next == nil || k.next.round > l.store.flusher.syncedRound.Load() {
		return
	}
	if !l.store.submitPunch(k.next) {
		k.next.segment.punching = false
	}
	k.next = nil
}

// endPunch takes note of a punch that is over. done: there is no use in another
// one for the same gain.
func (s *Store) endPunch(p *punch, done bool) {
	l, seg := p.log, p.segment
	l.mu.Lock()
	defer l.mu.Unlock()
	seg.punching = false
	if done {
		seg.gained, l.stale = p.gain, true
	}
}

// holdPunches notes holes before they are made, so that nobody takes for damage
// what is seen meanwhile, and returns those there were. It reports false when the
// segment is given up, or its log must not be written to any more.
func (p *punch) holdPunches(holes []hole) (before []hole, ok bool) {
	l, seg := p.log, p.segment
	l.mu.Lock()
	defer l.mu.Unlock()
	if !p.writable() {
		return nil, false
	}
	before = seg.punched
	after := slices.Clone(before)
	for _, h := range holes {
		after = putHole(after, h)
	}
	seg.punched = after
	return before, true
}

// writable says that the punch may go on. Called with the log's mutex held.
func (p *punch) writable() bool {
	return !p.log.deleted && p.log.err == nil && !p.segment.removed && !p.segment.dead
}
