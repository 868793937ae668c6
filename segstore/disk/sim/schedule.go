package sim

import (
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// file is an open file of a Disk.
type file struct {
	disk     *Disk
	node     *node
	name     string
	writable bool
	closed   bool // guarded by disk.mutex
}

// Name implements disk.File.
func (f *file) Name() string { return f.name }

// Size implements disk.File.
func (f *file) Size() (int64, error) {
	f.disk.mutex.Lock()
	defer f.disk.mutex.Unlock()
	switch {
	case f.closed:
		return 0, pathError("stat", f.name, fs.ErrClosed)
	case f.disk.isCrashed():
		return 0, pathError("stat", f.name, ErrPowerCut)
	}
	return f.node.live.size, nil
}

// Close implements disk.File. It works after a crash too.
func (f *file) Close() error {
	f.disk.mutex.Lock()
	defer f.disk.mutex.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	f.disk.release(f.node)
	return nil
}

// release undoes one count of handles.
func (d *Disk) release(n *node) {
	n.handles--
	d.forget(n)
}

// task is an Op from Submit to Done.
type task struct {
	op      *disk.Op
	file    *file
	refused error // what Submit already knew
	held    bool  // counted in the handles of the node
	done    bool  // it took effect, only Done is to be called
}

// Submit implements disk.Disk.
func (d *Disk) Submit(ops []*disk.Op) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, op := range ops {
		t := &task{op: op, file: op.File.(*file)}
		switch {
		case t.file.disk != d:
			t.refused = ErrPowerCut // a handle from before the cut
		case t.file.closed || d.closed:
			t.refused = fs.ErrClosed
		default:
			t.held = true
			t.file.node.handles++
		}
		if d.options.Order == Ordered {
			d.execute(t)
		}
		d.queue = append(d.queue, t)
	}
	if d.options.Order != Manual && !d.worker && len(d.queue) > 0 {
		d.worker = true
		go d.work()
	}
}

// work is the Disk's goroutine; it ends when there is nothing left to do.
func (d *Disk) work() {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for d.deliver() {
	}
	d.worker = false
	d.idle.Broadcast()
}

// Step takes one Op at random, lets it take effect and calls its Done on the
// caller's goroutine; false if there is none. It is for Manual order.
func (d *Disk) Step() bool {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	stepped := d.deliver()
	d.idle.Broadcast()
	return stepped
}

// deliver finishes one Op. It is called with the mutex held and lets go of it
// for Done.
func (d *Disk) deliver() bool {
	if len(d.queue) == 0 {
		return false
	}
	i := 0
	if d.options.Order != Ordered {
		i = d.random.IntN(len(d.queue))
	}
	t := d.queue[i]
	d.queue = slices.Delete(d.queue, i, i+1)
	if !t.done {
		d.execute(t)
	}
	d.running++
	d.mutex.Unlock()
	t.op.Done(t.op) // the Op is the caller's from here on
	d.mutex.Lock()
	d.running--
	return true
}

// Close implements disk.Disk. In Manual order it steps through what is queued.
func (d *Disk) Close() error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for d.options.Order == Manual && d.deliver() {
	}
	for len(d.queue) > 0 || d.running > 0 || d.worker {
		d.idle.Wait()
	}
	if d.closed {
		return fmt.Errorf("sim: %w", fs.ErrClosed)
	}
	d.closed = true
	return nil
}

// execute lets an Op take effect and sets its results.
func (d *Disk) execute(t *task) {
	n, err := d.perform(t)
	t.op.N = n
	what := t.op.Kind
	if t.op.SyncAfter && n == len(t.op.Buf) {
		what = disk.Sync
	}
	t.op.Err = pathError(what.String(), t.file.name, err)
	t.done = true
	if t.held {
		d.release(t.file.node)
	}
	d.note(logEntry{call: callOf(t.op.Kind), path: t.file.name, pos: t.op.Pos, length: opLength(t.op), moved: n, err: err})
}

func opLength(op *disk.Op) int64 {
	if op.Kind == disk.Punch {
		return op.Len
	}
	return int64(len(op.Buf))
}

// check returns the error of an Op that can't be carried out whatever the disk.
func (t *task) check() error {
	op := t.op
	switch {
	case t.refused != nil:
		return t.refused
	case op.Kind > disk.Punch, op.Pos < 0, op.Kind == disk.Punch && op.Len <= 0:
		return syscall.EINVAL
	case op.Pos > fileBytesMax-opLength(op) && op.Kind != disk.Read && op.Kind != disk.Sync:
		return syscall.EFBIG
	case t.file.writable || op.Kind == disk.Read || op.Kind == disk.Sync:
		return nil
	case op.Kind == disk.Truncate:
		return syscall.EINVAL // as ftruncate(2)
	}
	return syscall.EBADF
}

