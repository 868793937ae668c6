package journal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Group header fields: byte positions, see doc.go for the table.
const (
	groupMagic   = 0x4E524A4C41534142 // "BASALJRN"
	groupVersion = 1

	groupCRCPos    = 12
	groupLengthPos = 48
	groupBodyPos   = 56

	// GroupHeaderBytes is the size of a group's header.
	GroupHeaderBytes = 64
	// EntryHeaderBytes is the size of an entry's header.
	EntryHeaderBytes = 16

	// groupAlign is what lengths and positions of groups are multiples of.
	groupAlign = 8
	// groupBytesMax bounds a group, so that its length fits its u32.
	groupBytesMax = 1 << 31

	// sessionShift splits a sequence number: the session above, the count of the
	// group in it below. 2^40 groups at 10,000 a second are three years.
	sessionShift = 40
)

// Kind says what an entry is.
type Kind uint8

// Kinds of entries.
const (
	Batch   Kind = 1 + iota // Data is a record batch of log ID
	Range                   // offsets [First, End) of log ID are settled
	Low                     // all offsets of log ID below First are settled
	Cursor                  // the cursor of log ID is First
	Deleted                 // log ID was deleted: earlier entries of it mean nothing
	Meta                    // Data is the meta record with sequence number ID
	Done                    // earlier entries of generations up to ID mean nothing
)

