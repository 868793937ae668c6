package histories

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing/synctest"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

// planUnreadable has the next start find a log's files unreadable, or some of them
// after a while.
func (w *world) planUnreadable(l *liveLog, rng *rand.Rand) {
	if l.model.Transient {
		return
	}
	rule := &sim.Rule{
		Path: fmt.Sprintf("%s/%016x/*", segstore.LogsDir, l.model.ID),
		Calls: pick(rng, sim.CallOpen, sim.CallRead, sim.CallRead, sim.CallOpen|sim.CallRead,
			sim.CallRead|sim.CallWrite|sim.CallTruncate|sim.CallCreate|sim.CallRename|sim.CallRemove),
		After: pick(rng, 0, 0, 1, 2, 3, 5, 9),
	}
	if rng.IntN(4) == 0 {
		rule.Path, rule.Calls, rule.After = fmt.Sprintf("%s/%016x", segstore.LogsDir, l.model.ID), sim.CallReadDir, 0
	}
	w.unreadable, w.unreadLog = rule, l.model.ID
}

// makeUnreadable has what was planned begin.
func (w *world) makeUnreadable() {
	rule := w.unreadable
	if rule == nil {
		return
	}
	w.unreadable = nil
	var id uint64
	_, _ = fmt.Sscanf(strings.TrimPrefix(rule.Path, segstore.LogsDir+"/"), "%016x", &id)
	w.fencing, w.fencedLog, w.unreadLog, w.clean = true, id, id, false
	w.note("  rule %+v", *rule)
	w.faults = append(w.faults, w.disk.Inject(*rule))
}

// noteUnread judges a log that could not be read; false if the disk died.
func (w *world) noteUnread(l *liveLog, log *segstore.Log, err error) bool {
	if w.crashed() {
		return false
	}
	if w.unreadLog != l.model.ID && !(w.starved && disk.IsNoSpace(err)) {
		fail("log %d: promise 15: it cannot be read, and nobody knows why: %v", l.model.ID, err)
	}
	if log.Next() != 0 || log.Unsettled() != 0 || log.Err() == nil {
		fail("log %d: promise 15: unread, but next %d, unsettled %d, err %v", l.model.ID, log.Next(), log.Unsettled(), log.Err())
	}
	w.note("  log %d is unread: %v", l.model.ID, err)
	l.unread = log
	return true
}

func (w *world) anyUnread() bool {
	for _, l := range w.logs {
		if l.unread != nil {
			return true
		}
	}
	return false
}

// reread reads logs again that could not be read, mostly on a mended disk.
func (w *world) reread(rng *rand.Rand) {
	if rng.IntN(5) > 0 {
		w.heal()
	}
	for _, l := range w.logs {
		if l.unread != nil && !w.crashed() {
			w.rereadLog(l, rng)
		}
	}
	if len(w.faults) == 0 && !w.anyFenced() && !w.anyUnread() && !w.crashed() && !w.wasStarved {
		w.fencing, w.fencedLog = false, 0
	}
}

// rereadLog reads one log, while others go on, compares it with its model, and
// mostly opens it.
func (w *world) rereadLog(l *liveLog, rng *rand.Rand) {
	w.release()
	if rng.IntN(2) == 0 {
		w.disk.held.Store(true)
	}
	if rng.IntN(8) == 0 {
		w.disk.CrashAfter(1 + rng.Int64N(30))
	}
	outcome := make(chan error, 1)
	go func() { outcome <- l.unread.Reread() }()
	for range rng.IntN(8) {
		synctest.Wait()
		w.disk.Step()
		if other := w.logs[rng.IntN(len(w.logs))]; other.log != nil && !w.crashed() {
			w.append(other, rng, pick(rng, 1, 3, 10, 60))
			other.log.WantDurable()
		}
		if rng.IntN(4) == 0 {
			w.sleep(w.program.config.syncInterval)
		}
	}
	w.release()
	err := <-outcome
	synctest.Wait()
	w.note("  log %d: Reread: %v", l.model.ID, err)
	switch {
	case w.crashed():
		return
	case err == nil:
	case len(w.faults) > 0, w.store.MetaErr() != nil && errors.Is(err, segstore.ErrJournalFailed), w.wasStarved && disk.IsNoSpace(err):
		if l.unread.Next() != 0 || l.unread.Unread() == nil {
			fail("log %d: promise 15: Reread failed, and next is %d, %v", l.model.ID, l.unread.Next(), l.unread.Unread())
		}
		return
	default:
		fail("log %d: promise 15: Reread on a disk that works: %v", l.model.ID, err)
	}
	l.log, l.unread = l.unread, nil
	if w.fencing && w.fencedLog != l.model.ID {
		w.fencedLog = 0
	} else {
		w.fencing, w.fencedLog = true, l.model.ID // until it is open
	}
	if !w.adopt(l) {
		return
	}
	w.checkTransactions()
	if l.model.Unsettled() > 0 {
		rereadings.Add(1)
		if w.kept(l) {
			keepings.Add(1)
		}
	}
	if rng.IntN(6) > 0 {
		w.reopenLog(l, rng)
	}
}

// kept reports whether a file of the journal is put aside for the log.
func (w *world) kept(l *liveLog) bool {
	for _, name := range w.disk.Files() {
		if strings.HasPrefix(name, journal.Dir+"/") && strings.HasSuffix(name, fmt.Sprintf("-%016x.kept", l.model.ID)) {
			return true
		}
	}
	return false
}
