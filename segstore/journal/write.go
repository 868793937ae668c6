package journal

import (
	"math/bits"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Write is one piece of I/O that a group needs. Ahead ones prepare space: if
// such a write fails for lack of space, nothing is wrong yet.
type Write struct {
	File  disk.File
	Pos   int64
	Buf   []byte
	Ahead bool
}

// aheadBytesMin is the first step of a new file: a broker that journals a
// handful of groups in its life keeps a small one.
const aheadBytesMin = 64 << 10

// groupRoundedMax bounds the buffers whose size is rounded up to a power of two,
// so that the arena has one from the last group for a somewhat larger one.
const groupRoundedMax = 2 << 20

// Begin starts a group with room for entryBytes bytes of entries (the sum of
// Entry.Bytes).
func (j *Journal) Begin(entryBytes int) {
	if entryBytes > groupBytesMax-GroupHeaderBytes-groupAlign {
		panic("journal: a group of more than 2 GiB")
	}
	g := &j.group
	size := GroupHeaderBytes + entryBytes + groupAlign
	if size > arena.BufBytesMax && size <= groupRoundedMax {
		size = 1 << bits.Len(uint(size-1))
	}
	g.buf = j.o.Arena.Get(size)
	g.data = g.buf.Bytes()[:GroupHeaderBytes]
	g.entries = 0
}

// Add appends an entry; the bytes of e.Data are copied.
func (j *Journal) Add(e *Entry) {
	g := &j.group
	if len(g.data)+e.Bytes() > cap(g.data) {
		panic("journal: more entries than the group has room for")
	}
	g.data = appendEntry(g.data, e)
	g.entries++
}

// End completes the group and returns the writes that put it into the file.
// They may be submitted in any order, and again after a failure for lack of
// space. Written or Fail comes next.
func (j *Journal) End() ([]Write, error) {
	g, f := &j.group, &j.files[j.current]
	if err := j.openFile(f); err != nil {
		return nil, err
	}
	for len(g.data)%groupAlign != 0 {
		g.data = append(g.data, 0)
	}
	head := Group{Identity: j.identity, Generation: j.generation, Sequence: j.sequence, Synced: j.synced, Entries: g.entries}
	head.seal(g.data)
	end := j.pos + int64(len(g.data))
	g.writes = append(g.writes[:0], Write{File: f.open, Pos: j.pos, Buf: g.data})
	g.made = max(f.made, end)
	if end > f.made {
		j.writeAhead(f, end)
	}
	return g.writes, nil
}

// writeAhead adds the zeros behind end. Space is made by writing it, because
// the first write into space that fallocate made changes metadata again, see
// doc.go for the figures.
func (j *Journal) writeAhead(f *file, end int64) {
	g := &j.group
	step := min(max(aheadBytesMin, f.made), j.o.AheadBytes)
	if step <= 0 {
		return
	}
	if g.zeros == nil {
		g.zeros = j.o.Arena.Get(int(min(step, arena.BufBytesMax)))
		clear(g.zeros.Bytes())
	}
	to := (end + step) / step * step
	for pos := end; pos < to; {
		n := min(to-pos, int64(g.zeros.Len()))
		g.writes = append(g.writes, Write{File: f.open, Pos: pos, Buf: g.zeros.Bytes()[:n], Ahead: true})
		pos += n
	}
	g.made = to
}

// Written says that the group is in the file, and whether the zeros are too.
func (j *Journal) Written(ahead bool) {
	f := &j.files[j.current]
	j.pos += int64(len(j.group.data))
	j.sequence++
	if ahead {
		f.made = max(f.made, j.group.made)
	} else {
		f.made = max(f.made, j.pos)
	}
	j.endGroup()
}

// Fail drops the group.
func (j *Journal) Fail() { j.endGroup() }

func (j *Journal) endGroup() {
	g := &j.group
	if g.buf != nil {
		g.buf.Release()
	}
	if g.zeros != nil {
		g.zeros.Release()
	}
	g.buf, g.data, g.zeros = nil, nil, nil
	clear(g.writes)
}

// Unsynced says that groups were written since the last sync.
func (j *Journal) Unsynced() bool { return j.synced < j.pos }

// File is the current file, to be synced; nil if it does not exist yet.
func (j *Journal) File() disk.File { return j.files[j.current].open }

// Synced says that everything written before is on stable storage.
func (j *Journal) Synced() { j.synced = j.pos }
