package inspect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
	"strings"

	"github.com/basaltmq/basaltmq/segstore/journal"
)

// Positions in a group's and an entry's header that package journal does not
// export: they are needed for groups and entries beyond a window.
const (
	groupBodyCRCPos = 56
	groupAlign      = 8
	entrySizePos    = 4
	entryIDPos      = 8
)

// groupMagicBytes is how each group begins.
var groupMagicBytes = []byte("BASALJRN")

// scan finds the sound groups of a file with the rules of journal.reader.scan:
// what follows the last one is what a crash left of groups that were never
// synced, or remains of older generations. Bad bytes before the end are damage
// if a later group says that they were synced.
func (f *journalFile) scan(w *window) error {
	for pos := int64(0); pos+journal.GroupHeaderBytes <= w.limit; {
		g, err := w.group(pos)
		if err == nil && f.accepts(&g) {
			if err := f.take(w, &g, pos); err != nil {
				return err
			}
			pos += g.Bytes
			w.count(pos)
			continue
		}
		if errors.Is(err, journal.ErrVersion) {
			f.report.add(Damage, pos, 0, "%s: the broker refuses to start on it; was it written by a newer one?", groupText(err))
			return nil
		}
		if err != nil && !isGroupError(err) {
			return err
		}
		next, proven, err := f.resume(w, pos)
		switch {
		case err != nil:
			return err
		case next >= 0 && proven:
			f.report.add(Damage, pos, next-pos, "no sound group, and later ones say that it was on stable storage: messages, acknowledgements and definitions in it are lost")
			if g, err = w.group(next); err == nil {
				err = f.take(w, &g, next) // whatever sequence number it has
			}
			if err != nil {
				return err
			}
			pos = next + g.Bytes
			continue
		case next >= 0:
			f.report.add(Unfinished, pos, next-pos, "no sound group before later ones; nothing says that any of them was on stable storage: the next start passes over all of them")
		case f.belongs(w, pos):
			f.report.add(Unfinished, pos, 0, "a group that was not written completely: the next start passes over it")
		}
		break
	}
	return nil
}

// accepts reports whether g may be the next group of the file.
func (f *journalFile) accepts(g *journal.Group) bool {
	switch {
	case f.identity != 0 && g.Identity != f.identity:
		return false
	case f.generation == 0:
		return true
	case g.Generation != f.generation:
		return false
	}
	return g.Sequence == f.sequence+1 || g.Session() > f.sequence>>sessionShift && g.Sequence == g.Session()<<sessionShift
}

// sessionShift splits a group's sequence number, see journal.Group.Session.
const sessionShift = 40

// belongs reports whether the header at pos is one of the next group.
func (f *journalFile) belongs(w *window, pos int64) bool {
	head, err := w.at(pos, journal.GroupHeaderBytes)
	if err != nil {
		return false
	}
	g, err := journal.DecodeGroup(head)
	return err == nil && f.accepts(&g)
}

// take notes a sound group.
func (f *journalFile) take(w *window, g *journal.Group, pos int64) error {
	f.identity, f.generation, f.sequence = g.Identity, g.Generation, g.Sequence
	f.groups++
	end := pos + g.Bytes
	if n := len(f.good); n > 0 && f.good[n-1].to == pos {
		f.good[n-1].to = end
	} else {
		f.good = append(f.good, span{pos, end})
	}
	at := pos + journal.GroupHeaderBytes
	for i := range g.Entries {
		e, err := w.entry(at, end)
		if err != nil {
			return err
		}
		if e.Kind == journal.Done {
			f.done = max(f.done, e.ID)
			if e.ID >= g.Generation {
				f.cleanPos, f.cleanEntry = pos, i+1
			}
		}
		at = e.next
	}
	return nil
}

// resume looks behind the bad bytes at pos for a sound group of the same
// generation. proven says that one of them calls those bytes synced; next is
// the first, -1 if there is none.
func (f *journalFile) resume(w *window, pos int64) (next int64, proven bool, err error) {
	next = -1
	for at := pos + groupAlign; ; {
		if at, err = w.nextMagic(at); at < 0 || err != nil {
			return next, false, err
		}
		g, err := w.group(at)
		switch {
		case err != nil && !isGroupError(err) && !errors.Is(err, journal.ErrVersion):
			return -1, false, err
		case err != nil || f.identity != 0 && g.Identity != f.identity,
			f.generation != 0 && (g.Generation != f.generation || g.Sequence <= f.sequence),
			f.generation == 0 && g.Synced == 0:
			at += groupAlign
			continue
		}
		if next < 0 {
			next = at
		}
		if g.Synced > pos {
			return next, true, nil
		}
		at += g.Bytes
	}
}

// nextMagic returns the next aligned position from pos on that begins like a
// group, -1 if there is none.
func (w *window) nextMagic(pos int64) (int64, error) {
	for pos+journal.GroupHeaderBytes <= w.limit {
		data, err := w.at(pos, journal.GroupHeaderBytes)
		if err != nil {
			return -1, err
		}
		i := bytes.Index(data, groupMagicBytes)
		switch {
		case i < 0:
			pos += int64(max(1, len(data)-len(groupMagicBytes)+1))
		case (pos+int64(i))%groupAlign != 0:
			pos += int64(i) + 1
		default:
			return pos + int64(i), nil
		}
	}
	return -1, nil
}

