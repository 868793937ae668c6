package segstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

const (
	// BatchBytesTarget is the encoded size at which callers commit a batch. A
	// single record may make a batch larger. It is a little less than 64 KiB so
	// that four batches of small records fit into the largest chunk and into a
	// block read from disk, instead of three.
	BatchBytesTarget = 63 * arena.KiB
	// BodyBytesMax bounds one body, so that a batch's length fits its u32.
	BodyBytesMax = 1 << 31

	templatesMax     = math.MaxUint16
	templateBytesMax = BatchBytesTarget
)

// Batch builds one record batch: Reset, then Template and Add for each
// record, then Log.Append (to as many logs as needed), then Reset again. Its
// two buffers come from the arena; Release gives them back when the owner goes
// idle. Used by one goroutine at a time.
type Batch struct {
	pool      *arena.Pool
	records   *arena.Buf
	data      []byte // records.Bytes()
	pos       int    // bytes of data in use
	count     int
	delta     uint64 // milliseconds since timestamp, of the records to come
	timestamp int64

	filter []byte // see filter.go

	wanted bool // see WantDurable

	bodyBytes uint64 // of the records

	open    int // start of the record being written in pieces, -1 none
	openEnd int // where its body must end

	templates    *arena.Buf
	templateData []byte
	templatePos  int
	templateN    int
	last         Template // views of the template used last, number lastN
	lastN        int
	starts       []uint32 // byte position of each template in templateData
	table        []uint16 // open addressing: template number + 1, 0 is free
	tabled       bool     // all templates are in table; false while there is one
}

// Template is what a run of records has in common: views, valid as long as
// the bytes they point into.
type Template struct{ Exchange, RoutingKey, Properties []byte }

var templateSeed = maphash.MakeSeed()

// NewBatch returns an empty batch; call Reset before the first record.
func NewBatch(p *arena.Pool) *Batch { return &Batch{pool: p, open: -1, lastN: -1} }

// NewBatch makes a batch whose buffers come from the store's arena.
func (s *Store) NewBatch() *Batch { return NewBatch(s.arena) }

// Reset empties the batch, keeping its buffers. timestampMs is the time of the
// records to come, Unix milliseconds.
func (b *Batch) Reset(timestampMs int64) {
	b.pos, b.count, b.bodyBytes, b.delta, b.open = 0, 0, 0, 0, -1
	b.timestamp = timestampMs
	if b.tabled {
		b.tabled = false
		if len(b.table) > 1024 && b.templateN < len(b.table)/16 {
			b.table = nil // a burst of keys is over: clearing costs its size
		}
		clear(b.table)
	}
	b.templatePos, b.templateN, b.lastN = 0, 0, -1
	b.starts = b.starts[:0]
	b.filter = b.filter[:0]
	b.wanted = false
}

// WantDurable has Append do what Log.WantDurable does, until Reset.
func (b *Batch) WantDurable() { b.wanted = true }

// Release gives the buffers back to the arena; the batch is empty after it and
// may be used again.
func (b *Batch) Release() {
	b.Reset(b.timestamp)
	if b.records != nil {
		b.records.Release()
		b.records, b.data = nil, nil
	}
	if b.templates != nil {
		b.templates.Release()
		b.templates, b.templateData = nil, nil
	}
	b.starts, b.table, b.last, b.tabled = nil, nil, Template{}, false
}

// SetTime gives the records to come a later time than Reset did; an earlier
// one is taken as equal.
func (b *Batch) SetTime(timestampMs int64) {
	b.delta = uint64(max(0, timestampMs-b.timestamp))
}

// Count is the number of records.
func (b *Batch) Count() int { return b.count }

// BodyBytes is how much of Size the bodies are.
func (b *Batch) BodyBytes() uint64 { return b.bodyBytes }

// Size is the encoded size in bytes, 0 when there is no record.
func (b *Batch) Size() int {
	if b.count == 0 {
		return 0
	}
	return batchHeaderBytes + b.templatePos + b.pos + b.filterSize()
}

// Template returns the number of the template with these three parts, adding
// it when it is new. It returns -1 when the batch can take no more templates:
// commit it and try again on an empty one.
func (b *Batch) Template(exchange, routingKey, properties []byte) int {
	if b.lastN >= 0 && bytes.Equal(routingKey, b.last.RoutingKey) &&
		bytes.Equal(exchange, b.last.Exchange) && bytes.Equal(properties, b.last.Properties) {
		return b.lastN
	}
	return b.otherTemplate(exchange, routingKey, properties)
}

// Templates is the number of templates, TemplateAt one of them: views.
func (b *Batch) Templates() int { return b.templateN }

