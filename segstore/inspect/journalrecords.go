package inspect

import (
	"cmp"
	"io"
	"io/fs"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

// journalReader finds the batches of one log that only the journal has.
type journalReader struct {
	j   *Journal
	w   *window
	id  uint64
	log *journalLog

	batches []journaledBatch // left to visit, in the order of offsets
	file    *journalFile     // that w stands in
	open    fs.File
}

// journaledBatch says where a batch is.
type journaledBatch struct {
	file *journalFile
	pos  int64
	base uint64
	end  uint64
}

// collect reads what the journal says of log id.
func (r *journalReader) collect(id uint64) error {
	r.id, r.log = id, newJournalLog()
	err := r.j.replay(r.w, func(e *journalEntry) error {
		if e.ID == id && e.Kind != journal.Meta && e.Kind != journal.Done && max(e.First, e.End) <= segstore.OffsetMax {
			r.log.apply(e)
		}
		return nil
	})
	r.log.settled.normalise()
	return err
}

// choose lists the batches of the log that v wants and no sealed segment
// answers for. Those in other segments are passed over by drop.
func (r *journalReader) choose(v *visitor, fsys fs.FS, segments []unit) error {
	if !r.log.batches {
		return nil
	}
	covered, err := sealedRanges(v.w, fsys, segments)
	if err != nil {
		return err
	}
	err = r.j.replay(r.w, func(e *journalEntry) error {
		if e.ID != r.id || e.Kind != journal.Batch || e.ordinal < r.log.deleted {
			return nil
		}
		err := r.w.batchesOf(e, func(pos int64, info segstore.BatchInfo) error {
			if v.wanted(info) && covered.count(info.Base, info.End) == 0 {
				r.batches = append(r.batches, journaledBatch{e.file, pos, info.Base, info.End})
			}
			return nil
		})
		if isBatchError(err) {
			v.o.Finding(Finding{Level: Damage, File: e.file.name, Pos: e.data, Bytes: e.dataBytes, Text: err.Error()})
			return nil
		}
		return err
	})
	// Stable: of a batch that was carried to another file, one is as good as
	// the other.
	slices.SortStableFunc(r.batches, func(a, b journaledBatch) int { return cmp.Compare(a.base, b.base) })
	return err
}

// sealedRanges are the offsets that sealed segments answer for, by their
// indexes. A hole in one may be in the journal: the batch was lost by a power
// cut, and segments only grow at their ends.
func sealedRanges(w *window, fsys fs.FS, segments []unit) (*settledSet, error) {
	covered := new(settledSet)
	for i := range segments {
		u := &segments[i]
		if u.kind != kindSegment {
			continue
		}
		c := &segmentCheck{segmentFile: u.segmentFile, window: w, rep: &fileReport{}}
		err := withFile(fsys, u.name, func(f io.ReaderAt) error {
			w.open(f, u.size)
			return c.readFooter()
		})
		if err != nil {
			return nil, err
		}
		if c.sealed && c.indexed && c.trailer.HolesListed {
			eachCovered(u.base, min(c.trailer.Next, u.ceiling), c.holes, covered.insert)
		}
	}
	return covered, nil
}

// drop passes over the batches that begin below an offset.
func (r *journalReader) drop(below uint64) {
	n := 0
	for n < len(r.batches) && r.batches[n].base < below {
		n++
	}
	r.batches = r.batches[n:]
}

// turn lets the window stand in a file.
func (r *journalReader) turn(f *journalFile) error {
	if r.file == f {
		return nil
	}
	r.close()
	open, err := r.j.fsys.Open(f.name)
	if err != nil {
		return err
	}
	at, ok := open.(io.ReaderAt)
	if !ok {
		open.Close()
		return fs.ErrInvalid
	}
	r.file, r.open = f, open
	r.w.open(at, f.size)
	return nil
}

func (r *journalReader) close() {
	if r.open != nil {
		r.open.Close()
		r.file, r.open = nil, nil
	}
}

// journaled visits the batches that only the journal has and that end at an
// offset or below.
func (v *visitor) journaled(end uint64) error {
	r := &v.journal
	for len(r.batches) > 0 && r.batches[0].end <= end {
		b := r.batches[0]
		r.batches = r.batches[1:]
		if err := r.turn(b.file); err != nil {
			return err
		}
		info, err := r.w.batch(b.pos)
		if err != nil {
			return err // it was good a moment ago
		}
		if err := v.batch(r.w, b.file.name, b.pos, info); err != nil {
			return err
		}
		r.drop(b.end) // it may have been carried
	}
	return nil
}