// group verifies the group at pos: header, checksum, entries. One beyond the
// window is streamed.
func (w *window) group(pos int64) (journal.Group, error) {
	head, err := w.at(pos, journal.GroupHeaderBytes)
	if err != nil {
		return journal.Group{}, err
	}
	g, err := journal.DecodeGroup(head)
	if err != nil {
		return g, err
	}
	if pos+g.Bytes > w.limit {
		return g, journal.ErrGroup
	}
	if g.Bytes <= windowBytes {
		data, err := w.at(pos, int(g.Bytes))
		if err != nil {
			return g, err
		}
		return g, g.Check(data)
	}
	want, sum := binary.LittleEndian.Uint32(head[groupBodyCRCPos:]), uint32(0)
	end := pos + g.Bytes
	for at := pos + journal.GroupHeaderBytes; at < end; {
		data, err := w.at(at, 1)
		if err != nil {
			return g, err
		}
		data = data[:min(int64(len(data)), end-at)]
		sum = crc32.Update(sum, castagnoli, data)
		at += int64(len(data))
	}
	if sum != want {
		return g, journal.ErrGroup
	}
	at := pos + journal.GroupHeaderBytes
	for range g.Entries {
		e, err := w.entry(at, end)
		if err != nil {
			return g, err
		}
		at = e.next
	}
	if end-at >= groupAlign {
		return g, journal.ErrGroup
	}
	return g, nil
}

// journalEntry is one entry without the contents of its batches or record.
type journalEntry struct {
	journal.Entry
	file      *journalFile
	ordinal   uint64 // counts the entries that are replayed
	data      int64  // position of its contents
	dataBytes int64
	next      int64 // position after it
}

// entry reads the entry at pos of a group that ends at end.
func (w *window) entry(pos, end int64) (journalEntry, error) {
	if end-pos < journal.EntryHeaderBytes {
		return journalEntry{}, journal.ErrGroup
	}
	head, err := w.at(pos, journal.EntryHeaderBytes)
	if err != nil {
		return journalEntry{}, err
	}
	size := int64(binary.LittleEndian.Uint32(head[entrySizePos:]))
	e := journalEntry{data: pos + journal.EntryHeaderBytes, dataBytes: size, next: pos + journal.EntryHeaderBytes + size}
	if e.next > end {
		return e, journal.ErrGroup
	}
	if e.next-pos <= windowBytes {
		data, err := w.at(pos, int(e.next-pos))
		if err != nil {
			return e, err
		}
		e.Entry, _, err = journal.DecodeEntry(data[:e.next-pos])
		e.Data = nil
		return e, err
	}
	e.Kind, e.ID = journal.Kind(head[0]), binary.LittleEndian.Uint64(head[entryIDPos:])
	if e.Kind != journal.Batch && e.Kind != journal.Meta || head[1]|head[2]|head[3] != 0 {
		return e, journal.ErrGroup
	}
	return e, nil
}

func isGroupError(err error) bool { return errors.Is(err, journal.ErrGroup) }

func groupText(err error) string { return strings.TrimPrefix(err.Error(), "journal: ") }

// replay visits the entries that a start would, in its order. The window stands
// in the entry's file during the visit, and may be moved there. What cannot be
// read is passed over: the scan has reported it.
func (j *Journal) replay(w *window, visit func(e *journalEntry) error) error {
	ordinal := uint64(0)
	for _, f := range j.files {
		if !f.counts {
			continue
		}
		err := j.withFile(w, f, func() error { return f.replay(w, &ordinal, visit) })
		var failed readError
		if errors.As(err, &failed) {
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// withFile opens the window on a file.
func (j *Journal) withFile(w *window, f *journalFile, use func() error) error {
	return withFile(j.fsys, f.name, func(at io.ReaderAt) error {
		w.open(at, f.size)
		w.counted = math.MaxInt64 // the scan has counted
		return use()
	})
}

func (f *journalFile) replay(w *window, ordinal *uint64, visit func(e *journalEntry) error) error {
	for _, run := range f.good {
		for pos := run.from; pos < run.to; {
			head, err := w.at(pos, journal.GroupHeaderBytes)
			if err != nil {
				return err
			}
			g, err := journal.DecodeGroup(head)
			if err != nil {
				return err
			}
			end, skip := pos+g.Bytes, 0
			switch {
			case pos < f.cleanPos:
				skip = g.Entries
			case pos == f.cleanPos:
				skip = f.cleanEntry
			}
			at := pos + journal.GroupHeaderBytes
			for i := 0; i < g.Entries && skip < g.Entries; i++ {
				e, err := w.entry(at, end)
				if err != nil {
					return err
				}
				at = e.next
				if i < skip || f.kept && (e.ID != f.log || e.Kind == journal.Meta || e.Kind == journal.Done) {
					continue
				}
				*ordinal++
				e.file, e.ordinal = f, *ordinal
				if err := visit(&e); err != nil {
					return err
				}
			}
			pos = end
		}
	}
	return nil
}
