package broker

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Deduplication. A queue declared with x-message-deduplication takes each value
// of a header (x-deduplication-header unless the argument of that name says
// otherwise) once: a message with a value that it has seen is dropped, and
// confirmed like one that was taken. It remembers the last x-cache-size values,
// and those of the batch at hand, each for x-cache-ttl at most; a message's own
// header x-cache-ttl comes first.
// Messages without the header are never duplicates.
//
// Values are kept as hashes, in the order of their arrival, which makes a log of
// them: one small record for each, settled when the value is forgotten. It stands
// beside the queue's own, its id is in the queue's definition, and a start reads
// it back. A crash may lose the values of the last moments, like
// acknowledgements. It must not leave the value of a message that it lost: the
// publisher would repeat it, and be told that it is there. So a record says how
// far the logs of the message's queues reached when it was in them; a value does
// not count if one of them reaches less far.
//
// Exchanges do the same, see dedupexchange.go.

const (
	dedupHeaderDefault = "x-deduplication-header"
	dedupSizeDefault   = 128
	dedupSizeMax       = 10_000_000
	dedupRecordBytes   = 24 // without the marks
)

// dedupMark says that a queue's log reached up to end.
type dedupMark struct{ id, end uint64 }

// mark notes how far the logs of those queues reach that survive a restart. The
// result is valid until the next call.
func (d *dedup) mark(queues ...*Queue) []dedupMark {
	d.marks = d.marks[:0]
	for _, q := range queues {
		if q.Durable && q.Owner == nil {
			d.marks = append(d.marks, dedupMark{q.ID, q.log.Next()})
		}
	}
	return d.marks
}

// dedupValue is a hash of a header's value: the first half of SHA-256, because
// it must be the same after a restart and publishers may be hostile.
type dedupValue [16]byte

// dedup is part of an upkeep; guarded by Queue.mu.
type dedup struct {
	header string
	size   int
	ttl    int64 // ms

	until map[dedupValue]int64 // the first ms at which the value is forgotten
	order []dedupEntry         // in the order of arrival, from head on
	head  int
	log   *segstore.Log // nil: not kept
	base  uint64        // offset in the log of the entry at head

	// Scratch of judge and remember: busy queues see thousands of batches a second.
	here       map[dedupValue]int // the number of the first record
	fresh      []dedupEntry
	duplicates []int
	repeats    []dedupRepeat
	marks      []dedupMark
	encoded    []byte
	batch      *segstore.Batch
}

// dedupScratchMax bounds, in records of a batch, what is kept for the next one.
const dedupScratchMax = 2048

type dedupEntry struct {
	value dedupValue
	until int64
	at    int // of the record in its batch; while it is published
}

func newDedup(s *settings) *dedup {
	return &dedup{header: s.dedupHeader, size: int(min(s.dedupSize, 1<<30)), ttl: s.dedupTTL, until: map[dedupValue]int64{}}
}

// dedupRepeat is a duplicate of a record of the same batch: what becomes of that
// is true of both.
type dedupRepeat struct{ at, of int }

// withRepeats adds to the refused records their repeats.
func withRepeats(refused []int, repeats []dedupRepeat) []int {
	var more []int
	for _, r := range repeats {
		if _, found := slices.BinarySearch(refused, r.of); found {
			more = append(more, r.at)
		}
	}
	return MergeRefused(refused, more)
}

// judge splits a batch: which records are duplicates, those of them that repeat
// others of the batch, and the values of the rest.
// All are valid until the next call.
func (d *dedup) judge(b *segstore.Batch, now int64) (duplicates []int, repeats []dedupRepeat, fresh []dedupEntry) {
	if d.here == nil || len(d.here)+len(d.duplicates) > dedupScratchMax {
		d.here, d.fresh, d.duplicates, d.repeats = map[dedupValue]int{}, nil, nil, nil
	}
	clear(d.here)
	duplicates, repeats, fresh = d.duplicates[:0], d.repeats[:0], d.fresh[:0]
	b.Each(func(i int, t segstore.Template, _ []byte) {
		value, ttl, ok := d.valueOf(t.Properties)
		if !ok {
			return
		}
		first, twice := d.here[value]
		if twice || d.until[value] > now {
			duplicates = append(duplicates, i)
			if twice {
				repeats = append(repeats, dedupRepeat{i, first})
			}
			return
		}
		d.here[value] = i
		fresh = append(fresh, dedupEntry{value, later(now, ttl), i})
	})
	d.duplicates, d.repeats, d.fresh = duplicates, repeats, fresh
	return duplicates, repeats, fresh
}

func (d *dedup) valueOf(properties []byte) (value dedupValue, ttl int64, ok bool) {
	p, err := amqp.DecodeProperties(clearMarks(properties))
	if err != nil || p.Flags&amqp.FlagHeaders == 0 {
		return value, 0, false
	}
	v, ok := p.Headers.Lookup(d.header)
	if !ok {
		return value, 0, false
	}
	d.encoded = v.Append(d.encoded[:0])
	sum := sha256.Sum256(d.encoded)
	ttl = d.ttl
	if own, ok := p.Headers.Lookup("x-cache-ttl"); ok {
		if n, ok := own.Int64(); ok && n >= 0 {
			ttl = n
		}
	}
	return dedupValue(sum[:]), ttl, true
}