// TemplateAt returns template i.
func (b *Batch) TemplateAt(i int) Template { return decodeTemplate(b.templateData[b.starts[i]:]) }

func (b *Batch) otherTemplate(exchange, routingKey, properties []byte) int {
	if b.templateN == 0 {
		return b.addTemplate(exchange, routingKey, properties)
	}
	if !b.tabled || b.templateN*2 >= len(b.table) {
		b.fillTable()
	}
	slot := b.slot(exchange, routingKey, properties)
	for ; b.table[slot] != 0; slot = (slot + 1) & (len(b.table) - 1) {
		n := int(b.table[slot]) - 1
		t := decodeTemplate(b.templateData[b.starts[n]:])
		if bytes.Equal(routingKey, t.RoutingKey) && bytes.Equal(exchange, t.Exchange) && bytes.Equal(properties, t.Properties) {
			b.last, b.lastN = t, n
			return n
		}
	}
	n := b.addTemplate(exchange, routingKey, properties)
	if n >= 0 {
		b.table[slot] = uint16(n + 1)
	}
	return n
}

func (b *Batch) slot(exchange, routingKey, properties []byte) int {
	h := maphash.Bytes(templateSeed, routingKey)
	h = h*31 + maphash.Bytes(templateSeed, exchange)
	h = h*31 + maphash.Bytes(templateSeed, properties)
	return int(h>>20) & (len(b.table) - 1)
}

// fillTable makes room for another template and puts all there are into the
// table, which is not used while there is only one.
func (b *Batch) fillTable() {
	if need := b.templateN * 2; need >= len(b.table) {
		b.table = make([]uint16, max(16, 2*len(b.table)))
	}
	for n, start := range b.starts {
		t := decodeTemplate(b.templateData[start:])
		slot := b.slot(t.Exchange, t.RoutingKey, t.Properties)
		for b.table[slot] != 0 {
			slot = (slot + 1) & (len(b.table) - 1)
		}
		b.table[slot] = uint16(n + 1)
	}
	b.tabled = true
}

func (b *Batch) addTemplate(exchange, routingKey, properties []byte) int {
	need := len(exchange) + len(routingKey) + len(properties) + 3*binary.MaxVarintLen32
	if b.templateN > 0 && (b.templateN+1 >= templatesMax || b.templatePos+need > templateBytesMax) {
		return -1
	}
	if b.templatePos+need > len(b.templateData) {
		b.templates, b.templateData = b.grow(b.templates, b.templatePos, need)
	}
	start := b.templatePos
	b.templatePos = len(AppendTemplate(b.templateData[:start], exchange, routingKey, properties))
	b.starts = append(b.starts, uint32(start))
	b.last, b.lastN = decodeTemplate(b.templateData[start:]), b.templateN
	b.templateN++
	return b.lastN
}

// AppendTemplate appends the encoded form of a template to dst, for FirstTemplate.
func AppendTemplate(dst, exchange, routingKey, properties []byte) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(exchange))), exchange...)
	dst = append(binary.AppendUvarint(dst, uint64(len(routingKey))), routingKey...)
	return append(binary.AppendUvarint(dst, uint64(len(properties))), properties...)
}

// FirstTemplate is Template for the first one of an empty batch, which has been
// encoded by AppendTemplate: who publishes the same again and again needs to look
// at none of the parts.
func (b *Batch) FirstTemplate(encoded []byte) int {
	if b.templateN > 0 {
		panic("segstore: FirstTemplate with templates in the batch")
	}
	if len(encoded) > len(b.templateData) {
		b.templates, b.templateData = b.grow(b.templates, 0, len(encoded))
	}
	b.templatePos = copy(b.templateData, encoded)
	b.starts = append(b.starts[:0], 0)
	b.templateN = 1 // with lastN still -1, Template finds it in the table
	return 0
}

// decodeTemplate returns views of the template at the start of data, which has
// been checked or was made here.
func decodeTemplate(data []byte) Template {
	var parts [3][]byte
	for i := range parts {
		n, w := binary.Uvarint(data)
		end := w + int(n)
		parts[i] = data[w:end:end]
		data = data[end:]
	}
	return Template{Exchange: parts[0], RoutingKey: parts[1], Properties: parts[2]}
}

// grow returns a buffer with room for need bytes after the first used ones:
// 4 KiB, then 64 KiB, 256 KiB, then as much as is needed.
func (b *Batch) grow(old *arena.Buf, used, need int) (*arena.Buf, []byte) {
	size := used + need
	switch {
	case size <= 4*arena.KiB && old == nil:
	case size <= 64*arena.KiB:
		size = 64 * arena.KiB
	case size <= arena.BufBytesMax:
		size = arena.BufBytesMax
	case old != nil && old.Len() >= arena.BufBytesMax && need < used:
		size = 2 * used // many records in a batch that should have been committed
	}
	buf := b.pool.Get(size)
	if old != nil {
		copy(buf.Bytes(), old.Bytes()[:used])
		old.Release()
	}
	return buf, buf.Bytes()
}

