package bodies

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// RefBytes is the encoded size of a Ref.
const RefBytes = 24

// Ref is what a record keeps of its body; see the package comment.
type Ref struct {
	ID   uint64
	Size uint64 // bytes
	Sum  uint32 // CRC-32C
}

// Append appends the encoded reference.
func (r Ref) Append(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint64(dst, r.ID)
	dst = binary.LittleEndian.AppendUint64(dst, r.Size)
	dst = binary.LittleEndian.AppendUint32(dst, r.Sum)
	return binary.LittleEndian.AppendUint32(dst, 0)
}

// DecodeRef reads a reference; ok is false when data is none.
func DecodeRef(data []byte) (r Ref, ok bool) {
	if len(data) != RefBytes || binary.LittleEndian.Uint32(data[20:]) != 0 {
		return Ref{}, false
	}
	r = Ref{
		ID:   binary.LittleEndian.Uint64(data),
		Size: binary.LittleEndian.Uint64(data[8:]),
		Sum:  binary.LittleEndian.Uint32(data[16:]),
	}
	return r, r.Size > 0 && r.Size < 1<<62
}

// Dir is where the names of one queue are.
type Dir struct {
	Log       uint64
	Transient bool
}

// Directories at the root of the data directory.
const (
	SpoolDir      = "spool"
	DurableDir    = "bodies"
	TransientDir  = "transient-bodies"
	quarantineDir = "quarantine"
)

func (d Dir) parent() string {
	if d.Transient {
		return TransientDir
	}
	return DurableDir
}

func (d Dir) path() string { return fmt.Sprintf("%s/%016x", d.parent(), d.Log) }

func (d Dir) name(id uint64) string { return fmt.Sprintf("%s/%016x", d.path(), id) }

func spoolName(id uint64) string { return fmt.Sprintf("%s/%016x", SpoolDir, id) }

// parseID reads a name of 16 hex digits.
func parseID(name string) (id uint64, ok bool) {
	id, err := strconv.ParseUint(name, 16, 64)
	return id, err == nil && name == fmt.Sprintf("%016x", id)
}
