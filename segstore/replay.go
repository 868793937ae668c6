package segstore

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sort"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

// Replay puts back what the journal has and the segments lack, when the store is
// opened. Entries name offsets and nothing else, so it may be done twice, and
// half, and again after a crash in the middle.
//
//  1. First pass: what was settled, which logs were deleted, meta records.
//     Settled offsets only add up. Entries of a log before its deletion are
//     another log's, even if the number was given again.
//  2. The directory of each log named is read, as OpenLog does for others.
//  3. Second pass: batches. One that is wholly settled, or in a segment, is
//     skipped. Holes in an unsealed segment may be what a power cut left of it,
//     and those of a sealed one may have been that once. What is missing becomes a chunk again, as if it had just been
//     journaled. Where the segments already hold later offsets the chunk is a
//     stray: it can't be appended there, so checkpoints carry it from one file
//     of the journal to the other until it is settled.
//     Beyond the memory bound chunks are written to segments on the way.
//  4. What the journal has and an unsealed segment too is written to the
//     segment once more, the same bytes. The sync of the previous life may have
//     failed: then the kernel shows the bytes, but takes them for written, and
//     syncs that succeed now would mean nothing.
//  5. Gaps that are left are settled offsets. Next is above everything named.
//
// Strays stay in memory. They are as many as were unsynced in segments when the
// power failed: a second's worth, as segments with more than 256 KiB unsynced
// are synced at the sync interval.
type replay struct {
	store *Store
	logs  map[uint64]*replayed
	bound int64      // memory for what was restored at which some of it is spilled
	slab  *arena.Buf // pieces of it become the first chunks of logs
	used  int        // bytes of it given out
}

// replayed is what the journal has of one log.
type replayed struct {
	recovery
	log     *Log
	deleted uint64 // ordinal of its last deletion
	sources [3]bool
	suspect uint64 // from this offset on unsealed segments are written again, 0 for none, else plus 1
	unread  bool   // its files cannot be read
}

// replayJournal opens the journal and does all of the above.
func (s *Store) replayJournal() error {
	js := &s.journal
	started := s.tune.now()
	w, err := journal.Open(journal.Options{
		Disk: s.disk, Arena: s.arena, Logger: s.o.Logger, LimitBytes: s.o.JournalBytes, AheadBytes: s.tune.aheadBytes,
	})
	var failed *fs.PathError
	if errors.As(err, &failed) {
		return fmt.Errorf("segstore: all logs need the journal, which has what was confirmed last: mend the disk or the permissions, or restore the data directory from a backup: %w", err)
	}
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	js.w = w
	js.metaDone = make(chan bool, 1)
	// What is replayed must be durable before any of it goes elsewhere: half a
	// transaction could be all that a power cut leaves.
	if err := s.overwritten(w.Name(w.Current()), w.Refresh()); err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	if w.Unsynced() {
		if err := disk.Run(s.disk, &disk.Op{Kind: disk.Sync, File: w.File()}); err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
		w.Synced()
	}
	rp := &replay{store: s, logs: map[uint64]*replayed{}, bound: s.o.HeldBytes}
	defer rp.releaseSlab()
	if err := w.Replay(rp.first); err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	maps.DeleteFunc(rp.logs, func(_ uint64, r *replayed) bool { return r.sources == [3]bool{} })
	for _, id := range slices.Sorted(maps.Keys(rp.logs)) {
		rp.open(id, rp.logs[id])
	}
	if err := w.Replay(rp.second); err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	for _, id := range slices.Sorted(maps.Keys(rp.logs)) {
		r := rp.logs[id]
		if r.unread {
			continue
		}
		err := rp.refresh(r)
		r.log.mu.Lock()
		s.assemble(r.log, &r.recovery)
		r.log.mu.Unlock()
		if err != nil && r.log.Withhold(err) {
			s.o.Logger.Error("segstore: the log is fenced: it takes no records until it is opened again; check the disk, then use basaltmqctl restart_queue, or restart the broker",
				"log", id, "error", err)
		}
	}
	if w.OldCounts() {
		s.startCheckpoint(1-w.Current(), w.OldGeneration())
	}
	js.recovery = s.tune.now().Sub(started)
	return nil
}

