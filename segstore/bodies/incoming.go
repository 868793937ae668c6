package bodies

import (
	"hash/crc32"
	"io/fs"
	"sync"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Incoming is a body that arrives. It belongs to one goroutine.
type Incoming struct {
	store *Store
	flow  *Flow
	ref   Ref // Size and Sum grow with Write

	mu       sync.Mutex
	file     disk.File
	opening  bool
	waiting  []*write // until the file is open
	inFlight int      // writes, waiting ones included
	err      error    // the first of a write, or of opening
	gone     bool     // aborted
	jobs     []func() // to run, in order, when nothing is in flight
	running  bool     // a worker has the jobs, or will

	// Only jobs touch these.
	spooled bool // the spool name exists
	names   []string
}

// write is one buffer on its way to the disk.
type write struct {
	op  disk.Op
	in  *Incoming
	buf *arena.Buf
}

// Create begins a body. The file is made when the first Write comes.
func (s *Store) Create(flow *Flow) *Incoming {
	return &Incoming{store: s, flow: flow, ref: Ref{ID: s.nextID.Add(1) - 1}}
}

// Ref returns the reference to what has been written so far.
func (in *Incoming) Ref() Ref { return in.ref }

// Write appends the first n bytes of buf, which it releases when they are
// written. It does not wait. After an error, which Finish reports, what comes
// is dropped.
func (in *Incoming) Write(buf *arena.Buf, n int) {
	pos := int64(in.ref.Size)
	in.ref.Size += uint64(n)
	in.ref.Sum = crc32.Update(in.ref.Sum, castagnoli, buf.Bytes()[:n])
	w := &write{in: in, buf: buf}
	w.op = disk.Op{Kind: disk.Write, Pos: pos, Buf: buf.Bytes()[:n], Done: w.done}

	in.mu.Lock()
	if in.err != nil || in.gone {
		in.mu.Unlock()
		buf.Release()
		return
	}
	in.inFlight++
	in.store.writes.Add(1)
	in.flow.add(int64(buf.Len()))
	if in.file != nil {
		w.op.File = in.file
		in.mu.Unlock()
		in.store.disk.Submit([]*disk.Op{&w.op})
		return
	}
	in.waiting = append(in.waiting, w)
	first := !in.opening
	in.opening = true
	in.mu.Unlock()
	if first && !in.store.work.add(in.open) {
		in.opened(nil, ErrClosed)
	}
}

func (in *Incoming) open() {
	s := in.store
	err := s.makeSpool()
	var file disk.File
	if err == nil {
		file, err = s.disk.Open(spoolName(in.ref.ID), disk.CreateNew)
	}
	in.opened(file, err)
}

// opened submits the writes that waited, or fails them.
func (in *Incoming) opened(file disk.File, err error) {
	in.mu.Lock()
	in.file, in.err = file, err
	in.spooled = err == nil
	waiting := in.waiting
	in.waiting = nil
	in.mu.Unlock()
	ops := make([]*disk.Op, len(waiting))
	for i, w := range waiting {
		w.op.File = file
		ops[i] = &w.op
	}
	if err == nil {
		in.store.disk.Submit(ops)
		return
	}
	for _, op := range ops {
		op.Err = err
		op.Done(op)
	}
}

// done is called when the disk has the buffer.
func (w *write) done(op *disk.Op) {
	in := w.in
	size := int64(w.buf.Len())
	w.buf.Release()
	in.mu.Lock()
	if op.Err != nil && in.err == nil {
		in.err = op.Err
	}
	in.inFlight--
	in.kick()
	in.mu.Unlock()
	in.flow.done(size)
	in.store.writes.Done()
}

// then runs job on a worker when all writes so far, and the jobs before it,
// are done. When the store is closed it does not run.
func (in *Incoming) then(job func()) {
	in.mu.Lock()
	in.jobs = append(in.jobs, job)
	in.kick()
	in.mu.Unlock()
}

// kick lets a worker run the jobs if it is time; the caller holds mu.
func (in *Incoming) kick() {
	if len(in.jobs) > 0 && in.inFlight == 0 && !in.running {
		in.running = in.store.work.add(in.runJobs)
	}
}

func (in *Incoming) runJobs() {
	for {
		in.mu.Lock()
		if len(in.jobs) == 0 {
			in.running = false
			in.mu.Unlock()
			return
		}
		job := in.jobs[0]
		in.jobs = in.jobs[1:]
		in.mu.Unlock()
		job()
	}
}

func (in *Incoming) writeError() error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.gone {
		return fs.ErrClosed
	}
	return in.err
}

// Written calls done when everything is written, or has failed.
func (in *Incoming) Written(done func(error)) {
	in.then(func() { done(in.writeError()) })
}

// Finish names the complete body in each directory. With sync, file and names
// in directories that are not transient are durable when done(nil) is called.
// Directories that are unread get none (Lacks).
// After an error the owner calls Abort, as it does for any body it gives up.
func (in *Incoming) Finish(dirs []Dir, sync bool, done func(error)) {
	in.then(func() {
		err := in.writeError()
		if err == nil {
			err = in.finish(dirs, sync && !in.store.noSync)
		}
		done(err)
	})
}

func (in *Incoming) finish(dirs []Dir, sync bool) error {
	s := in.store
	dirs = s.readable(dirs)
	durable := false
	for _, dir := range dirs {
		durable = durable || !dir.Transient
	}
	sync = sync && durable
	if sync {
		if err := disk.Run(s.disk, &disk.Op{Kind: disk.Sync, File: in.file}); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := in.link(dir, sync && !dir.Transient); err != nil {
			return err
		}
	}
	in.unspool()
	if !sync {
		return nil
	}
	for _, dir := range dirs {
		if dir.Transient {
			continue
		}
		if err := s.disk.SyncDir(dir.path()); err != nil {
			return err
		}
	}
	return nil
}

// link names the file in dir.
func (in *Incoming) link(dir Dir, durable bool) error {
	if err := in.store.link(spoolName(in.ref.ID), dir, in.ref.ID, durable); err != nil {
		return err
	}
	in.names = append(in.names, dir.name(in.ref.ID))
	return nil
}

// unspool removes the spool name.
func (in *Incoming) unspool() {
	if in.spooled {
		in.spooled = false
		in.store.remove(spoolName(in.ref.ID))
	}
}

func (in *Incoming) close() {
	if in.file != nil {
		_ = in.file.Close() // what counted has been synced
	}
}

// Keep ends an Incoming whose names are referred to by now.
func (in *Incoming) Keep() { in.then(in.close) }

// Abort gives the body up: file and names go, soon. What comes is dropped.
func (in *Incoming) Abort() {
	in.mu.Lock()
	in.gone = true
	in.mu.Unlock()
	in.then(func() {
		in.close()
		in.unspool()
		for _, name := range in.names {
			in.store.remove(name)
		}
		in.names = nil
	})
}
