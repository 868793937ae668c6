package segstore

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// segmentTempSuffix ends the name of a segment that is being remade; a start
// removes such files.
const segmentTempSuffix = segmentSuffix + ".tmp"

// remaker makes the files of a log anew, for Reopen: it knows the log by a
// snapshot, and blocks.
type remaker struct {
	store     *Store
	log       *Log
	low, next uint64
	settled   intervalSet
	tail      []piece
	old       []*segment
	acks      []byte // the settled file
	rolls     []uint64
	limit     int64 // of a segment
	version   uint16

	parts []remade
	names []string // in the directory

	at    int        // the piece and the position in it of the next batch in memory
	pos   int        //
	seg   *segment   // being made, nil if none
	file  disk.File  // it
	first uint64     // its name
	buf   *arena.Buf // bytes for it
	n     int        // so many
	to    int64      // and where they go
	done  uint64     // offsets below were emitted or are settled or lost
	last  bool       // it is the log's last part
	lost  uint64     // offsets of the part that are nowhere
}

// remade is a segment of the log and what takes its place: itself, or another
// one, or nothing. Without an old one it is additional.
type remade struct {
	old, fresh *segment
	named      bool // the fresh one has its name, or the old one is removed
	unknown    bool // nobody knows which of the two has it
}

// write is step 2 of Reopen.
func (m *remaker) write() error {
	l, d := m.log, m.store.disk
	if err := m.prepare(); err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	sound := false
	if len(m.old) > 0 && !m.isSettled(m.low, m.old[0].base) {
		if err := m.remake(nil, m.low, m.old[0].base); err != nil { // strays
			return fmt.Errorf("segstore: %w", err)
		}
	}
	for i, seg := range m.old {
		ceiling := m.next
		if m.last = i == len(m.old)-1; !m.last {
			ceiling = m.old[i+1].base
		}
		var err error
		if sound, err = m.sound(seg, ceiling); err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
		if sound {
			m.skipTail(seg.next)
			m.parts = append(m.parts, remade{old: seg, fresh: seg, named: true})
			continue
		}
		if err := m.remake(seg, seg.base, ceiling); err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
	}
	if m.last = true; len(m.old) == 0 || sound {
		from := m.low
		if sound {
			from = max(from, m.old[len(m.old)-1].next)
		}
		if err := m.remake(nil, from, m.next); err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
	}
	err := m.put(settledTempName, m.acks)
	if err == nil && l.transient {
		err = d.Remove(l.path(settledTempName)) // it was to show that the disk works
	}
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	return nil
}

// prepare makes the directory, and removes what an earlier attempt left.
func (m *remaker) prepare() error {
	l, d := m.log, m.store.disk
	err := d.MkdirAll(l.dir())
	if err == nil {
		err = d.SyncDir(path.Dir(l.dir()))
	}
	if err != nil {
		return err
	}
	entries, err := d.ReadDir(l.dir())
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name := e.Name(); name == settledTempName || strings.HasSuffix(name, segmentTempSuffix) {
			if err := d.Remove(l.path(name)); err != nil {
				return err
			}
		} else {
			m.names = append(m.names, name)
		}
	}
	return nil
}

// put writes and syncs a file.
func (m *remaker) put(name string, data []byte) error {
	f, err := m.store.disk.Open(m.log.path(name), disk.CreateNew)
	if err != nil {
		return err
	}
	err = disk.Run(m.store.disk, &disk.Op{Kind: disk.Write, File: f, Buf: data})
	if err == nil {
		err = m.sync(f)
	}
	return errors.Join(err, f.Close())
}

func (m *remaker) sync(f disk.File) error {
	m.store.syncs.Add(1)
	return disk.Run(m.store.disk, &disk.Op{Kind: disk.Sync, File: f})
}

