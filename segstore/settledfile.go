package segstore

import (
	"encoding/binary"
	"fmt"
)

// The settled file of a log: a header and records of fixed size. See doc.go.
const (
	settledName        = "settled"
	settledTempName    = "settled.tmp"
	settledMagic       = 0x4B43414C41534142 // "BASALACK"
	settledVersion     = 1
	settledHeaderBytes = 32
	settledRecordBytes = 24

	settledLow     = 1 // all offsets below a are settled
	settledRange   = 2 // offsets [a, b) are settled
	settledCursor  = 3 // the cursor is a
	settledPunched = 4 // in the segment with base offset a, a gain of b bytes was looked for
)

// settledFile is what the log knows of its settled file, which is written anew
// at checkpoints. Guarded by the log's mutex.
type settledFile struct {
	exists      bool
	entrySynced bool
}

func encodeSettledHeader(id uint64, createdMs int64) []byte {
	h := make([]byte, settledHeaderBytes)
	binary.LittleEndian.PutUint64(h, settledMagic)
	binary.LittleEndian.PutUint16(h[8:], settledVersion)
	binary.LittleEndian.PutUint64(h[16:], id)
	binary.LittleEndian.PutUint64(h[24:], uint64(createdMs))
	binary.LittleEndian.PutUint32(h[12:], partialCRC(h, 12))
	return h
}

func checkSettledHeader(h []byte, id uint64) error {
	switch {
	case len(h) < settledHeaderBytes:
		return fmt.Errorf("%w: %d bytes of %d", errHeader, len(h), settledHeaderBytes)
	case binary.LittleEndian.Uint64(h) != settledMagic:
		return fmt.Errorf("%w: wrong magic", errHeader)
	case binary.LittleEndian.Uint32(h[12:]) != partialCRC(h[:settledHeaderBytes], 12):
		return fmt.Errorf("%w: wrong checksum", errHeader)
	case binary.LittleEndian.Uint16(h[8:]) != settledVersion:
		return fmt.Errorf("%w: format version %d, this program knows %d", errHeader, binary.LittleEndian.Uint16(h[8:]), settledVersion)
	case binary.LittleEndian.Uint64(h[16:]) != id:
		return fmt.Errorf("%w: it belongs to log %#x", errHeader, binary.LittleEndian.Uint64(h[16:]))
	}
	return nil
}

// appendSettled appends one record to out.
func appendSettled(out []byte, kind byte, a, b uint64) []byte {
	var r [settledRecordBytes]byte
	r[0] = kind
	binary.LittleEndian.PutUint64(r[8:], a)
	binary.LittleEndian.PutUint64(r[16:], b)
	binary.LittleEndian.PutUint32(r[4:], partialCRC(r[:], 4))
	return append(out, r[:]...)
}

// settledState is what a settled file says.
type settledState struct {
	low, cursor uint64
	ranges      intervalSet
	end         uint64           // the highest offset named
	bad         int              // unreadable records between good ones
	gained      map[uint64]int64 // by base offset of the segment
}

// decodeSettled reads the records after the header and returns the position
// after the last good one. Records only ever add to the settled offsets, and
// offsets are never reused, so an unreadable record is skipped without making
// those after it doubtful.
func decodeSettled(data []byte) (st settledState, good int64) {
	good = settledHeaderBytes
	skipped := 0
	for pos := settledHeaderBytes; pos+settledRecordBytes <= len(data); pos += settledRecordBytes {
		r := data[pos : pos+settledRecordBytes]
		a, b := binary.LittleEndian.Uint64(r[8:]), binary.LittleEndian.Uint64(r[16:])
		ok := binary.LittleEndian.Uint32(r[4:]) == partialCRC(r, 4) && a <= offsetMax && b <= offsetMax
		switch {
		case ok && r[0] == settledLow:
			st.low = max(st.low, a)
		case ok && r[0] == settledCursor:
			st.cursor = a
		case ok && r[0] == settledRange && a < b:
			st.ranges.add(a, b)
		case ok && r[0] == settledPunched:
			if st.gained == nil {
				st.gained = map[uint64]int64{}
			}
			st.gained[a] = int64(b)
			a, b = 0, 0 // they name no offset that has to be there
		default:
			skipped++
			continue
		}
		st.end = max(st.end, a, b)
		st.bad, skipped = st.bad+skipped, 0
		good = int64(pos + settledRecordBytes)
	}
	st.low = st.ranges.advance(st.low)
	return st, good
}

// merge adds what other says, whose cursor is older.
func (st *settledState) merge(other *settledState) {
	if st.cursor == 0 {
		st.cursor = other.cursor
	}
	other.ranges.each(func(iv interval) bool {
		st.ranges.add(iv.first, iv.end)
		return true
	})
	if st.gained == nil {
		st.gained = other.gained
	}
	st.low = st.ranges.advance(max(st.low, other.low))
	st.end = max(st.end, other.end)
}

// cutPending forgets what is pending below handled.
func (l *Log) cutPending(handled uint64) {
	if end := l.pending.advance(handled); end > handled {
		l.pending.add(handled, end)
	}
}

// encodeSettled returns a whole new settled file.
func (l *Log) encodeSettled(createdMs int64, handled uint64) []byte {
	out := encodeSettledHeader(l.id, createdMs)
	out = appendSettled(out, settledLow, l.low.Load(), 0)
	l.settled.each(func(iv interval) bool {
		if iv.first < handled {
			out = appendSettled(out, settledRange, iv.first, min(iv.end, handled))
		}
		return iv.end < handled
	})
	out = appendSettled(out, settledCursor, l.cursor, 0)
	for _, seg := range l.segments {
		if seg.gained > 0 && !seg.dead {
			out = appendSettled(out, settledPunched, seg.base, uint64(seg.gained))
		}
	}
	return out
}
