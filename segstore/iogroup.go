package segstore

import (
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// ioGroup submits operations of many jobs together and waits for all. Its
// memory is reused; one goroutine.
type ioGroup struct {
	ops         []*disk.Op // ops[:n] are queued
	owners      []*job
	optional    []bool // such a write may fail for lack of space
	n           int
	aheadFailed bool // and one did, since somebody reset this
	left        atomic.Int64
	done        chan struct{}
	onDone      func(*disk.Op)
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
		g.optional = append(g.optional, false)
	}
	*g.ops[g.n] = disk.Op{Kind: kind, File: file, Pos: pos, Buf: buf, Done: g.onDone}
	g.owners[g.n], g.optional[g.n] = j, false
	g.n++
}

// joinSync makes the only operation queued, a write, sync its file too, and
// reports whether that was possible.
func (g *ioGroup) joinSync() bool {
	if g.n != 1 || g.ops[0].Kind != disk.Write {
		return false
	}
	g.ops[0].SyncAfter = true
	return true
}

func (g *ioGroup) addWrite(j *job, file disk.File, pos int64, buf []byte, optional bool) {
	g.add(j, disk.Write, file, pos, buf)
	g.optional[g.n-1] = optional
}

// run carries out what was queued, but not for jobs that failed before, and
// gives errors to their jobs. A write that finds no space is tried again until
// there is some: repeating it whole is safe. A failed sync is not repeated.
func (g *ioGroup) run(s *Store, c *crew) {
	defer g.reset()
	g.keep(func(i int) bool { return g.owners[i].err == nil })
	for g.n > 0 {
		g.left.Store(int64(g.n))
		began := time.Now()
		if w, ok := s.disk.(disk.Waiter); ok && (g.n == 1 || c.behind && g.ops[0].Kind == disk.Write) {
			for _, op := range g.ops[:g.n] {
				w.Wait(op)
			}
		} else {
			s.disk.Submit(g.ops[:g.n])
		}
		<-g.done
		if !c.behind && g.syncs() {
			s.histograms.Sync.ObserveTime(time.Since(began))
		}
		full := error(nil)
		for i := range g.n {
			op := g.ops[i]
			synced := op.SyncAfter && op.N == len(op.Buf) // it failed or not
			if synced {
				s.syncs.Add(1)
			}
			switch {
			case synced && op.Err != nil:
				g.owners[i].fail(op.Err)
				op.Err = nil
			case op.Kind == disk.Sync:
				s.syncs.Add(1)
				g.owners[i].fail(op.Err)
				continue
			case op.Err == nil:
				s.writes.Add(1)
				s.writtenBytes.Add(uint64(op.N))
				continue
			case disk.IsNoSpace(op.Err) && g.optional[i]:
				g.aheadFailed = true
				op.Err = nil
			case disk.IsNoSpace(op.Err):
				full = op.Err
			default:
				g.owners[i].fail(op.Err)
				op.Err = nil
			}
		}
		if full == nil {
			break
		}
		g.noteWrites()
		g.keep(func(i int) bool { return g.ops[i].Kind == disk.Write && disk.IsNoSpace(g.ops[i].Err) })
		if !s.waitForSpace(c, full) {
			for i := range g.n {
				g.owners[i].fail(g.ops[i].Err)
			}
			return
		}
		g.keep(func(i int) bool { return !g.owners[i].pointless() })
	}
	s.spaceIsBack(c)
}

// syncs says that some of the operations sync a file.
func (g *ioGroup) syncs() bool {
	for _, op := range g.ops[:g.n] {
		if op.Kind == disk.Sync || op.SyncAfter {
			return true
		}
	}
	return false
}

// keep drops the queued operations that which does not name.
func (g *ioGroup) keep(which func(i int) bool) {
	n := 0
	for i := range g.n {
		if which(i) {
			g.ops[n], g.ops[i] = g.ops[i], g.ops[n]
			g.owners[n], g.owners[i] = g.owners[i], g.owners[n]
			g.optional[n], g.optional[i] = g.optional[i], g.optional[n]
			n++
		}
	}
	g.n = n
}

func (g *ioGroup) reset() {
	for i := range g.ops {
		if g.ops[i].Done == nil {
			break
		}
		*g.ops[i] = disk.Op{}
		g.owners[i] = nil
	}
	g.n = 0
}
