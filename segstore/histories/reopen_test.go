package histories

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"syscall"
	"testing/synctest"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// heal ends all faults: the operator has repaired the disk.
func (w *world) heal() {
	for _, f := range w.faults {
		f.Remove()
	}
	w.faults = nil
}

// breakLog has something fail that is done to a log's files, until it is fenced or
// does not care.
func (w *world) breakLog(l *liveLog, rng *rand.Rand) {
	if w.fencing && w.fencedLog != l.model.ID {
		w.fencedLog = 0
	} else {
		w.fencedLog = l.model.ID
	}
	w.fencing, w.clean = true, false
	dir := segstore.LogsDir
	if l.model.Transient {
		dir = segstore.TransientDir
	}
	rule := sim.Rule{
		Path:  fmt.Sprintf("%s/%016x/*", dir, l.model.ID),
		Calls: pick(rng, sim.CallWrite, sim.CallWrite, sim.CallSync, sim.CallSync, sim.CallCreate, sim.CallRename, sim.CallOpen|sim.CallCreate, sim.CallWrite|sim.CallSync|sim.CallRead),
		After: pick(rng, 0, 0, 1, 3),
		Count: pick(rng, 0, 1, 2),
	}
	switch {
	case rule.Calls == sim.CallWrite && rng.IntN(2) == 0:
		rule.Short, rule.Err = true, syscall.EIO
	case rule.Calls == sim.CallSync && rng.IntN(3) == 0:
		rule.Path, rule.Calls = path.Dir(rule.Path), sim.CallSyncDir
	}
	w.note("  rule %+v", rule)
	fault := w.disk.Inject(rule)
	w.faults = append(w.faults, fault)
	for range 2 + rng.IntN(6) {
		w.append(l, rng, pick(rng, 1, 10, 120))
		switch rng.IntN(3) {
		case 0:
			l.log.WantDurable()
		case 1:
			w.sleep(pick(rng, w.program.config.flushInterval, 2*w.program.config.syncInterval))
		}
		if l.log.Err() != nil || w.crashed() {
			return
		}
	}
}

// reopen opens fenced logs again, mostly on a repaired disk (promise 14).
func (w *world) reopen(rng *rand.Rand) {
	if rng.IntN(5) > 0 {
		w.heal()
	}
	all := !w.wasStarved // what waits for space may have failed in part, and nobody knows yet
	for _, l := range w.logs {
		if l.log == nil || w.crashed() {
			all = false
			continue
		}
		all = w.reopenLog(l, rng) && all
	}
	for _, d := range w.deleted {
		all = all && !d.fresh // it may still be on its way
	}
	if all && len(w.faults) == 0 && w.store.MetaErr() == nil {
		w.note("  everything works again")
		w.fencing, w.fencedLog = false, 0
	}
}

// reopenLog opens one log again, while others and its consumers go on. It returns
// whether the log takes records.
func (w *world) reopenLog(l *liveLog, rng *rand.Rand) bool {
	w.release() // what was held may fail now
	fenced := l.log.Err() != nil
	next, settled := l.model.Next(), make([]bool, l.model.Next())
	for o := range settled {
		settled[o] = l.model.Records[o].Settled
	}
	if rng.IntN(2) == 0 {
		w.disk.held.Store(true)
	}
	if fenced && rng.IntN(8) == 0 {
		w.disk.CrashAfter(1 + rng.Int64N(30))
	}
	outcome := make(chan error, 1)
	go func() { outcome <- l.log.Reopen() }()
	for range rng.IntN(8) {
		synctest.Wait()
		w.meanwhile(l, rng)
	}
	w.release()
	err := <-outcome
	synctest.Wait()
	w.note("  log %d: Reopen: %v", l.model.ID, err)
	switch {
	case err == nil && !fenced:
		fail("log %d: promise 14: Reopen worked on a log that was not fenced", l.model.ID)
	case err == nil:
		w.checkReopened(l, next, settled)
	case !fenced && errors.Is(err, segstore.ErrNotFenced):
		return true
	case w.crashed(), len(w.faults) > 0, w.store.MetaErr() != nil && errors.Is(err, segstore.ErrJournalFailed):
	case w.wasStarved && disk.IsNoSpace(err): // the flusher may not have noticed yet that there is space
	default:
		fail("log %d: promise 14: Reopen on a disk that works: %v", l.model.ID, err)
	}
	return l.log.Err() == nil
}

// meanwhile is something that happens while a log is being opened again.
func (w *world) meanwhile(l *liveLog, rng *rand.Rand) {
	if w.crashed() {
		return
	}
	other := w.logs[rng.IntN(len(w.logs))]
	switch rng.IntN(8) {
	case 0:
		if next := l.model.Next(); next > 0 && !l.retained {
			w.settle(l, rng.Uint64N(next), pick[uint64](rng, 1, 1, 5, 40))
		}
	case 1:
		if other.log != nil {
			w.append(other, rng, pick(rng, 1, 3, 10))
			other.log.WantDurable()
		}
	case 2:
		w.commit(rng, false, false)
	case 3:
		w.moveReaders(l, rng)
	case 4:
		w.sleep(pick(rng, w.program.config.flushInterval, w.program.config.syncInterval))
	default:
		w.disk.Step()
	}
}

// checkReopened: all that was in the log when it was opened again is on stable
// storage, and what was settled is.
func (w *world) checkReopened(l *liveLog, next uint64, settled []bool) {
	if durable := l.log.Durable(); durable < next {
		fail("log %d: promise 14: durable is %d after Reopen, next was %d", l.model.ID, durable, next)
	}
	l.model.Reopened(settled)
	reopenings.Add(1)
	if l.model.Unsettled() > 0 {
		remakings.Add(1)
	}
}
