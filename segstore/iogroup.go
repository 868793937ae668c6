package segstore

import (
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// ioGroup submits operations of many jobs together and waits for all. Its
// memory is reused; one goroutine.
type ioGroup struct {
	ops    []*disk.Op // ops[:n] are queued
	owners []*job
	n      int
	left   atomic.Int64
	done   chan struct{}
	onDone func(*disk.Op)
}

// add queues an operation for j.
func (g *ioGroup) add(j *job, kind disk.Kind, file disk.File, pos int64, buf []byte) {
	if g.onDone == nil {
		g.done = make(chan struct{}, 1)
		g.onDone = func(*disk.Op) {
			if g.left.Add(-1) == 0 {
				g.done <- struct{}{}
			}
		}
	}
	if g.n == len(g.ops) {
		g.ops = append(g.ops, new(disk.Op))
		g.owners = append(g.owners, nil)
	}
	*g.ops[g.n] = disk.Op{Kind: kind, File: file, Pos: pos, Buf: buf, Done: g.onDone}
	g.owners[g.n] = j
	g.n++
}

// run carries out what was queued, but not for jobs that failed before, and
// gives errors to their jobs.
func (g *ioGroup) run(s *Store) {
	n := 0
	for i := range g.n {
		if g.owners[i].err == nil {
			g.ops[n], g.ops[i] = g.ops[i], g.ops[n]
			g.owners[n] = g.owners[i]
			n++
		}
	}
	if n > 0 {
		g.left.Store(int64(n))
		s.disk.Submit(g.ops[:n])
		<-g.done
	}
	for i := range n {
		op := g.ops[i]
		g.owners[i].fail(op.Err)
		if op.Kind == disk.Sync {
			s.syncs.Add(1)
		} else {
			s.writes.Add(1)
			s.writtenBytes.Add(uint64(op.N))
		}
	}
	for i := range g.n {
		*g.ops[i] = disk.Op{}
		g.owners[i] = nil
	}
	g.n = 0
}
