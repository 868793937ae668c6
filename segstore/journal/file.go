package journal

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// span is a run of bytes of a file.
type span struct{ from, to int64 }

// fileScan is what reading a file found.
type fileScan struct {
	size       int64
	generation uint64 // 0: no sound group
	identity   uint64
	hint       uint64 // identity that a group should have: that of the other file, or of the header at position 0
	sequence   uint64 // of the last sound group
	seen       uint64 // the highest of all headers, whatever the groups are worth
	tornFirst  uint64 // generation in the header at position 0, if the group there is not sound
	tornLast   uint64 // and in the header at end
	good       []span // runs of sound groups
	end        int64  // after the last of them
	synced     int64  // all below was on stable storage when the last one was written
	damaged    []span // bad bytes that had been on stable storage once
	done       uint64 // the highest generation that a Done entry names
	// From here on entries count: behind a Done entry of the own generation.
	cleanPos   int64
	cleanEntry int
}

// reader reads a journal file through one arena buffer. It blocks.
type reader struct {
	disk  disk.Disk
	pool  *arena.Pool
	file  disk.File
	limit int64 // size of the file

	buf   *arena.Buf
	start int64 // buf.Bytes()[:n] is the file from start on
	n     int
	read  int64 // bytes read so far
}

// windowBytes is the size of a read.
const windowBytes = arena.BufBytesMax

// window returns at least need bytes from pos on, fewer when the file ends
// before. They are valid until the next call.
func (r *reader) window(pos int64, need int) ([]byte, error) {
	if have := r.start + int64(r.n); r.buf != nil && pos >= r.start && (pos+int64(need) <= have || have >= r.limit) {
		return r.buf.Bytes()[min(pos-r.start, int64(r.n)):r.n], nil
	}
	size := int(max(0, min(int64(max(need, windowBytes)), r.limit-pos)))
	if size == 0 {
		return nil, nil
	}
	if r.buf == nil || r.buf.Len() < size || r.buf.Len() > windowBytes && size <= windowBytes {
		r.release()
		r.buf = r.pool.Get(size)
	}
	r.start, r.n = pos, 0
	op := disk.Op{Kind: disk.Read, File: r.file, Pos: pos, Buf: r.buf.Bytes()[:size]}
	if err := disk.Run(r.disk, &op); err != nil {
		return nil, err
	}
	r.n = op.N
	r.read += int64(op.N)
	if op.N < size {
		r.limit = pos + int64(op.N)
	}
	return r.buf.Bytes()[:r.n], nil
}

func (r *reader) release() {
	if r.buf != nil {
		r.buf.Release()
		r.buf = nil
	}
}

// group returns the verified group at pos, header included.
func (r *reader) group(pos int64) (Group, []byte, error) {
	w, err := r.window(pos, GroupHeaderBytes)
	if err != nil {
		return Group{}, nil, err
	}
	g, err := DecodeGroup(w)
	if err != nil {
		return g, nil, err
	}
	if pos+g.Bytes > r.limit {
		return g, nil, ErrGroup
	}
	if w, err = r.window(pos, int(g.Bytes)); err != nil {
		return g, nil, err
	}
	if err := g.Check(w); err != nil {
		return g, nil, err
	}
	return g, w[:g.Bytes], nil
}

var magicBytes = binary.LittleEndian.AppendUint64(nil, groupMagic)

// nextMagic returns the next aligned position from pos on that begins like a
// group, -1 if there is none.
func (r *reader) nextMagic(pos int64) (int64, error) {
	for pos+GroupHeaderBytes <= r.limit {
		w, err := r.window(pos, GroupHeaderBytes)
		if err != nil {
			return -1, err
		}
		i := bytes.Index(w, magicBytes)
		switch {
		case i < 0:
			pos += int64(max(1, len(w)-len(magicBytes)+1))
		case (pos+int64(i))%groupAlign != 0:
			pos += int64(i) + 1
		default:
			return pos + int64(i), nil
		}
	}
	return -1, nil
}

func isBad(err error) bool { return errors.Is(err, ErrGroup) }

