package segstore

import (
	"encoding/binary"
	"errors"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// Record is one record as a Reader sees it. Body is a view, valid until the
// Reader leaves the chunk (Seek) or is closed.
type Record struct {
	Body      []byte
	Offset    uint64
	Timestamp int64 // Unix milliseconds
	Template  int   // number in the current batch, see Reader.Template
}

// Reader walks the records of a log. It pins the chunk it stands in, so that
// bytes it returned stay valid whatever happens to the log. Used by one
// goroutine at a time; different Readers are independent.
type Reader struct {
	log *Log
	buf *arena.Buf // pinned, nil when unpositioned

	block *block // what buf belongs to when it is behind the tail

	data      []byte // whole batches
	pos       int    // of the record at offset
	batchEnd  int    // end of the current batch in data
	offset    uint64 // of the next record
	end       uint64 // offset after the current batch
	base      uint64 // first offset of the current batch
	timestamp int64
	batchPos  int
	seq       uint64

	query *Query // nil: all is wanted

	positions   *Positions // nil: none; see positions.go
	places      *placed    // of the batch with number placesFor, unless its stamp is another
	placesStamp uint64
	placesFor   uint64

	templates    []uint32 // positions in data of the current batch's templates
	templatesFor uint64   // the seq they were found for

	// Guarded by log.mu.
	behind  bool   // counted in log.back.readers
	pending *fetch // will wake this reader
	ready   *block // handed over by a fetch, retained
	failed  error  // of a fetch, for the next Seek
}

// NewReader returns an unpositioned reader; Seek comes first.
func (l *Log) NewReader() *Reader { return &Reader{log: l} }

// Seek positions the reader at offset, which must be below Next.
//
// ErrNotResident means that the bytes are being read from disk: wake is then
// called once, from another goroutine, when it is worth trying again, also
// after a failure; it must not block. A later Seek or Close of this reader
// cancels it. ErrMissing tells that there is no such record and where the next
// one may be. Any other error is a failed read. After an error the reader is
// unpositioned: Next returns false.
//
// Seeking forward inside the current chunk takes no lock.
func (r *Reader) Seek(offset uint64, wake func()) error {
	if r.buf != nil && offset >= r.base {
		if offset < r.end {
			r.walk(offset)
			return nil
		}
		// A hole here may be filled by a chunk, see replay.go: ask the log then.
		if found, err := r.enter(r.batchEnd, offset); found && err == nil {
			return nil
		}
	}
	return r.seekLog(offset, wake)
}

// seekLog looks the offset up in the log: resident chunks, then blocks.
func (r *Reader) seekLog(offset uint64, wake func()) error {
	l := r.log
	l.mu.Lock()
	r.cancel()
	c, above := l.chunkAt(offset)
	if c == nil {
		b, err := l.seekBack(r, offset, above, wake)
		l.mu.Unlock()
		if err != nil {
			r.unpin()
			return err
		}
		return r.enterBlock(b, offset, above)
	}
	r.leaveBack()
	from := c.posBefore(offset)
	if c.buf != r.buf {
		c.buf.Retain()
		r.unpin()
		r.buf = c.buf
	} else if offset >= r.end && r.end > r.base {
		from = max(from, r.batchEnd)
	}
	r.data = c.data[:c.used:c.used]
	l.mu.Unlock()
	_, err := r.enter(from, offset)
	if err != nil {
		r.unpin()
	}
	return err
}

// enterBlock takes over the reference that seekBack got on the block. above is
// the first resident offset after offset.
func (r *Reader) enterBlock(b *block, offset, above uint64) error {
	r.unpin()
	if b.buf == nil {
		b.release()
		return ErrMissing{Next: min(b.to, max(above, offset+1))}
	}
	r.buf, r.data, r.block = b.buf, b.data, b
	found, err := r.enter(0, offset)
	var missing ErrMissing
	switch {
	case err == nil && !found:
		err = ErrMissing{Next: min(b.to, above)}
	case errors.As(err, &missing):
		err = ErrMissing{Next: min(missing.Next, above)}
	}
	if err != nil {
		r.unpin()
	}
	return err
}

// enter walks batches from position pos to the one that holds offset and
// positions the reader there. It reports false when the data ends before.
func (r *Reader) enter(pos int, offset uint64) (bool, error) {
	for pos < len(r.data) {
		h := r.data[pos : pos+batchHeaderBytes]
		if end := batchEnd(h); offset >= end {
			pos += batchLength(h)
			continue
		}
		base := batchBase(h)
		if offset < base {
			return false, ErrMissing{Next: base}
		}
		if r.query != nil && r.query.passes(r.data[pos:pos+batchLength(h)]) {
			return false, r.pass(pos)
		}
		r.seq++
		r.batchPos, r.batchEnd = pos, pos+batchLength(h)
		r.base, r.end = base, batchEnd(h)
		r.timestamp = batchTimestamp(h)
		r.rewind()
		r.walk(offset)
		return true, nil
	}
	return false, nil
}

// pass looks for the next batch that the query may want behind the one at pos.
func (r *Reader) pass(pos int) error {
	next := uint64(0)
	for pos < len(r.data) {
		batch := r.data[pos : pos+batchLength(r.data[pos:])]
		if !r.query.passes(batch) {
			return ErrMissing{Next: batchBase(batch)}
		}
		next = batchEnd(batch)
		pos += len(batch)
	}
	return ErrMissing{Next: next}
}

// rewind stands before the first record of the current batch.
func (r *Reader) rewind() {
	r.offset = r.base
	r.pos = r.batchPos + batchHeaderBytes + batchTemplateBytes(r.data[r.batchPos:])
}

// walk moves inside the current batch to the record at offset.
func (r *Reader) walk(offset uint64) {
	if offset < r.offset {
		r.rewind()
	}
	if r.positions != nil && offset-r.offset >= walkMax {
		r.jump(offset)
	}
	r.step(offset)
}

// step moves forward to the record at offset, one by one.
func (r *Reader) step(offset uint64) {
	data, pos := r.data, r.pos
	for at := r.offset; at < offset; at++ {
		head, w := binary.Uvarint(data[pos:])
		pos += w
		if head&1 != 0 {
			_, w = binary.Uvarint(data[pos:])
			pos += w
		}
		n, w := binary.Uvarint(data[pos:])
		pos += w + int(n)
	}
	r.pos, r.offset = pos, offset
}

// Next fills rec with the next record of the current batch and moves on. At
// the end of the batch it returns false: Seek to the next offset then.
func (r *Reader) Next(rec *Record) bool {
	if r.offset >= r.end {
		return false
	}
	data, pos := r.data, r.pos
	head, n := uint64(data[pos]), uint64(data[pos+1])
	if head&1 == 0 && head < 0x80 && n < 0x80 {
		pos += 2
		rec.Timestamp = r.timestamp
	} else {
		pos, head, n = r.longHeader(rec)
	}
	end := pos + int(n)
	rec.Body = data[pos:end:end]
	rec.Offset = r.offset
	rec.Template = int(head >> 1)
	r.pos = end
	r.offset++
	return true
}

// NextAt is Next for the record at offset, which is not before the one that Next
// would return; false when it is not in the current batch: Seek to it then.
func (r *Reader) NextAt(offset uint64, rec *Record) bool {
	if offset >= r.end {
		return false
	}
	if offset != r.offset {
		r.walk(offset)
	}
	return r.Next(rec)
}

// longHeader decodes a record header in its general form.
func (r *Reader) longHeader(rec *Record) (pos int, head, n uint64) {
	head, w := binary.Uvarint(r.data[r.pos:])
	pos = r.pos + w
	rec.Timestamp = r.timestamp
	if head&1 != 0 {
		delta, w := binary.Uvarint(r.data[pos:])
		pos += w
		rec.Timestamp += int64(delta)
	}
	n, w = binary.Uvarint(r.data[pos:])
	return pos + w, head, n
}

// BatchSeq changes whenever the reader enters another batch; template numbers
// mean nothing across batches.
func (r *Reader) BatchSeq() uint64 { return r.seq }

// Template returns the parts of template i of the current batch, as views of
// the pinned chunk.
func (r *Reader) Template(i int) Template {
	if r.templatesFor != r.seq {
		r.findTemplates()
	}
	return decodeTemplate(r.data[r.templates[i]:])
}

func (r *Reader) findTemplates() {
	r.templates = r.templates[:0]
	h := r.data[r.batchPos:]
	pos := r.batchPos + batchHeaderBytes
	for range batchTemplates(h) {
		r.templates = append(r.templates, uint32(pos))
		for range 3 {
			n, w := binary.Uvarint(r.data[pos:])
			pos += w + int(n)
		}
	}
	r.templatesFor = r.seq
}

// unpin leaves the reader unpositioned.
func (r *Reader) unpin() {
	if r.block != nil {
		r.block.release()
	} else if r.buf != nil {
		r.buf.Release()
	}
	r.buf, r.data, r.block = nil, nil, nil
	r.offset, r.end, r.base = 0, 0, 0
}

// Close unpins the chunk and cancels a pending wake. The reader may be used
// again with Seek: consumers that wait for new records close theirs so as not
// to hold memory.
func (r *Reader) Close() {
	l := r.log
	l.mu.Lock()
	r.cancel()
	r.leaveBack()
	l.mu.Unlock()
	r.unpin()
}