// remember keeps the values of accepted records, and forgets the oldest. marks
// say where the records are.
func (d *dedup) remember(store *segstore.Store, entries []dedupEntry, marks []dedupMark, now int64) error {
	if len(entries) == 0 {
		return nil
	}
	var err error
	if d.log != nil {
		if d.batch == nil {
			d.batch = store.NewBatch()
		}
		b := d.batch
		b.Reset(now)
		t := b.Template(nil, nil, nil)
		record := entries[0].record(d.encoded[:0], marks)
		for i := range entries {
			entries[i].put(record)
			b.Add(t, record)
		}
		d.encoded = record
		_, err = d.log.Append(b)
		b.Release()
		if err != nil {
			d.log = nil // it is fenced, and gets no more than it has; see resume
		}
	}
	for _, e := range entries {
		d.add(e)
	}
	return err
}

// record appends the record of a value to dst.
func (e *dedupEntry) record(dst []byte, marks []dedupMark) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, dedupRecordBytes)...)
	e.put(dst[at:])
	for _, m := range marks {
		dst = binary.AppendUvarint(binary.AppendUvarint(dst, m.id), m.end)
	}
	return dst
}

// put writes the part of the record that is the value's own.
func (e *dedupEntry) put(record []byte) {
	copy(record, e.value[:])
	binary.LittleEndian.PutUint64(record[16:], uint64(e.until))
}

// add puts a value behind the others.
func (d *dedup) add(e dedupEntry) {
	d.order = append(d.order, e)
	d.until[e.value] = e.until
	n := uint64(0)
	for len(d.order)-d.head > d.size {
		if oldest := d.order[d.head]; d.until[oldest.value] == oldest.until {
			delete(d.until, oldest.value)
		}
		d.head++
		n++
	}
	if n > 0 && d.log != nil {
		d.log.Settle(d.base, n)
	}
	d.base += n
	if d.head > 64 && d.head > len(d.order)/2 {
		d.order = append(d.order[:0], d.order[d.head:]...)
		d.head = 0
	}
}

// read takes back what the log has, at the start; lost says that the log of that
// id does not reach up to end.
func (d *dedup) read(log *segstore.Log, lost func(id, end uint64) bool) error {
	d.base = log.Low()
	next := d.base
	err := readLog(log, func(offset uint64, body []byte) {
		for ; next < offset; next++ { // damaged: the place is kept, so that offsets are right
			d.add(dedupEntry{})
		}
		if len(body) >= dedupRecordBytes && !anyLost(body[dedupRecordBytes:], lost) {
			d.add(dedupEntry{value: dedupValue(body[:16]), until: int64(binary.LittleEndian.Uint64(body[16:]))})
		} else {
			d.add(dedupEntry{})
		}
		next++
	})
	if err != nil {
		return err
	}
	for ; next < log.Next(); next++ {
		d.add(dedupEntry{})
	}
	if n := d.base - log.Low(); d.base > log.Low() {
		log.Settle(log.Low(), n)
	}
	d.log = log
	return nil
}

// anyLost says that of one of the marks.
func anyLost(marks []byte, lost func(id, end uint64) bool) bool {
	r := &reader{rest: marks}
	for len(r.rest) > 0 {
		if id, end := r.num(), r.num(); r.err != nil || lost(id, end) {
			return true
		}
	}
	return false
}

// openDedup gives a new queue the log of values that it needs; the caller holds
// VHost.mu.
func (vh *VHost) openDedup(q *Queue) error {
	if q.upkeep == nil || q.upkeep.dedup == nil || !q.Durable || q.Owner != nil {
		return nil
	}
	side := q.needSides()
	side.dedupID = vh.broker.newLogID()
	var err error
	if side.dedupLog, err = vh.broker.store.OpenLog(side.dedupID, segstore.LogOptions{}); err == nil {
		err = q.upkeep.dedup.read(side.dedupLog, nil)
	}
	if err != nil {
		return amqp.Errorf(amqp.CodeInternalError, 0, "cannot open the log of queue '%s' in vhost '%s': %v", q.Name, vh.Name, err)
	}
	return nil
}

// readDedup reads the queue's log of values, before anybody uses it; nil when the
// queue does not look at them any more. It waits for the disk.
func (q *Queue) readDedup(log *segstore.Log) (*dedup, error) {
	policy, operator := q.applied.Load().definitions()
	s := effective(q.Arguments, policy, operator)
	if q.stream != nil || s == nil || !s.dedups {
		return nil, nil
	}
	d := newDedup(s)
	return d, d.read(log, func(id, end uint64) bool { return id == q.ID && q.log.Next() < end })
}

// readLog calls visit for each unsettled record of a log. It waits for the disk.
func readLog(log *segstore.Log, visit func(offset uint64, body []byte)) error {
	r := log.NewReader()
	defer r.Close()
	woken := make(chan struct{}, 1)
	var rec segstore.Record
	for at := log.Low(); at < log.Next(); {
		first, n := log.NextUnsettled(at, log.Next()-at)
		if n == 0 {
			break
		}
		at = first
		err := r.Seek(at, func() { woken <- struct{}{} })
		if errors.Is(err, segstore.ErrNotResident) {
			<-woken
			continue
		}
		if next, ok := missing(err); ok {
			at = next
			continue
		}
		if err != nil {
			return err
		}
		for n > 0 && r.Next(&rec) {
			visit(rec.Offset, rec.Body)
			at, n = at+1, n-1
		}
	}
	return nil
}