// Add appends one record with a number that Template returned.
func (b *Batch) Add(template int, body []byte) {
	if b.pos+len(body)+recordHeaderBytesMax > len(b.data) {
		b.makeRoom(len(body))
	}
	pos := b.pos
	if template < 64 && len(body) < 128 && b.delta == 0 {
		b.data[pos] = byte(template << 1)
		b.data[pos+1] = byte(len(body))
		pos += 2
	} else {
		pos = b.header(template, len(body))
	}
	b.pos = pos + copy(b.data[pos:], body)
	b.bodyBytes += uint64(len(body))
	b.count++
}

func (b *Batch) makeRoom(bodyLen int) {
	if bodyLen > BodyBytesMax || b.pos > math.MaxUint32-BodyBytesMax-templateBytesMax {
		panic(fmt.Sprintf("segstore: a body of %d bytes in a batch of %d: the limit is %d", bodyLen, b.pos, BodyBytesMax))
	}
	b.records, b.data = b.grow(b.records, b.pos, bodyLen+recordHeaderBytesMax)
}

// header writes a record header in its general form and returns its end.
func (b *Batch) header(template, bodyLen int) int {
	out := b.data[:b.pos]
	if b.delta == 0 {
		out = binary.AppendUvarint(out, uint64(template)<<1)
	} else {
		out = binary.AppendUvarint(out, uint64(template)<<1|1)
		out = binary.AppendUvarint(out, b.delta)
	}
	return len(binary.AppendUvarint(out, uint64(bodyLen)))
}

// Begin starts a record whose body arrives in pieces: Begin, Write until
// bodyLen bytes are there, End. Nothing else may be done to the batch in
// between, except Abort, Reset and Release.
func (b *Batch) Begin(template, bodyLen int) {
	if b.open >= 0 {
		panic("segstore: Begin inside a record")
	}
	if b.pos+bodyLen+recordHeaderBytesMax > len(b.data) {
		b.makeRoom(bodyLen)
	}
	b.open = b.pos
	b.pos = b.header(template, bodyLen)
	b.openEnd = b.pos + bodyLen
}

// Write appends a piece of the body that Begin announced.
func (b *Batch) Write(part []byte) {
	if b.open < 0 || b.pos+len(part) > b.openEnd {
		panic("segstore: Write outside of the announced body")
	}
	b.pos += copy(b.data[b.pos:b.openEnd], part)
}

// End completes the record.
func (b *Batch) End() {
	if b.open < 0 || b.pos != b.openEnd {
		panic("segstore: End before the announced body was written")
	}
	b.bodyBytes += b.openBody()
	b.open = -1
	b.count++
}

// openBody is the length that Begin was told.
func (b *Batch) openBody() uint64 {
	data := b.data[b.open:]
	head, n := binary.Uvarint(data)
	data = data[n:]
	if head&1 != 0 {
		_, n = binary.Uvarint(data)
		data = data[n:]
	}
	length, _ := binary.Uvarint(data)
	return length
}

// Abort drops the record that Begin started; without one it does nothing.
func (b *Batch) Abort() {
	if b.open >= 0 {
		b.pos, b.open = b.open, -1
	}
}

// encode writes the batch into dst, which has Size bytes, leaving the base
// offset and the checksum for later.
func (b *Batch) encode(dst []byte) {
	if b.open >= 0 {
		panic("segstore: Append inside a record")
	}
	h := dst[:batchHeaderBytes]
	binary.LittleEndian.PutUint16(h, batchMagic)
	h[2], h[batchFlagsPos] = batchVersion, 0
	binary.LittleEndian.PutUint32(h[batchLengthPos:], uint32(len(dst)))
	binary.LittleEndian.PutUint32(h[batchCountPos:], uint32(b.count))
	binary.LittleEndian.PutUint16(h[batchTemplateCountPos:], uint16(b.templateN))
	binary.LittleEndian.PutUint16(h[batchReservedPos:], 0)
	binary.LittleEndian.PutUint64(h[batchTimestampPos:], uint64(b.timestamp))
	binary.LittleEndian.PutUint32(h[batchTemplateBytesPos:], uint32(b.templatePos))
	copy(dst[batchHeaderBytes:], b.templateData[:b.templatePos])
	copy(dst[batchHeaderBytes+b.templatePos:], b.data[:b.pos])
	if len(b.filter) > 0 {
		b.encodeFilter(dst)
	}
}