// scan finds the sound groups of a file. What follows the last one is what a
// crash left of groups that were never synced, or remains of older
// generations; hint is the identity of the other file, if it is known. Bad bytes before
// the end are damage only if a later group says that they were synced: then the
// groups after them count too. All of the file is read, for the sake of see.
func (r *reader) scan(hint uint64) (fileScan, error) {
	s := fileScan{size: r.limit, hint: hint}
	for pos := int64(0); pos+GroupHeaderBytes <= r.limit; {
		g, data, err := r.group(pos)
		s.see(&g, pos)
		if err == nil && s.accepts(&g) {
			s.take(&g, data, pos)
			pos += g.Bytes
			continue
		}
		if err != nil && !isBad(err) {
			return s, err // a failed read, or a newer version
		}
		torn := uint64(0)
		if g.Identity == cmp.Or(s.identity, s.hint) {
			torn = g.Generation
		}
		if pos == 0 {
			s.tornFirst = torn
		}
		next, err := r.resume(&s, pos)
		if err != nil {
			return s, err
		}
		if next < 0 {
			s.tornLast = torn
			break
		}
		s.damaged = append(s.damaged, span{pos, next})
		pos = next
		if g, data, err = r.group(pos); err != nil {
			return s, err
		}
		s.take(&g, data, pos)
		pos += g.Bytes
	}
	return s, nil
}

// see notes the sequence number of a group whose header is sound, though its body
// may be torn and it may stand behind a torn one. The next session has to have a
// higher number than all of those: if it had the number of one that left nothing
// but such groups, it would count like that one, and where its own groups end,
// those would be taken for their successors. Identities are compared because the
// body of a message may look like a header; what stands at position 0 is always
// one of ours.
func (s *fileScan) see(g *Group, pos int64) {
	if pos == 0 && s.hint == 0 {
		s.hint = g.Identity
	}
	if identity := cmp.Or(s.identity, s.hint); identity != 0 && g.Identity == identity {
		s.seen = max(s.seen, g.Sequence)
	}
}

// accepts reports whether g may be the next group of the file.
func (s *fileScan) accepts(g *Group) bool {
	if s.identity != 0 && g.Identity != s.identity {
		return false
	}
	return s.generation == 0 || g.Generation == s.generation && g.follows(s.sequence)
}

func (s *fileScan) take(g *Group, data []byte, pos int64) {
	s.identity, s.generation, s.sequence = g.Identity, g.Generation, g.Sequence
	s.see(g, pos)
	s.end, s.synced = pos+g.Bytes, g.Synced
	if n := len(s.good); n > 0 && s.good[n-1].to == pos {
		s.good[n-1].to = s.end
	} else {
		s.good = append(s.good, span{pos, s.end})
	}
	body := data[GroupHeaderBytes:]
	for i := range g.Entries {
		e, n, err := DecodeEntry(body)
		if err != nil {
			return // Check has seen it
		}
		if e.Kind == Done {
			s.done = max(s.done, e.ID)
			if e.ID >= g.Generation {
				s.cleanPos, s.cleanEntry = pos, i+1
			}
		}
		body = body[n:]
	}
}

// resume looks for proof that the bad bytes at pos had been synced: a later
// group of the same generation that says so. It returns where the first sound
// group after them is, -1 without proof. Only the identity, which no client of
// the broker ever sees, keeps the body of a message from being taken for a
// group here.
func (r *reader) resume(s *fileScan, pos int64) (int64, error) {
	first := int64(-1)
	for at := pos + groupAlign; ; {
		var err error
		if at, err = r.nextMagic(at); at < 0 || err != nil {
			return -1, err
		}
		g, _, err := r.group(at)
		s.see(&g, at)
		switch {
		case err != nil && !isBad(err) && !errors.Is(err, ErrVersion):
			return -1, err
		case err != nil || s.identity != 0 && g.Identity != s.identity,
			s.generation != 0 && (g.Generation != s.generation || g.Sequence <= s.sequence),
			s.generation == 0 && (g.Synced == 0 || s.hint != 0 && g.Identity != s.hint):
			at += groupAlign
			continue
		}
		if first < 0 {
			first = at
		}
		if g.Synced > pos {
			return first, nil
		}
		at += g.Bytes
	}
}
