package histories

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
)

// liveReader is a Reader that stays at its place between operations.
type liveReader struct {
	reader *segstore.Reader
	at     uint64 // the offset it wants next
	pinned segstore.Record
	holds  bool // pinned is what Next returned last and must still be readable
}

func (l *liveLog) closeReaders() {
	for _, r := range l.readers {
		r.reader.Close()
		r.reader.Close()
	}
	l.readers = nil
}

// seek waits out ErrNotResident.
func (w *world) seek(r *segstore.Reader, offset uint64) error {
	for {
		woken := make(chan struct{}, 1)
		var wakes atomic.Int32
		err := r.Seek(offset, func() {
			if wakes.Add(1) == 1 {
				woken <- struct{}{}
			}
		})
		if !errors.Is(err, segstore.ErrNotResident) {
			if wakes.Load() > 0 {
				fail("Seek called wake without ErrNotResident")
			}
			return err
		}
		w.release()
		select {
		case <-woken:
		case <-time.After(time.Minute):
			fail("promise 1: Seek(%d): not woken in a minute", offset)
		}
		synctest.Wait() // for the order of things, and to see a second wake
		if wakes.Load() > 1 {
			fail("Seek(%d): woken %d times", offset, wakes.Load())
		}
	}
}

// readable is the outcome of reading one offset.
type readable uint8

const (
	readRecord  readable = iota
	readMissing          // ErrMissing
	readNothing          // the disk is dead or failing
)

// checkRecord compares a record with what was appended at its offset.
func (w *world) checkRecord(l *liveLog, r *segstore.Reader, rec *segstore.Record) {
	if rec.Offset >= l.model.Next() {
		fail("log %d: promise 6: record %d was read, next is %d", l.model.ID, rec.Offset, l.model.Next())
	}
	want := &l.model.Records[rec.Offset]
	if want.Serial == 0 && want.Damaged {
		return
	}
	if want.Serial == 0 {
		fail("log %d: promise 6: record %d was read, nothing was ever there", l.model.ID, rec.Offset)
	}
	if !want.SameBody(rec.Body) {
		fail("log %d: promise 6: record %d has a body of %d bytes that is not its own (%d bytes)", l.model.ID, rec.Offset, len(rec.Body), want.Size)
	}
	t := r.Template(rec.Template)
	exchange, routingKey, properties := templateParts(want.Template)
	if !bytes.Equal(t.Exchange, exchange) || !bytes.Equal(t.RoutingKey, routingKey) || !bytes.Equal(t.Properties, properties) {
		fail("log %d: promise 6: record %d has another template", l.model.ID, rec.Offset)
	}
	if rec.Timestamp != want.Timestamp {
		fail("log %d: promise 6: record %d has timestamp %d, want %d", l.model.ID, rec.Offset, rec.Timestamp, want.Timestamp)
	}
}

// walk reads [from, to) and calls visit with the outcome for each offset.
func (w *world) walk(l *liveLog, r *segstore.Reader, from, to uint64, visit func(o uint64, got readable)) {
	for at := from; at < to; {
		err := w.seek(r, at)
		var missing segstore.ErrMissing
		switch {
		case errors.As(err, &missing):
			if missing.Next <= at {
				fail("log %d: ErrMissing at %d says %d is next", l.model.ID, at, missing.Next)
			}
			for ; at < min(to, missing.Next); at++ {
				visit(at, readMissing)
			}
			continue
		case err != nil:
			if !w.crashed() && !w.fencing {
				fail("log %d: Seek(%d): %v", l.model.ID, at, err)
			}
			visit(at, readNothing)
			at++
			continue
		}
		before := at
		var rec segstore.Record
		for at < to && r.Next(&rec) {
			if rec.Offset != at {
				fail("log %d: promise 1: Next gave %d instead of %d", l.model.ID, rec.Offset, at)
			}
			w.checkRecord(l, r, &rec)
			visit(at, readRecord)
			at++
		}
		if at == before {
			fail("log %d: Seek(%d) worked, but there is no record", l.model.ID, at)
		}
	}
}

// readRange reads [from, to): what is unsettled must be there, unless its bytes
// are damaged; then it is settled, as the broker does.
func (w *world) readRange(l *liveLog, from, to uint64) {
	r := l.log.NewReader()
	defer r.Close()
	w.walk(l, r, from, to, func(o uint64, got readable) { w.checkReadable(l, o, got) })
}