// sound says that the file of a segment may stay as it is: it is sealed and
// synced, header and trailer are what they were, and memory has nothing that
// belongs in it.
func (m *remaker) sound(seg *segment, ceiling uint64) (bool, error) {
	if !seg.sealed || seg.footerDirty || seg.replaced {
		return false, nil
	}
	for _, p := range m.tail {
		if p.stray && p.base < ceiling && p.next > seg.base && !m.isSettled(p.base, p.next) {
			return false, nil
		}
	}
	f, err := m.store.disk.Open(m.log.path(segmentName(seg.base)), disk.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	head := disk.Op{Kind: disk.Read, File: f, Buf: make([]byte, segmentHeaderBytes)}
	tail := disk.Op{Kind: disk.Read, File: f, Buf: make([]byte, trailerBytes), Pos: max(0, size-trailerBytes)}
	if err := disk.Run(m.store.disk, &head, &tail); err != nil {
		return false, err
	}
	found := segment{base: seg.base}
	return checkSegmentHeader(head.Buf[:head.N], m.log.id, seg.base) == nil && found.decodeTrailer(tail.Buf[:tail.N], size) &&
		found.next == seg.next && found.records == seg.records && found.indexSum == seg.indexSum, nil
}

// isSettled reports whether all of [first, end) was settled at the snapshot.
func (m *remaker) isSettled(first, end uint64) bool {
	return end <= m.low || first >= end || m.settled.containsRange(max(first, m.low), end)
}

// remake writes what is unsettled of the offsets [from, to) to new files. old is
// the segment that they were in, nil if there was none.
func (m *remaker) remake(old *segment, from, to uint64) error {
	m.done, m.lost, m.first = from, 0, from
	made := len(m.parts)
	m.parts = append(m.parts, remade{old: old})
	err := m.mix(old, to)
	if err == nil {
		err = m.emitTail(to)
	}
	if err == nil {
		m.miss(to)
		err = m.closeSegment()
	}
	if err == nil && m.lost > 0 {
		err = m.reportLost(old)
	}
	if err != nil && m.file != nil {
		_ = m.file.Close()
		m.file = nil
	}
	if p := &m.parts[made]; err == nil && p.old == nil && p.fresh == nil {
		m.parts = slices.Delete(m.parts, made, made+1) // neither was nor is
	}
	return err
}

// mix emits the batches that only the old file has, below to, and those in memory
// that come before them. The file is not looked at if memory has everything.
func (m *remaker) mix(old *segment, to uint64) error {
	if old == nil || m.resident(m.done, to) {
		return nil
	}
	f, err := m.store.disk.Open(m.log.path(segmentName(old.base)), disk.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return err
	}
	sc := scanner{store: m.store, file: f, limit: size, block: m.store.tune.blockBytes}
	defer sc.release()
	expected := old.base
	for pos := int64(segmentHeaderBytes); pos < sc.limit; {
		batch, err := sc.batch(pos)
		if err == nil && (batchBase(batch) < expected || endOf(batch) > to) {
			err = errBatch
		}
		switch {
		case isBatchError(err):
			at, found, err := sc.resync(pos, expected, to)
			if err != nil {
				return err
			}
			if !found {
				return nil
			}
			pos = at
			continue
		case err != nil:
			return err
		}
		pos += int64(batchLength(batch))
		expected = endOf(batch)
		base := batchBase(batch)
		if isHole(batch) || m.isSettled(base, expected) || m.inMemory(base) {
			continue
		}
		if err := m.emitTail(base); err != nil {
			return err
		}
		if err := m.emit(batch, false); err != nil {
			return err
		}
	}
	return nil
}

// resident says that memory has all unsettled offsets of [from, to).
func (m *remaker) resident(from, to uint64) bool {
	for _, p := range m.tail {
		if p.next <= from {
			continue
		}
		if p.base >= to {
			break
		}
		if p.base > from && !m.isSettled(from, p.base) {
			return false
		}
		from = p.next
	}
	return from >= to || m.isSettled(from, to)
}

func (m *remaker) inMemory(offset uint64) bool {
	return slices.ContainsFunc(m.tail, func(p piece) bool { return p.base <= offset && offset < p.next })
}

// emitTail emits the batches in memory that begin below offset.
func (m *remaker) emitTail(below uint64) error {
	for m.at < len(m.tail) {
		p := &m.tail[m.at]
		for m.pos < len(p.data) {
			n := batchLength(p.data[m.pos:])
			batch := p.data[m.pos : m.pos+n]
			if batchBase(batch) >= below {
				return nil
			}
			m.pos += n
			if m.isSettled(batchBase(batch), batchEnd(batch)) {
				continue
			}
			if err := m.emit(batch, true); err != nil {
				return err
			}
		}
		m.at, m.pos = m.at+1, 0
	}
	return nil
}

// skipTail passes over the batches in memory below offset: a sound segment has them.
func (m *remaker) skipTail(below uint64) {
	for ; m.at < len(m.tail); m.at, m.pos = m.at+1, 0 {
		p := &m.tail[m.at]
		for m.pos < len(p.data) {
			if batchBase(p.data[m.pos:]) >= below {
				return
			}
			m.pos += batchLength(p.data[m.pos:])
		}
	}
}

// miss counts the unsettled offsets below offset that are nowhere.
func (m *remaker) miss(offset uint64) {
	from := max(m.done, m.low)
	if from < offset {
		m.lost += offset - from
		m.settled.within(from, offset, func(iv interval) bool {
			m.lost -= iv.end - iv.first
			return true
		})
		m.done = offset
	}
}
