package segstore

import (
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// job is what one wave does for one log's files: decided under the log's mutex
// by plan, carried out without it, concluded under it.
type job struct {
	log      *Log
	extents  []extent
	acks     []byte     // a whole new settled file
	acksFile disk.File  // it, under its temporary name
	sync     bool       // sync the unsynced segments
	footers  bool       // and the footers
	dead     []*segment // wholly settled: remove
	sealing  []*segment // get their footer in this wave
	remove   bool       // the log was deleted
	err      error
	handles  []*handle
	wrote    uint64 // base + 1 of a segment, see noteWrites
}

// extent is a run of batches in one chunk that goes to one place of a segment.
type extent struct {
	segment *segment
	pos     int64
	buf     *arena.Buf // retained
	data    []byte
}

// reset empties the job for another log, keeping its slices.
func (j *job) reset(l *Log) {
	clear(j.extents)
	clear(j.dead)
	clear(j.sealing)
	clear(j.handles)
	*j = job{log: l, extents: j.extents[:0], acks: j.acks[:0], dead: j.dead[:0], sealing: j.sealing[:0], handles: j.handles[:0]}
}

// pointless says that the log was deleted meanwhile: its files need nothing more.
func (j *job) pointless() bool {
	if j.log == nil { // the journal's
		return false
	}
	j.log.mu.Lock()
	defer j.log.mu.Unlock()
	return j.log.deleted
}

// pass says what kind of visit a cycle is.
type pass struct {
	tick  bool // a flush interval has passed since the previous tick
	sync  bool // a sync interval has passed
	short bool // memory is getting short: transient logs are written too
	final bool // Close: everything goes out
	step  bool // the checkpoint goes on
	all   bool // and must finish: both files of the journal are full
}

// plan decides what to write to the log's files, what to sync and to remove.
// It reports whether there is anything to do. Called with the log's mutex held.
func (l *Log) plan(j *job, p pass) (busy bool) {
	j.reset(l)
	o := &l.journaled
	switch {
	case l.deleted:
		j.remove, l.gone = !l.gone, true
		o.segmentTo, o.bypassTo, o.acks = 0, 0, nil
		return j.remove
	case l.err != nil && l.err != ErrClosed:
		o.segmentTo, o.bypassTo, o.acks = 0, 0, nil
		return false
	}
	l.choose(j, o.segmentTo)
	o.segmentTo, o.bypassTo = 0, 0
	if n := len(l.segments); p.final && n > 0 && l.segments[n-1].end >= l.store.tune.sealBytes {
		l.segments[n-1].full = true // the next start reads its trailer instead of all of it
	}
	l.takeDead(j)
	l.planSettled(j)
	l.planSync(j, p)
	return len(j.extents) > 0 || len(j.acks) > 0 || j.sync || len(j.dead) > 0 || l.sealable()
}

// releaseQuietTail gives up the open chunk when all of it is settled; called
// when nothing was appended between two ticks.
func (l *Log) releaseQuietTail() {
	if l.tail != nil && l.tailSettled() {
		l.closeTail()
		l.class = 0
	}
}

func (l *Log) tailSettled() bool {
	return l.isSettled(l.tail.base, l.tail.next)
}

// eligible is the offset below which unsettled batches are to be written now.
func (l *Log) eligible(p pass, agedBefore uint64) uint64 {
	bound := uint64(0)
	if l.unwritten > l.store.tune.fullBytes && l.fullUnwritten() > l.store.tune.fullBytes {
		bound = l.next.Load()
		if l.tail != nil {
			bound = l.tail.base
		}
	}
	switch {
	case l.transient && (!p.tick || !p.short):
		return bound
	case p.final:
		return l.next.Load()
	case p.tick:
		bound = max(bound, agedBefore)
	}
	if want := l.want.Load(); want > l.durable.Load() && !l.transient {
		bound = max(bound, want)
	}
	return bound
}

// planSettled takes the settled file that enterReap has made.
func (l *Log) planSettled(j *job) {
	o := &l.journaled
	if l.transient {
		return
	}
	if l.acks == nil && (len(l.segments) > 0 || o.acks != nil) {
		l.acks = new(settledFile)
	}
	if o.acks != nil {
		j.acks, o.acks = *o.acks, nil
		l.acks.entrySynced = false
	}
}

// planSync decides whether files have to be synced. Batches that the journal
// has too wait for the checkpoint, unless they are many.
func (l *Log) planSync(j *job, p pass) {
	o := &l.journaled
	if l.transient {
		return
	}
	wanted := l.want.Load() > l.durable.Load() && !l.store.o.DurabilityOS
	j.footers = p.sync || p.final
	unsynced, bare, many := l.unsynced()
	j.sync = wanted && bare || p.sync && (bare || many) || (o.syncAll || p.final) && unsynced ||
		j.footers && l.footersDirty() || len(j.acks) > 0
	o.syncAll = false
}

// unsynced reports whether a segment has something that is not on stable
// storage, whether some of that is not in the journal either, and whether it is
// much or stands in the way of a trailer.
func (l *Log) unsynced() (any, bare, many bool) {
	for i := len(l.segments) - 1; i >= 0; i-- {
		s := l.segments[i]
		if s.sealed {
			break // it was synced before it was sealed, and those before it too
		}
		any = any || s.unsynced || !s.entrySynced
		bare = bare || s.bare
		many = many || s.unsynced && (s.full || s.unsyncedBytes >= l.store.tune.bypassBytes)
	}
	return any, bare, many
}

// bare reports whether a segment has something that is neither on stable storage
// nor in the journal. Unlike unsynced it may be asked while the filer is at work.
func (l *Log) bare() bool {
	for i := len(l.segments) - 1; i >= 0 && !l.segments[i].sealed; i-- {
		if l.segments[i].bare {
			return true
		}
	}
	return false
}

// sealable reports whether a segment waits for nothing but its footer.
func (l *Log) sealable() bool {
	for i := len(l.segments) - 1; i >= 0 && !l.segments[i].sealed; i-- {
		if s := l.segments[i]; s.full && s.created && (!s.unsynced || l.transient) {
			return true
		}
	}
	return false
}

// footersDirty reports whether a sealed segment's footer needs a sync.
func (l *Log) footersDirty() bool {
	for i := len(l.segments) - 1; i >= 0; i-- {
		if s := l.segments[i]; s.sealed {
			return s.footerDirty
		}
	}
	return false
}

// promote raises Durable to what is known to be durable now.
func (l *Log) promote() (moved bool) {
	if l.transient {
		return false
	}
	durable := l.low.Load()
	if o := &l.journaled; o.bypassTo == 0 {
		if l.store.isSynced(o.round) && (l.store.o.DurabilityOS || !l.bare()) {
			durable = max(durable, l.handled())
		}
	}
	if durable <= l.durable.Load() {
		return false
	}
	l.durable.Store(durable)
	return true
}

// relist puts the log on the lists of what it still needs.
func (l *Log) relist() {
	left := len(l.chunks) > 0 && l.chunks[len(l.chunks)-1].saved < l.chunks[len(l.chunks)-1].used
	settledTail := l.tail != nil && l.tailSettled()
	switch {
	case left && l.transient && !settledTail:
		l.list(listParked)
	case left || settledTail || l.reap && !l.filing || l.changed && !l.transient && l.owns():
		l.list(listDirty)
	}
	if l.heldBytes.Load() > 0 {
		l.list(listHeld)
	}
	if l.filing {
		if l.journaled.round > l.store.flusher.syncedRound.Load() {
			l.list(listSlow)
		}
		return // the filer does the rest
	}
	_, bare, many := l.unsynced()
	slow := len(l.segments) > 0 && (l.unsettled() == 0 || !l.transient && (bare || many || l.footersDirty()))
	for i := len(l.segments) - 1; i >= 0 && !slow && !l.segments[i].sealed; i-- {
		slow = l.segments[i].full
	}
	if slow || l.punch.wanted || !l.transient && l.journaled.round > l.store.flusher.syncedRound.Load() {
		l.list(listSlow)
	}
}

// conclude takes note of what the wave did. Called with the log's mutex held.
func (l *Log) conclude(j *job) {
	if l.deleted {
		return
	}
	if j.err != nil {
		l.fence(j.err)
		l.err = j.err
		return
	}
	for _, e := range j.extents {
		e.segment.written()
	}
}

// finish publishes what the round did for the log: its entries are written, or
// even synced, and its files are concluded or not yet touched. Called with the
// log's mutex held.
func (l *Log) finish() (moved bool) {
	if l.journaled.bypassTo == 0 {
		l.writtenOff(l.inFlight)
		l.inFlight = 0
	}
	if l.deleted || l.err != nil && l.err != ErrClosed {
		return true
	}
	return l.settleDown()
}

// settleDown publishes what is durable, and lists the log for what is left.
func (l *Log) settleDown() (moved bool) {
	if l.moved && !l.filing { // else there is nothing new to evict
		l.moved = false
		l.evict()
	}
	moved = l.promote()
	if !l.filing {
		l.startPunch()
	}
	l.relist()
	return moved
}

// evict releases written chunks, but for the first few where the consumers
// read. Behind a gap of evicted ones the consumers are not: they read from
// disk, and keeping more would only cost memory. Nothing of the log is being
// written when it is called, so what is flushed is on disk (invariant 6).
func (l *Log) evict() {
	if l.retained() != nil {
		l.evictOldest()
		return
	}
	s := l.store
	front, kept, expected := true, int64(0), l.low.Load()
	for i := 0; i < len(l.chunks); {
		c := l.chunks[i]
		front = front && (c.base <= expected || l.isSettled(expected, c.base))
		expected = c.next
		if c.flushed < c.used {
			if !c.stray {
				return // and so are all behind it
			}
			i++
			continue
		}
		size := int64(len(c.data))
		kept += size
		if front && kept <= s.tune.frontBytes && (c.kept || s.keptBytes.Load()+size <= s.keptMax()) {
			if !c.kept {
				c.kept = true
				l.keptBytes += size
				s.keptBytes.Add(size)
			}
			i++
			continue
		}
		l.dropChunk(i)
	}
}