func (d *Disk) perform(t *task) (n int, err error) {
	if err := t.check(); err != nil {
		return 0, err
	}
	if d.isCrashed() {
		return 0, ErrPowerCut
	}
	op, node := t.op, t.file.node
	if op.Kind != disk.Read && d.countChange() {
		d.performPartly(t)
		d.crash()
		return 0, ErrPowerCut
	}
	fault := d.fault(callOf(op.Kind), t.file.name)
	if op.Kind == disk.Write && fault != nil && fault.Short {
		n, err := d.writeShort(node, op, fault)
		if err == nil && op.SyncAfter {
			err = d.syncAfter(t)
		}
		return n, err
	}
	if err := fault.error(); err != nil {
		if op.Kind == disk.Sync {
			d.loseUnsynced(node)
		}
		return 0, err
	}
	switch op.Kind {
	case disk.Write:
		if n, err = d.write(node, op.Pos, op.Buf); err == nil && op.SyncAfter {
			err = d.syncAfter(t)
		}
		return n, err
	case disk.Read:
		n = node.live.read(op.Pos, op.Buf)
		d.stats.BytesRead += int64(n)
		if fault != nil && n > 0 { // a fault without an error on a read is a flipped bit
			op.Buf[d.random.IntN(n)] ^= 1 << d.random.IntN(8)
		}
	case disk.Sync:
		d.sync(node)
	case disk.Truncate:
		d.resize(node, change{kind: truncated, pos: op.Pos})
	case disk.Punch:
		d.resize(node, change{kind: punched, pos: op.Pos, end: op.Pos + op.Len})
	}
	return n, nil
}

// syncAfter is the Sync that follows a Write: an operation of its own for
// crashes and faults.
func (d *Disk) syncAfter(t *task) error {
	if d.countChange() {
		if d.coin() {
			d.sync(t.file.node)
		}
		d.crash()
		return ErrPowerCut
	}
	if err := d.faultError(CallSync, t.file.name); err != nil {
		d.loseUnsynced(t.file.node)
		return err
	}
	d.sync(t.file.node)
	return nil
}

// writeShort writes a part, as a kernel may, and goes on: into the error of the
// fault or, if it has none, to the end.
func (d *Disk) writeShort(n *node, op *disk.Op, fault *Injection) (int, error) {
	part := 0
	if len(op.Buf) > 0 {
		part = d.part(op, d.random.IntN(len(op.Buf)))
	}
	wrote, err := d.write(n, op.Pos, op.Buf[:part])
	if err != nil || fault.Err != nil {
		if err == nil {
			err = fault.Err
		}
		return wrote, err
	}
	rest, err := d.write(n, op.Pos+int64(part), op.Buf[part:])
	return part + rest, err
}

// write puts data into what the process sees, as far as there is space.
func (d *Disk) write(n *node, pos int64, data []byte) (int, error) {
	before := len(n.live.pages)
	wrote := n.live.write(pos, data, d.freePages())
	d.usedPages += int64(len(n.live.pages) - before)
	if wrote > 0 {
		n.pending = append(n.pending, change{kind: wroteData, pos: pos, data: slices.Clone(data[:wrote])})
	}
	d.stats.BytesWritten += int64(wrote)
	if wrote < len(data) {
		return wrote, syscall.ENOSPC
	}
	return wrote, nil
}

// resize records a truncate or a punch.
func (d *Disk) resize(n *node, ch change) {
	before := len(n.live.pages)
	n.record(ch)
	d.usedPages += int64(len(n.live.pages) - before)
}

// sync makes durable what was done to the file.
func (d *Disk) sync(n *node) {
	for _, ch := range n.pending {
		n.durable.apply(ch)
		d.stats.BytesSynced += int64(len(ch.data))
	}
	n.pending = nil
	d.stats.Syncs++
}

// loseUnsynced is a failed sync (package comment, what may happen, 8): the process goes
// on seeing its data, nothing counts as unsynced, part of it is on the disk.
func (d *Disk) loseUnsynced(n *node) {
	n.durable = d.survivor(n, d.sectorBytes())
	n.pending = nil
	d.stats.SyncsFailed++
}