func (w *world) checkReadable(l *liveLog, o uint64, got readable) {
	if rec := &l.model.Records[o]; got == readMissing && !rec.Settled {
		if !rec.Damaged {
			fail("log %d: promise 1 or 9: unsettled record %d is missing", l.model.ID, o)
		}
		if w.store.Stats().CorruptBatches == 0 && w.lines.warnings.Load() == 0 {
			fail("log %d: promise 9: record %d is missing and nobody was told", l.model.ID, o)
		}
		w.settle(l, o, 1)
	}
}

// moveReaders moves readers that stay from operation to operation.
func (w *world) moveReaders(l *liveLog, rng *rand.Rand) {
	next := l.model.Next()
	if next == 0 {
		return
	}
	if len(l.readers) < 4 && rng.IntN(3) == 0 || len(l.readers) == 0 {
		l.readers = append(l.readers, &liveReader{reader: l.log.NewReader(), at: rng.Uint64N(next)})
	}
	r := l.readers[rng.IntN(len(l.readers))]
	w.checkPinned(l, r)
	r.holds = false
	switch rng.IntN(8) {
	case 0:
		r.reader.Close()
		return
	case 1:
		r.at = rng.Uint64N(next)
	}
	for range pick(rng, 1, 4, 30) {
		if r.at >= next || !w.moveReader(l, r) {
			return
		}
	}
}

// moveReader reads one record; false if it could not.
func (w *world) moveReader(l *liveLog, r *liveReader) bool {
	var rec segstore.Record
	if !r.holds || !r.reader.Next(&rec) {
		err := w.seek(r.reader, r.at)
		var missing segstore.ErrMissing
		switch {
		case errors.As(err, &missing):
			r.holds = false
			for ; r.at < min(missing.Next, l.model.Next()); r.at++ {
				w.checkReadable(l, r.at, readMissing)
			}
			return false
		case err != nil:
			if !w.crashed() && !w.fencing {
				fail("log %d: Seek(%d): %v", l.model.ID, r.at, err)
			}
			r.holds = false
			return false
		}
		if !r.reader.Next(&rec) {
			fail("log %d: Seek(%d) worked, but there is no record", l.model.ID, r.at)
		}
	}
	if rec.Offset != r.at {
		fail("log %d: promise 1: a reader at %d got %d", l.model.ID, r.at, rec.Offset)
	}
	w.checkRecord(l, r.reader, &rec)
	r.pinned, r.holds = rec, true
	r.at++
	return true
}

// checkPinned: what a reader stands on does not change.
func (w *world) checkPinned(l *liveLog, r *liveReader) {
	if r.holds && !l.model.Records[r.pinned.Offset].SameBody(r.pinned.Body) {
		fail("log %d: promise 1: the bytes of record %d changed under a reader", l.model.ID, r.pinned.Offset)
	}
}

// checkCounts compares what costs little.
func (w *world) checkCounts(rng *rand.Rand) {
	for _, l := range w.logs {
		if l.log == nil {
			continue
		}
		m := l.model
		if l.log.Next() != m.Next() || l.log.Low() != m.Low() || l.log.Unsettled() != m.Unsettled() || l.log.Cursor() != m.Cursor() {
			fail("log %d: promise 1: next %d low %d unsettled %d cursor %d, want %d %d %d %d", m.ID,
				l.log.Next(), l.log.Low(), l.log.Unsettled(), l.log.Cursor(), m.Next(), m.Low(), m.Unsettled(), m.Cursor())
		}
		if rng.IntN(8) == 0 {
			w.checkRuns(l, pick[uint64](rng, 1, 7, NoOffset))
		}
		for _, r := range l.readers {
			w.checkPinned(l, r)
		}
	}
}

// checkRuns compares all runs of unsettled offsets.
func (w *world) checkRuns(l *liveLog, limit uint64) {
	for from := uint64(0); ; {
		first, count := l.log.NextUnsettled(from, limit)
		wantFirst, wantCount := l.model.NextUnsettled(from, limit)
		if count != wantCount || count > 0 && first != wantFirst {
			fail("log %d: promise 1: NextUnsettled(%d, %d) = %d, %d; want %d, %d", l.model.ID, from, limit, first, count, wantFirst, wantCount)
		}
		if count == 0 {
			return
		}
		from = first + count
	}
}