// first is the first pass.
func (rp *replay) first(e *journal.Entry, from journal.Source, ordinal uint64) error {
	js := &rp.store.journal
	js.replayed++
	switch e.Kind {
	case journal.Meta:
		js.meta[rp.file(from)] = true
		if rp.store.o.OnMeta == nil {
			return errors.New("it has meta records, and nobody wants them: Options.OnMeta is missing")
		}
		return rp.store.o.OnMeta(e.ID, e.Data)
	case journal.Done:
		return nil
	}
	r := rp.logs[e.ID]
	if r == nil {
		r = new(replayed)
		rp.logs[e.ID] = r
	}
	return r.note(e, from, ordinal)
}

// note is the first pass for an entry of the log.
func (r *replayed) note(e *journal.Entry, from journal.Source, ordinal uint64) error {
	if e.First > offsetMax || e.End > offsetMax {
		return fmt.Errorf("%w: offset overflows", journal.ErrGroup)
	}
	st := &r.settled
	switch e.Kind {
	case journal.Deleted:
		*r = replayed{log: r.log, deleted: ordinal}
		return nil
	case journal.Low:
		st.low = st.ranges.advance(max(st.low, e.First))
	case journal.Range:
		st.ranges.add(e.First, e.End)
	case journal.Cursor:
		st.cursor = e.First
	}
	st.end = max(st.end, e.First, e.End)
	r.sources[from], r.stale = true, true
	return nil
}

// file is the number of the file that holds entries from there. What was kept
// for a fenced log counts as the older of the two.
func (rp *replay) file(from journal.Source) int {
	w := rp.store.journal.w
	if from == journal.FromCurrent || !w.OldCounts() {
		return w.Current()
	}
	return 1 - w.Current()
}

// open makes the log and reads its directory.
func (rp *replay) open(id uint64, r *replayed) {
	s := rp.store
	l := &Log{store: s, id: id}
	l.journaled.unclaimed = true
	r.log = l
	s.mu.Lock()
	s.logs[id] = l
	s.idMax = max(s.idMax, id)
	s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := s.scanLog(l, &r.recovery); err != nil {
		l.setUnread(err)
		r.unread = true
	} else {
		r.begin()
	}
	for from, has := range r.sources {
		switch i := rp.file(journal.Source(from)); {
		case !has:
		case r.unread && journal.Source(from) == journal.FromKept: // nothing is carried over: the kept file stays
			l.journaled.files |= filesKept
		case l.journaled.files&(1<<i) == 0:
			l.journaled.files |= 1 << i
			s.journal.logs[i] = append(s.journal.logs[i], l)
		}
	}
}

// begin has the second pass know what is settled.
func (r *replayed) begin() {
	r.settled.low = r.settled.ranges.advance(r.settled.low)
	r.log.low.Store(r.settled.low)
	r.log.settled = r.settled.ranges
}

// second is the second pass.
func (rp *replay) second(e *journal.Entry, _ journal.Source, ordinal uint64) error {
	if e.Kind != journal.Batch {
		return nil
	}
	r := rp.logs[e.ID]
	if r == nil || r.unread || ordinal < r.deleted {
		return nil
	}
	l := r.log
	l.mu.Lock()
	err := rp.restoreAll(r, e.Data)
	l.mu.Unlock()
	if err == nil && rp.store.heldBytes.Load() > rp.bound {
		rp.spill()
	}
	return err
}

// restoreAll makes the batches of an entry part of the log.
func (rp *replay) restoreAll(r *replayed, data []byte) error {
	for len(data) > 0 {
		n, err := checkBatch(data)
		if err != nil {
			return fmt.Errorf("%w: log %d: %w", journal.ErrGroup, r.log.id, err)
		}
		rp.restore(r, data[:n])
		data = data[n:]
	}
	return nil
}

