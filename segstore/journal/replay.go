package journal

import (
	"fmt"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Source says which file an entry comes from.
type Source uint8

// Sources in the order Replay visits them.
const (
	FromKept Source = iota
	FromOld
	FromCurrent
)

// Replay calls visit for all entries that count, older ones first; Data is
// valid during the call. It may be called as often as needed before the first
// Begin, and visits the same entries in the same order. ordinal counts the
// entries. An error of visit ends it.
func (j *Journal) Replay(visit func(e *Entry, from Source, ordinal uint64) error) error {
	ordinal := uint64(0)
	for i := range j.kept {
		k := &j.kept[i]
		f, err := j.o.Disk.Open(k.name, disk.ReadOnly)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		err = j.replayFile(f, &k.scan, &ordinal, func(e *Entry) error {
			if e.ID != k.id || e.Kind == Meta || e.Kind == Done {
				return nil
			}
			return visit(e, FromKept, ordinal)
		})
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("journal: %s: %w", k.name, err)
		}
	}
	if j.replayOld {
		if err := j.replayOne(1-j.current, FromOld, &ordinal, visit); err != nil {
			return err
		}
	}
	return j.replayOne(j.current, FromCurrent, &ordinal, visit)
}

func (j *Journal) replayOne(i int, from Source, ordinal *uint64, visit func(e *Entry, from Source, ordinal uint64) error) error {
	f := &j.files[i]
	if f.scan.generation == 0 {
		return nil
	}
	err := j.replayFile(f.open, &f.scan, ordinal, func(e *Entry) error { return visit(e, from, *ordinal) })
	if err != nil {
		return fmt.Errorf("journal: %s: %w", f.name, err)
	}
	return nil
}

func (j *Journal) replayFile(f disk.File, s *fileScan, ordinal *uint64, visit func(e *Entry) error) error {
	r := j.newReader(f, s.size)
	defer r.release()
	for _, run := range s.good {
		for pos := run.from; pos < run.to; {
			g, data, err := r.group(pos)
			if err != nil {
				return err // it was good a moment ago
			}
			body, skip := data[GroupHeaderBytes:], 0
			switch {
			case pos < s.cleanPos:
				skip = g.Entries
			case pos == s.cleanPos:
				skip = s.cleanEntry
			}
			for i := range g.Entries {
				e, n, err := DecodeEntry(body)
				if err != nil {
					return err
				}
				body = body[n:]
				if i < skip {
					continue
				}
				*ordinal++
				if err := visit(&e); err != nil {
					return err
				}
			}
			pos += g.Bytes
		}
	}
	return nil
}