// String is the kind's name in reports.
func (k Kind) String() string {
	if k >= Batch && k <= Done {
		return [...]string{"batch", "range", "low", "cursor", "deleted", "meta", "done"}[k-1]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Entry is one entry of a group.
type Entry struct {
	Kind       Kind
	ID         uint64 // the log; of Meta the sequence number, of Done the generation
	First, End uint64 // offsets
	Data       []byte
}

// payloadBytes is the length of what follows the entry's header.
func (e *Entry) payloadBytes() int {
	switch e.Kind {
	case Batch, Meta:
		return len(e.Data)
	case Range:
		return 16
	case Low, Cursor:
		return 8
	}
	return 0
}

// Bytes is the size of the entry in a group.
func (e *Entry) Bytes() int { return EntryHeaderBytes + e.payloadBytes() }

// appendEntry appends the entry to dst.
func appendEntry(dst []byte, e *Entry) []byte {
	dst = append(dst, byte(e.Kind), 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(e.payloadBytes()))
	dst = binary.LittleEndian.AppendUint64(dst, e.ID)
	switch e.Kind {
	case Batch, Meta:
		dst = append(dst, e.Data...)
	case Range:
		dst = binary.LittleEndian.AppendUint64(dst, e.First)
		dst = binary.LittleEndian.AppendUint64(dst, e.End)
	case Low, Cursor:
		dst = binary.LittleEndian.AppendUint64(dst, e.First)
	}
	return dst
}

var (
	// ErrGroup says that bytes are not a sound group.
	ErrGroup = errors.New("journal: not a sound group")
	// ErrVersion says that the journal was written by a newer program.
	ErrVersion = errors.New("journal: unknown format version")
)

// DecodeEntry reads the entry at the start of data, the rest of a group's body,
// and returns its length in bytes.
func DecodeEntry(data []byte) (e Entry, n int, err error) {
	if len(data) < EntryHeaderBytes {
		return e, 0, fmt.Errorf("%w: %d bytes for the header of an entry", ErrGroup, len(data))
	}
	size := binary.LittleEndian.Uint32(data[4:])
	if uint64(size) > uint64(len(data)-EntryHeaderBytes) || data[1]|data[2]|data[3] != 0 {
		return e, 0, fmt.Errorf("%w: an entry of %d bytes beyond the group", ErrGroup, size)
	}
	e = Entry{Kind: Kind(data[0]), ID: binary.LittleEndian.Uint64(data[8:])}
	n = EntryHeaderBytes + int(size)
	payload := data[EntryHeaderBytes:n:n]
	switch e.Kind {
	case Batch, Meta:
		e.Data = payload
	case Range:
		if size == 16 {
			e.First, e.End = binary.LittleEndian.Uint64(payload), binary.LittleEndian.Uint64(payload[8:])
		}
		if e.First >= e.End {
			return e, 0, fmt.Errorf("%w: empty range [%d, %d)", ErrGroup, e.First, e.End)
		}
	case Low, Cursor:
		if size == 8 {
			e.First = binary.LittleEndian.Uint64(payload)
		}
	case Deleted, Done:
	default:
		return e, 0, fmt.Errorf("%w: %v of %d bytes", ErrVersion, e.Kind, size)
	}
	if int(size) != e.payloadBytes() {
		return e, 0, fmt.Errorf("%w: %v of %d bytes", ErrGroup, e.Kind, size)
	}
	return e, n, nil
}

// Group is what a group's header says.
type Group struct {
	Identity   uint64 // of the journal, the same in all its groups
	Generation uint64 // of the file
	Sequence   uint64 // session and count
	Synced     int64  // all of the file below was on stable storage when it was written
	Bytes      int64  // header, entries, padding
	Entries    int
	bodyCRC    uint32
}

// Session counts the lives of the process; groups of a later one never come
// before those of an earlier.
func (g *Group) Session() uint64 { return g.Sequence >> sessionShift }

// follows reports whether g may stand behind a group with sequence number
// previous.
func (g *Group) follows(previous uint64) bool {
	return g.Sequence == previous+1 || g.Sequence&(1<<sessionShift-1) == 0 && g.Sequence > previous
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal writes the header of the group whose bytes are data.
func (g *Group) seal(data []byte) {
	h := data[:GroupHeaderBytes]
	binary.LittleEndian.PutUint64(h, groupMagic)
	binary.LittleEndian.PutUint16(h[8:], groupVersion)
	binary.LittleEndian.PutUint16(h[10:], 0)
	binary.LittleEndian.PutUint64(h[16:], g.Identity)
	binary.LittleEndian.PutUint64(h[24:], g.Generation)
	binary.LittleEndian.PutUint64(h[32:], g.Sequence)
	binary.LittleEndian.PutUint64(h[40:], uint64(g.Synced))
	binary.LittleEndian.PutUint32(h[groupLengthPos:], uint32(len(data)))
	binary.LittleEndian.PutUint32(h[52:], uint32(g.Entries))
	binary.LittleEndian.PutUint32(h[groupBodyPos:], crc32.Checksum(data[GroupHeaderBytes:], castagnoli))
	binary.LittleEndian.PutUint32(h[60:], 0)
	binary.LittleEndian.PutUint32(h[groupCRCPos:], headerCRC(h))
}

func headerCRC(h []byte) uint32 {
	sum := crc32.Update(0, castagnoli, h[:groupCRCPos])
	return crc32.Update(sum, castagnoli, h[groupCRCPos+4:GroupHeaderBytes])
}

// DecodeGroup reads the header at the start of data; its entries follow.
func DecodeGroup(data []byte) (Group, error) {
	var g Group
	switch {
	case len(data) < GroupHeaderBytes:
		return g, fmt.Errorf("%w: %d bytes of a header", ErrGroup, len(data))
	case binary.LittleEndian.Uint64(data) != groupMagic:
		return g, fmt.Errorf("%w: wrong magic", ErrGroup)
	case binary.LittleEndian.Uint32(data[groupCRCPos:]) != headerCRC(data):
		return g, fmt.Errorf("%w: wrong checksum of the header", ErrGroup)
	case binary.LittleEndian.Uint16(data[8:]) != groupVersion:
		return g, fmt.Errorf("%w: it is %d, this program knows %d", ErrVersion, binary.LittleEndian.Uint16(data[8:]), groupVersion)
	}
	g = Group{
		Identity:   binary.LittleEndian.Uint64(data[16:]),
		Generation: binary.LittleEndian.Uint64(data[24:]),
		Sequence:   binary.LittleEndian.Uint64(data[32:]),
		Synced:     int64(binary.LittleEndian.Uint64(data[40:])),
		Bytes:      int64(binary.LittleEndian.Uint32(data[groupLengthPos:])),
		Entries:    int(binary.LittleEndian.Uint32(data[52:])),
		bodyCRC:    binary.LittleEndian.Uint32(data[groupBodyPos:]),
	}
	if g.Bytes < GroupHeaderBytes || g.Bytes%groupAlign != 0 || g.Synced < 0 || g.Generation == 0 {
		return g, fmt.Errorf("%w: lengths contradict each other", ErrGroup)
	}
	return g, nil
}

// Check verifies the body of the group; data is the whole group.
func (g *Group) Check(data []byte) error {
	if int64(len(data)) < g.Bytes {
		return fmt.Errorf("%w: it ends beyond the file", ErrGroup)
	}
	body := data[GroupHeaderBytes:g.Bytes]
	if got := crc32.Checksum(body, castagnoli); got != g.bodyCRC {
		return fmt.Errorf("%w: checksum %08x, computed %08x", ErrGroup, g.bodyCRC, got)
	}
	for range g.Entries {
		_, n, err := DecodeEntry(body)
		if err != nil {
			return err
		}
		body = body[n:]
	}
	if len(body) >= groupAlign {
		return fmt.Errorf("%w: %d bytes after the last entry", ErrGroup, len(body))
	}
	return nil
}