// restore makes the batch part of the log's chunks, if it is not on disk.
func (rp *replay) restore(r *replayed, batch []byte) {
	l := r.log
	base, end := batchBase(batch), batchEnd(batch)
	r.next = max(r.next, end)
	if l.isSettled(base, end) {
		return
	}
	if !r.missing(base, end) {
		if r.suspect == 0 || base < r.suspect-1 {
			r.suspect = base + 1
		}
		return
	}
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].next > base })
	if i < len(l.chunks) && l.chunks[i].base < end {
		return // it was carried, and comes a second time
	}
	stray := len(l.segments) > 0 && base < l.segments[len(l.segments)-1].next
	var c *chunk
	if i > 0 {
		if before := l.chunks[i-1]; before.next == base && before.stray == stray && before.flushed < before.used && before.used+len(batch) <= len(before.data) {
			c = before
		} else if before.next == base && len(before.data) >= chunkClassBytes[l.class] {
			l.class = min(l.class+1, uint8(len(chunkClassBytes)-1))
		}
	}
	if c == nil {
		c = rp.newChunk(l, len(batch))
		c.base, c.next, c.savedNext, c.flushedNext = base, base, base, base
		c.stray = stray
		l.chunks = slices.Insert(l.chunks, i, c)
	}
	copy(c.data[c.used:], batch)
	c.note(len(batch), end-base)
	c.saved, c.savedNext = c.used, c.next
	l.noteHeld(c)
	l.next.Store(max(l.next.Load(), end))
}

// refresh writes the bytes of unsealed segments that the journal has too once
// more.
func (rp *replay) refresh(r *replayed) error {
	s, l := rp.store, r.log
	if r.suspect == 0 {
		return nil
	}
	for _, seg := range l.segments {
		if seg.sealed || !seg.created || seg.next < r.suspect {
			continue
		}
		h, err := s.files.acquire(fileKey{l.id, seg.base}, l.path(segmentName(seg.base)), disk.ReadWrite)
		if err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
		err = s.overwritten(l.path(segmentName(seg.base)), s.rewrite(h.file, seg, lookup(seg.index, r.suspect-1)))
		s.files.release(h)
		if err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
		seg.unsynced, seg.bare = true, true
	}
	return nil
}

// rewrite writes the header and the good batches of a segment from position
// pos on as they are. It needs no space on the disk.
func (s *Store) rewrite(file disk.File, seg *segment, pos int64) error {
	sc := scanner{store: s, file: file, limit: seg.size, block: s.tune.blockBytes}
	defer sc.release()
	w, err := sc.window(0, segmentHeaderBytes)
	if err == nil {
		err = s.writeBack(file, 0, w[:min(len(w), segmentHeaderBytes)])
	}
	for err == nil && pos < sc.limit {
		w, err = sc.batch(pos)
		switch {
		case isBatchError(err):
			at, found, err := sc.resync(pos, seg.base, seg.next)
			if !found || err != nil {
				return err
			}
			pos = at
		case err == nil && isHole(w): // what is in it means nothing
			length := int64(batchLength(w))
			err = s.writeBack(file, pos, w)
			pos += length
		case err == nil:
			n := len(w)
			for w = sc.buf.Bytes()[pos-sc.start : sc.n]; n < len(w); {
				more, err := checkBatch(w[n:])
				if err != nil {
					break
				}
				n += more
			}
			err = s.writeBack(file, pos, w[:n])
			pos += int64(n)
		}
		if isBatchError(err) {
			err = nil
		}
	}
	return err
}

// overwritten lets a start go on although bytes could not be written again
// where they are. Only a file system that copies on write needs space for that.
func (s *Store) overwritten(file string, err error) error {
	if !disk.IsNoSpace(err) {
		return err
	}
	s.o.Logger.Warn("segstore: the disk is full, so that the end of a file could not be written again; if a sync had failed before the last stop, a power cut may lose what it covered",
		"file", file, "error", err)
	return nil
}

func (s *Store) writeBack(file disk.File, pos int64, data []byte) error {
	s.writes.Add(1)
	s.writtenBytes.Add(uint64(len(data)))
	return disk.Run(s.disk, &disk.Op{Kind: disk.Write, File: file, Pos: pos, Buf: data})
}

// missing reports whether no segment has the offsets [base, end).
func (r *replayed) missing(base, end uint64) bool {
	l := r.log
	for i := len(l.segments) - 1; i >= 0; i-- {
		switch seg := l.segments[i]; {
		case base >= seg.next:
			return true
		case base >= seg.base:
			return r.holes.containsRange(base, end)
		case end > seg.base:
			return false
		}
	}
	return true
}
