package schedule

import (
	"encoding/binary"
	"math"
)

// Entry says when the message at an offset is due.
type Entry struct {
	Due    int64 // Unix ms, not negative
	Offset uint64
}

func (e Entry) before(o Entry) bool {
	return e.Due < o.Due || e.Due == o.Due && e.Offset < o.Offset
}

func compare(a, b Entry) int {
	switch {
	case a.before(b):
		return -1
	case b.before(a):
		return 1
	}
	return 0
}

// header is what a block says of its run.
type header struct {
	last     bool
	run      uint64
	level    uint64
	sequence uint64
	covered  uint64
}

func appendBlock(dst []byte, h header, entries []Entry) []byte {
	last := byte(0)
	if h.last {
		last = 1
	}
	dst = append(dst, last)
	for _, n := range [...]uint64{h.run, h.level, h.sequence, h.covered, uint64(len(entries))} {
		dst = binary.AppendUvarint(dst, n)
	}
	var before Entry
	for _, e := range entries {
		dst = binary.AppendUvarint(dst, uint64(e.Due-before.Due))
		dst = binary.AppendVarint(dst, int64(e.Offset-before.Offset))
		before = e
	}
	return dst
}

// decodeBlock appends the entries of a block to dst; ok is false when body is
// none. Entries ascend.
func decodeBlock(body []byte, dst []Entry) (h header, entries []Entry, ok bool) {
	if len(body) == 0 || body[0] > 1 {
		return h, dst, false
	}
	h.last, body = body[0] == 1, body[1:]
	var count uint64
	for _, n := range [...]*uint64{&h.run, &h.level, &h.sequence, &h.covered, &count} {
		v, w := binary.Uvarint(body)
		if w <= 0 {
			return h, dst, false
		}
		*n, body = v, body[w:]
	}
	if count == 0 || count > blockEntries {
		return h, dst, false
	}
	var e Entry
	for i := range count {
		before := e
		due, w := binary.Uvarint(body)
		if w <= 0 || due > uint64(math.MaxInt64-e.Due) {
			return h, dst, false
		}
		offset, v := binary.Varint(body[w:])
		if v <= 0 {
			return h, dst, false
		}
		body = body[w+v:]
		e = Entry{e.Due + int64(due), e.Offset + uint64(offset)}
		if i > 0 && !before.before(e) {
			return h, dst, false
		}
		dst = append(dst, e)
	}
	return h, dst, len(body) == 0
}
