package bodies

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"sync"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Outgoing is a body on its way out. It belongs to one goroutine.
type Outgoing struct {
	store *Store
	ref   Ref
	dir   Dir
	abort *Incoming // whose body this is; given up by Close

	notify func()
	piece  int // bytes per read, at most

	mu       sync.Mutex
	file     disk.File
	opened   bool
	err      error
	closed   bool
	op       disk.Op
	reading  *arena.Buf // being filled
	loaded   *arena.Buf // filled, next to be handed out
	loadedN  int
	current  *arena.Buf // handed out
	nextRead uint64     // position
	checked  uint64     // bytes in sum
	sum      uint32
	wanted   bool // Next found nothing: notify
}

// Open opens the body that ref names in a queue's directory. wake is called,
// from any goroutine, when Opened has an answer.
func (s *Store) Open(dir Dir, ref Ref, wake func()) *Outgoing {
	o := &Outgoing{store: s, ref: ref, dir: dir}
	job := func() {
		file, err := o.open()
		o.mu.Lock()
		o.opened, o.file, o.err = true, file, err
		closed := o.closed
		o.mu.Unlock()
		if closed {
			o.closeFile(file)
			return
		}
		wake()
	}
	if !s.work.add(job) {
		o.opened, o.err = true, ErrClosed
		wake()
	}
	return o
}

func (o *Outgoing) open() (disk.File, error) {
	name := o.dir.name(o.ref.ID)
	if err := o.store.suspected(o.dir, o.ref.ID); err != nil {
		return nil, fmt.Errorf("bodies: %w", err)
	}
	file, err := o.store.disk.Open(name, disk.ReadOnly)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return nil, fmt.Errorf("bodies: %w", err)
	}
	size, err := file.Size()
	if err == nil && uint64(size) != o.ref.Size {
		err = fmt.Errorf("%w: %s has %d bytes instead of %d", ErrDamaged, file.Name(), size, o.ref.Size)
	}
	if err != nil {
		_ = file.Close() // read only
		return nil, err
	}
	return file, nil
}

// Outgoing reads the body back from the spool, to return it to its sender.
// Written must have reported success; closing the Outgoing aborts the Incoming.
func (in *Incoming) Outgoing() *Outgoing {
	return &Outgoing{store: in.store, ref: in.ref, abort: in, file: in.file, opened: true}
}

// Opened says whether the body has been opened; then an error says why not.
func (o *Outgoing) Opened() (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.opened, o.err
}

// Size is the size of the body in bytes.
func (o *Outgoing) Size() uint64 { return o.ref.Size }

// Start begins to read. Reads are multiples of unit if it is not larger than
// one; notify is called, from any goroutine, once after each Next that returned
// nothing.
func (o *Outgoing) Start(unit int, notify func()) {
	o.notify = notify
	o.piece = readBytes
	if o.store.reading.Load() > readingBytesMax {
		o.piece = readBytesSmall
	}
	if unit > 0 && unit <= o.piece {
		o.piece = o.piece / unit * unit
	}
	o.mu.Lock()
	op := o.nextOp()
	o.mu.Unlock()
	o.submit(op)
}

// nextOp prepares the next read; nil when there is nothing to read, or it has
// to wait. The caller holds mu.
func (o *Outgoing) nextOp() *disk.Op {
	if o.reading != nil || o.loaded != nil || o.err != nil || o.closed || o.nextRead == o.ref.Size {
		return nil
	}
	n := int(min(uint64(o.piece), o.ref.Size-o.nextRead))
	o.reading = o.store.pool.Get(n)
	o.store.reading.Add(int64(o.reading.Len()))
	o.op = disk.Op{Kind: disk.Read, File: o.file, Pos: int64(o.nextRead), Buf: o.reading.Bytes()[:n], Done: o.read}
	o.nextRead += uint64(n)
	return &o.op
}

func (o *Outgoing) submit(op *disk.Op) {
	if op != nil {
		o.store.disk.Submit([]*disk.Op{op})
	}
}

// read is called when a read has ended.
func (o *Outgoing) read(op *disk.Op) {
	o.mu.Lock()
	buf := o.reading
	o.reading = nil
	err := op.Err
	if err == nil && op.N < len(op.Buf) {
		err = fmt.Errorf("%w: %s ends at %d instead of %d", ErrDamaged, op.File.Name(), op.Pos+int64(op.N), o.ref.Size)
	}
	if err == nil {
		o.sum = crc32.Update(o.sum, castagnoli, op.Buf)
		o.checked += uint64(op.N)
		if o.checked == o.ref.Size && o.sum != o.ref.Sum {
			err = fmt.Errorf("%w: %s does not have the checksum of its record", ErrDamaged, op.File.Name())
		}
	}
	if err != nil && o.err == nil {
		o.err = err
	}
	if o.closed || err != nil {
		o.release(buf)
	} else {
		o.loaded, o.loadedN = buf, op.N
	}
	wanted := o.wanted && !o.closed
	o.wanted = false
	o.mu.Unlock()
	if wanted {
		o.notify()
	}
}

func (o *Outgoing) release(buf *arena.Buf) {
	o.store.reading.Add(-int64(buf.Len()))
	buf.Release()
}

// Next returns the next piece, valid until the next call or Close. Nothing
// without an error means that it is being read: notify will be called. The last
// piece is only returned when the whole body has its checksum.
func (o *Outgoing) Next() ([]byte, error) {
	o.mu.Lock()
	if o.current != nil {
		o.release(o.current)
		o.current = nil
	}
	if o.loaded == nil {
		err := o.err
		o.wanted = err == nil
		op := o.nextOp()
		o.mu.Unlock()
		o.submit(op)
		return nil, err
	}
	o.current, o.loaded = o.loaded, nil
	data := o.current.Bytes()[:o.loadedN]
	var op *disk.Op
	if o.store.reading.Load() <= readingBytesMax {
		op = o.nextOp()
	}
	o.mu.Unlock()
	o.submit(op)
	return data, nil
}

// Close gives file and buffers back.
func (o *Outgoing) Close() {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed = true
	for _, buf := range []*arena.Buf{o.current, o.loaded} {
		if buf != nil {
			o.release(buf)
		}
	}
	o.current, o.loaded = nil, nil
	file := o.file
	o.mu.Unlock()
	if o.abort != nil {
		o.abort.Abort()
		return
	}
	o.closeFile(file)
}

// SetAside puts the body aside as damaged, unless it is on its way back to its
// publisher.
func (o *Outgoing) SetAside() {
	if o.abort == nil {
		o.store.SetAside(o.dir, o.ref.ID)
	}
}

// closeFile closes on a worker: closing the last name of a large file frees its
// blocks.
func (o *Outgoing) closeFile(file disk.File) {
	if file == nil {
		return
	}
	closeIt := func() { _ = file.Close() } // read only: nothing to lose
	if !o.store.work.add(closeIt) {
		closeIt()
	}
}
