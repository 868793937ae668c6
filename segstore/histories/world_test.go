package histories

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// gate is the simulated disk with a hand on it: while held, submitted
// operations wait until the history steps through them. It only matters with
// sim.Manual.
type gate struct {
	*sim.Disk
	held atomic.Bool
}

func (g *gate) Submit(ops []*disk.Op) {
	g.Disk.Submit(ops)
	if !g.held.Load() {
		go g.drain()
	}
}

func (g *gate) drain() {
	for g.Step() {
	}
}

// liveLog is one log of the store with its model. log is nil while it is not
// open.
type liveLog struct {
	model    *LogModel
	log      *segstore.Log
	unread   *segstore.Log // it, while it cannot be read: log is nil then
	retained bool          // its owner drops whole segments from the front
	readers  []*liveReader
	taken    []uint64 // delivered and not acked, in the order taken
	at       uint64   // the consumer's position
}

// world is a store under test and all that a history knows.
type world struct {
	program *program
	pool    *arena.Pool
	disk    *gate
	store   *segstore.Store
	batch   *segstore.Batch
	logs    []*liveLog
	deleted map[uint64]*deletedLog
	nextID  uint64
	serial  uint64
	commits chan struct{}
	lines   *lineCounter
	trace   func(format string, args ...any) // nil: silent
	txs     Transactions
	meta    metaSide

	// Of this life.
	faults     []*sim.Injection
	unreadable *sim.Rule // is at work when the store is opened
	unreadLog  uint64    // whose files it strikes, 0 for none
	fencing    bool      // an I/O error may have fenced something
	fencedLog  uint64    // only this log, 0 for any
	starved    bool      // space is short
	wasStarved bool      // at some time in this life
	staysFull  bool      // it will still be short when the store is opened again
	tainted    bool      // a sync failed since the last power cut
	clean      bool      // nothing unusual may be logged
	stops      int

	punches uint64 // of all lives before
}

type deletedLog struct {
	model  *LogModel
	fresh  bool // deleted in this life
	rested bool // the deletion had time to reach the disk
}

// failure is what a broken promise panics with.
type failure string

func fail(format string, args ...any) { panic(failure(fmt.Sprintf(format, args...))) }

func (w *world) note(format string, args ...any) {
	if w.trace != nil {
		w.trace(format, args...)
	}
}

func newWorld(p *program, pool *arena.Pool, trace func(string, ...any)) *world {
	w := &world{program: p, pool: pool, deleted: map[uint64]*deletedLog{}, trace: trace, clean: true, lines: &lineCounter{trace: trace}}
	w.batch = segstore.NewBatch(pool)
	w.disk = &gate{Disk: sim.New(sim.Options{Seed: p.seed, Order: p.config.order, SectorBytes: p.config.sectorBytes})}
	for i := range p.config.logs {
		w.addLog(i == 3).retained = i < 3 && (p.seed+uint64(i))%4 == 0
	}
	return w
}

func (w *world) addLog(transient bool) *liveLog {
	w.nextID++
	l := &liveLog{model: NewLogModel(w.nextID, transient)}
	w.logs = append(w.logs, l)
	return l
}

// lineCounter is a slog.Handler that counts what operators would be told.
type lineCounter struct {
	warnings atomic.Int64
	last     atomic.Pointer[string]
	trace    func(string, ...any)
}

func (c *lineCounter) Enabled(context.Context, slog.Level) bool { return true }
func (c *lineCounter) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *lineCounter) WithGroup(string) slog.Handler            { return c }
func (c *lineCounter) Handle(_ context.Context, r slog.Record) error {
	var line strings.Builder
	line.WriteString(r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&line, " %s", a)
		return true
	})
	if r.Level >= slog.LevelWarn {
		c.warnings.Add(1)
		text := line.String()
		c.last.Store(&text)
	}
	if c.trace != nil {
		c.trace("    log: %s", line.String())
	}
	return nil
}

// observe notes Durable and Err of all open logs.
func (w *world) observe() {
	level := LossPower
	if w.program.config.durabilityOS {
		level = LossKill
	}
	if w.store != nil {
		w.observeMeta(level)
		if err := w.txs.ObserveDurable(w.store.TxDurable(), level, w.modelOf); err != nil {
			fail("%v", err)
		}
	}
	for _, l := range w.logs {
		if l.log == nil {
			continue
		}
		err := l.log.Err()
		if e := l.model.ObserveDurable(l.log.Durable(), level); e != nil {
			fail("%v", e)
		}
		if err != nil && err != segstore.ErrClosed {
			if !w.crashed() {
				w.mayFence(l, err)
			}
			l.model.ObserveFenced()
		}
	}
}

func (w *world) mayFence(l *liveLog, err error) {
	switch {
	case !w.fencing:
		fail("log %d: promise 8: fenced without a reason: %v", l.model.ID, err)
	case w.fencedLog != 0 && w.fencedLog != l.model.ID:
		fail("log %d: promise 8: fenced, though only files of log %d fail: %v", l.model.ID, w.fencedLog, err)
	}
}

// sleep lets time pass for the store.
func (w *world) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}