// checkContent reads all logs.
func (w *world) checkContent() {
	for _, l := range w.logs {
		if l.log != nil {
			w.checkRuns(l, NoOffset)
			w.readRange(l, 0, l.model.Next())
		}
	}
}

// readFound reads a log that was just opened; false if the disk died meanwhile.
func (w *world) readFound(l *liveLog) (Found, bool) {
	id := l.model.ID
	f := Found{Next: l.log.Next(), Cursor: l.log.Cursor(), Durable: l.log.Durable()}
	if err := l.model.Expect(f.Next); err != nil {
		fail("%v", err)
	}
	f.Unsettled = make([]bool, f.Next)
	count, low := uint64(0), f.Next
	for from := uint64(0); ; {
		first, n := l.log.NextUnsettled(from, 50)
		if n == 0 {
			break
		}
		if first < from || first+n > f.Next || n > 50 {
			fail("log %d: NextUnsettled(%d, 50) = %d, %d; next %d", id, from, first, n, f.Next)
		}
		for o := first; o < first+n; o++ {
			f.Unsettled[o] = true
		}
		low = min(low, first)
		count += n
		from = first + n
	}
	if l.log.Low() != low || l.log.Unsettled() != count || f.Durable > f.Next || f.Cursor > f.Next || f.Durable+l.model.Skip < low {
		fail("log %d: promise 1: after opening: next %d, low %d, durable %d, cursor %d, unsettled %d; by runs low %d, unsettled %d",
			id, f.Next, l.log.Low(), f.Durable, f.Cursor, l.log.Unsettled(), low, count)
	}
	r := l.log.NewReader()
	defer r.Close()
	w.walk(l, r, 0, f.Next, func(o uint64, got readable) {
		if !f.Unsettled[o] || got != readMissing {
			return
		}
		// Where both settlements and an index are damaged, a hole may look like a
		// record; whoever reads there learns better.
		rec := &l.model.Records[o]
		if !rec.Damaged && !(rec.Settled && l.model.AcksDamaged) && !w.tainted {
			fail("log %d: promise 6: record %d is unsettled and missing after %s", id, o, l.model.loss)
		}
		rec.Damaged = true
		l.log.Settle(o, 1)
		f.Unsettled[o] = false
	})
	return f, !w.crashed()
}

// adopt compares an opened log with its model; false if the disk died.
func (w *world) adopt(l *liveLog) bool {
	f, ok := w.readFound(l)
	if !ok {
		l.log = nil // its model still waits to be compared
		return false
	}
	if l.model.loss != LossNone {
		w.note("  log %d after %s: next %d of %d", l.model.ID, l.model.loss, f.Next, l.model.Next())
	}
	if err := l.model.Adopt(f, w.tainted); err != nil {
		fail("%v", err)
	}
	return true
}

// checkRested: with nothing failing, all is written, and synced if level says.
func (w *world) checkRested(level Loss) {
	transients := false
	for _, l := range w.logs {
		transients = transients || l.model.Transient
		if l.log == nil || w.fencing && (w.fencedLog == 0 || w.fencedLog == l.model.ID) {
			continue
		}
		if level == LossPower && l.log.Durable() != l.model.Next() {
			fail("log %d: promise 5: durable %d, next %d after three sync intervals", l.model.ID, l.log.Durable(), l.model.Next())
		}
		l.model.Rested(level)
	}
	if w.fencing {
		return
	}
	if stats := w.store.Stats(); stats.UnwrittenBytes != 0 && !transients {
		fail("promise 5: %d bytes are unwritten after six flush intervals", stats.UnwrittenBytes)
	}
	if m := &w.meta.model; level == LossPower && w.store.MetaDurable() != m.WantDurable() {
		fail("promise 11: MetaDurable is %d, the last record %d", w.store.MetaDurable(), m.Last())
	}
	if w.store.NoSpace() {
		fail("promise 8: there is space and NoSpace")
	}
	if level == LossPower && w.store.Pressured() {
		fail("pressure after a rest: %+v", w.store.Stats())
	}
	for _, d := range w.deleted {
		d.rested = d.rested || d.fresh && level == LossPower
	}
}
