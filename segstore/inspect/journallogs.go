package inspect

import (
	"context"
	"slices"
	"sync"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

// MetaRecord is a record of the store's owner in the journal. Data is valid
// until the visit returns.
type MetaRecord struct {
	Seq  uint64
	Data []byte
	File string
	Pos  int64 // of Data
}

// journalLog is what the journal says of one log.
type journalLog struct {
	settled *settledSet // with the settled file's once a worker has loaded that
	deleted uint64      // ordinal of its last deletion: earlier entries mean nothing
	batches bool        // there are some
	compact int         // length at which settled is normalised

	mu        sync.Mutex
	covered   settledSet // offsets that segments answer for, or that were counted
	unsettled uint64     // records in no segment
}

func newJournalLog() *journalLog { return &journalLog{settled: new(settledSet), compact: 1024} }

// addCover notes that the log's segments answer for [first, end).
func (l *journalLog) addCover(first, end uint64) {
	l.mu.Lock()
	l.covered.insert(first, end)
	l.mu.Unlock()
}

// settle notes settled offsets, keeping the set small.
func (l *journalLog) settle(first, end uint64) {
	l.settled.add(first, end)
	if len(l.settled.ranges) >= l.compact {
		l.settled.normalise()
		l.compact = max(1024, 2*len(l.settled.ranges))
	}
}

// apply follows an entry that is no batch.
func (l *journalLog) apply(e *journalEntry) {
	switch e.Kind {
	case journal.Deleted:
		l.settled, l.batches, l.deleted = new(settledSet), false, e.ordinal
	case journal.Low:
		l.settle(0, e.First)
	case journal.Range:
		l.settle(e.First, e.End)
	case journal.Cursor:
		l.settled.cursor = e.First
	case journal.Batch:
		l.batches = true
	}
}

// Meta visits the meta records that a start would replay, in order. The error
// is visit's or the context's.
func (j *Journal) Meta(ctx context.Context, visit func(MetaRecord) error) error {
	w := &window{ctx: ctx, progress: new(Progress)}
	var large []byte
	return j.replay(w, func(e *journalEntry) error {
		if e.Kind != journal.Meta {
			return nil
		}
		return w.meta(e, &large, visit)
	})
}

func (w *window) meta(e *journalEntry, large *[]byte, visit func(MetaRecord) error) error {
	data, err := w.bytes(e.data, e.dataBytes, large)
	if err != nil {
		return err
	}
	return visit(MetaRecord{Seq: e.ID, Data: data, File: e.file.name, Pos: e.data})
}

// beginJournal checks the journal's groups and collects what entries say of
// logs.
func (r *run) beginJournal(w *window, j *Journal, s *survey, meta func(MetaRecord) error) error {
	if err := j.scan(w); err != nil {
		return err
	}
	r.progress.files.Add(int64(len(j.files)))
	report := &r.report.Journal
	report.Files = len(j.files)
	for _, f := range j.files {
		if f.counts {
			report.Groups += f.groups
		}
	}
	logs := map[uint64]*journalLog{}
	var large []byte
	err := j.replay(w, func(e *journalEntry) error {
		report.Entries++
		switch {
		case e.Kind == journal.Meta:
			report.Meta++
			if meta == nil {
				return nil
			}
			return w.meta(e, &large, meta)
		case e.Kind == journal.Done:
			return nil
		case e.First > segstore.OffsetMax || e.End > segstore.OffsetMax:
			e.file.report.add(Damage, e.data-journal.EntryHeaderBytes, e.dataBytes+journal.EntryHeaderBytes,
				"the entry names an offset that cannot exist: the broker refuses to start on it")
			return nil
		case logs[e.ID] == nil:
			logs[e.ID] = newJournalLog()
		}
		logs[e.ID].apply(e)
		return nil
	})
	if err != nil {
		return err
	}
	for _, l := range logs {
		l.settled.normalise()
	}
	r.journal = logs
	for _, log := range s.logs {
		log.journal = logs[log.id]
	}
	return nil
}

// endJournal counts the records that only the journal has, checking all
// batches.
func (r *run) endJournal(w *window, j *Journal) error {
	err := j.replay(w, func(e *journalEntry) error {
		l := r.journal[e.ID]
		if e.Kind != journal.Batch || l == nil || e.ordinal < l.deleted {
			return nil
		}
		err := w.batchesOf(e, func(pos int64, info segstore.BatchInfo) error {
			r.countJournaled(l, info)
			return r.references(w, pos, info, e.ID, e.file.name, l.settled)
		})
		if isBatchError(err) {
			e.file.report.add(Damage, e.data, e.dataBytes, "no good batch of log %#x: %v; the broker refuses to start on it", e.ID, err)
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, f := range j.files {
		r.report.merge(f.report)
	}
	for id, l := range r.journal {
		if l.unsettled > 0 {
			r.report.LogIDs = append(r.report.LogIDs, id)
		}
	}
	slices.Sort(r.report.LogIDs)
	r.report.LogIDs = slices.Compact(r.report.LogIDs)
	r.report.Logs = len(r.report.LogIDs)
	return nil
}

// countJournaled counts a batch, unless a segment has it or it was carried from
// one file to the other and comes a second time.
func (r *run) countJournaled(l *journalLog, info segstore.BatchInfo) {
	if l.covered.count(info.Base, info.End) > 0 {
		return
	}
	l.covered.insert(info.Base, info.End)
	records := info.End - info.Base
	unsettled := records - l.settled.count(info.Base, info.End)
	l.unsettled += unsettled
	r.report.Batches++
	r.report.Records += records
	r.report.Unsettled += unsettled
	r.report.Journal.Records += records
}

// batchesOf verifies the batches of an entry and visits them. The error is
// visit's, a failed read, or a batchError.
func (w *window) batchesOf(e *journalEntry, visit func(pos int64, info segstore.BatchInfo) error) error {
	limit := w.limit
	defer func() { w.limit = limit }()
	end := e.data + e.dataBytes
	for pos := e.data; pos < end; {
		w.limit = end
		info, err := w.batch(pos)
		if err != nil {
			return err
		}
		w.limit = limit
		if err := visit(pos, info); err != nil {
			return err
		}
		pos += info.Bytes
	}
	return nil
}
