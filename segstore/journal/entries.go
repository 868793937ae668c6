package journal

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Entries are those of one log that Open found: Replay for a log that could not be
// read then. What was added since is not among them. The files stay readable
// whatever becomes of their names, but the owner keeps them from being overwritten
// until Close: by a checkpoint that is not finished, or because they are kept.
type Entries struct {
	journal *Journal // its options only
	id      uint64
	parts   []entriesPart
}

type entriesPart struct {
	open disk.File
	name string
	scan fileScan
}

// OpenEntries opens the files that have entries of log id: those kept for it, and
// of the two files those that the caller names. It is a call like others; reading
// the Entries then is for any one goroutine.
func (j *Journal) OpenEntries(id uint64, files [2]bool) (*Entries, error) {
	e := &Entries{journal: j, id: id}
	add := func(name string, scan fileScan) error {
		if scan.generation == 0 { // begun since Open
			return nil
		}
		f, err := j.o.Disk.Open(name, disk.ReadOnly)
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		e.parts = append(e.parts, entriesPart{open: f, name: name, scan: scan})
		return nil
	}
	var err error
	for i := range j.kept {
		if k := &j.kept[i]; k.id == id && err == nil {
			err = add(k.name, k.scan)
		}
	}
	for i, wanted := range files {
		if wanted && err == nil {
			err = add(j.files[i].name, j.files[i].scan)
		}
	}
	if err != nil {
		e.Close()
		return nil, err
	}
	slices.SortStableFunc(e.parts, func(a, b entriesPart) int { return cmp.Compare(a.scan.generation, b.scan.generation) })
	return e, nil
}

// Replay calls visit for each of the entries, older ones first, as Journal.Replay
// does. It may be called again.
func (e *Entries) Replay(visit func(entry *Entry, ordinal uint64) error) error {
	ordinal := uint64(0)
	for i := range e.parts {
		p := &e.parts[i]
		err := e.journal.replayFile(p.open, &p.scan, &ordinal, func(entry *Entry) error {
			if entry.ID != e.id || entry.Kind == Meta || entry.Kind == Done {
				return nil
			}
			return visit(entry, ordinal)
		})
		if err != nil {
			return fmt.Errorf("journal: %s: %w", p.name, err)
		}
	}
	return nil
}

// Close closes the files.
func (e *Entries) Close() error {
	var err error
	for i := range e.parts {
		err = errors.Join(err, e.parts[i].open.Close())
	}
	e.parts = nil
	return err
}
