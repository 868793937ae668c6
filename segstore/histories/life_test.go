package histories

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// open opens the store and most of its logs, trying again after a crash in the
// middle of it.
func (w *world) open(rng *rand.Rand) {
	for {
		if rng.IntN(12) == 0 && w.stops > 0 && w.program.config.theme == themeCrash {
			w.disk.CrashAfter(1 + rng.Int64N(20))
		}
		if w.tryOpen(rng) {
			return
		}
		w.stop(pick(rng, LossKill, LossPower), rng)
	}
}

func (w *world) tryOpen(rng *rand.Rand) bool {
	c := &w.program.config
	w.commits = make(chan struct{}, 1)
	commits := w.commits
	o := segstore.Options{
		Disk: w.disk, Arena: w.pool, Logger: slog.New(w.lines),
		FlushInterval: c.flushInterval, SyncInterval: c.syncInterval, SegmentBytes: c.segmentBytes,
		TailBytesHigh: c.tailBytesHigh, JournalBytes: c.journalBytes, HeldBytes: c.heldBytes, PunchBytes: c.punchBytes, DurabilityOS: c.durabilityOS,
		OnCommit: func() {
			select {
			case commits <- struct{}{}:
			default:
			}
		},
	}
	w.prepare(&o)
	clean := w.clean
	warnings := w.lines.warnings.Load()
	w.fencing, w.fencedLog, w.starved, w.wasStarved = false, 0, w.staysFull, w.staysFull
	w.makeUnreadable()
	store, err := segstore.Open(o)
	if err != nil {
		w.mustBeCrash("Open", err)
		return false
	}
	w.store = store
	w.checkMeta(rng)
	if !w.checkListed() {
		return false
	}
	for _, l := range w.logs {
		if w.stops > 0 && rng.IntN(10) == 0 {
			w.note("  log %d stays closed", l.model.ID)
			continue
		}
		if !w.openLog(l) {
			return false
		}
	}
	if !w.openDeleted(rng) {
		return false
	}
	w.checkTransactions()
	if clean && len(w.faults) == 0 && w.clean && w.lines.warnings.Load() != warnings {
		fail("opening after a clean stop complained: %s", *w.lines.last.Load())
	}
	return true
}

// mustBeCrash: nothing but a crash or a failing disk may make opening fail.
func (w *world) mustBeCrash(what string, err error) {
	if !w.crashed() && (!w.fencing || w.unreadLog != 0) {
		fail("%s failed: %v", what, err) // promise 15
	}
	w.note("  %s failed: %v", what, err)
}

func (w *world) crashed() bool {
	select {
	case <-w.disk.Crashed():
		return true
	default:
		return false
	}
}

// openLog opens a log and compares it with its model; false after a crash.
func (w *world) openLog(l *liveLog) bool {
	o := segstore.LogOptions{Transient: l.model.Transient}
	if l.retained {
		o.Retained = &segstore.RetainedOptions{SegmentBytes: w.program.config.segmentBytes / 2}
		if l.model.loss != LossNone {
			o.Retained.Skip = retainedSkip
		}
		l.model.Skip = o.Retained.Skip
	}
	log, err := w.store.OpenLog(l.model.ID, o)
	if err != nil {
		w.mustBeCrash("OpenLog", err)
		return false
	}
	l.taken, l.at = nil, 0
	if err := log.Unread(); err != nil {
		return w.noteUnread(l, log, err)
	}
	l.log = log
	return w.adopt(l)
}

// openDeleted looks at a deleted log that a crash may have brought back.
func (w *world) openDeleted(rng *rand.Rand) bool {
	if w.stops == 0 || rng.IntN(3) > 0 {
		return true
	}
	for id := uint64(1); id <= w.nextID; id++ {
		d := w.deleted[id]
		if d == nil {
			continue
		}
		if rng.IntN(3) == 0 {
			if !w.quarantine(d) {
				return false
			}
			continue
		}
		d.model.Skip = 0 // nobody reads it any more
		log, err := w.store.OpenLog(id, segstore.LogOptions{})
		if err != nil {
			w.mustBeCrash("OpenLog", err)
			return false
		}
		if d.rested && log.Next() > 0 {
			fail("log %d: promise 12: it was deleted and is back with next %d", id, log.Next())
		}
		l := &liveLog{model: d.model, log: log}
		for o := range d.model.Records {
			d.model.Records[o].Damaged = true
		}
		_, ok := w.readFound(l)
		l.closeReaders()
		if !ok {
			return false
		}
		w.note("  deleted log %d: next %d, deleted again", id, log.Next())
		if err := log.Delete(); err != nil {
			fail("Delete: %v", err)
		}
		d.fresh = true
	}
	return true
}

// checkTransactions: after logs were adopted, before anything is done to them.
func (w *world) checkTransactions() {
	if err := w.txs.Adopted(w.modelOf); err != nil {
		fail("%v", err)
	}
}

// checkListed: every log that must hold something is known; false if the disk
// died.
func (w *world) checkListed() bool {
	ids, err := w.store.ListLogs()
	if err != nil {
		w.mustBeCrash("ListLogs", err)
		return false
	}
	for _, l := range w.logs {
		if l.model.MustHold() && !slices.Contains(ids, l.model.ID) {
			fail("log %d: promise 3: it is not listed after %s", l.model.ID, l.model.loss)
		}
	}
	return true
}

// quarantine moves a deleted log that came back aside, as the broker does with
// logs that belong to nothing; false if the disk died.
func (w *world) quarantine(d *deletedLog) bool {
	for again := false; ; again = true {
		ids, err := w.store.ListLogs()
		if err != nil {
			w.mustBeCrash("ListLogs", err)
			return false
		}
		switch listed := slices.Contains(ids, d.model.ID); {
		case !listed:
			return true
		case again:
			fail("log %d: it is listed after Quarantine", d.model.ID)
		}
		err = w.store.Quarantine(d.model.ID)
		if w.starved && disk.IsNoSpace(err) {
			return true // it stays for another life
		}
		if err != nil {
			w.mustBeCrash("Quarantine", err)
			return false
		}
		w.note("  deleted log %d set aside", d.model.ID)
		w.clean = false
	}
}

// stop ends the life of the store. The disk is another one after it.
func (w *world) stop(loss Loss, rng *rand.Rand) {
	w.stops++
	w.disk.held.Store(false)
	w.observe()
	if w.store != nil {
		w.punches += w.store.Stats().Punches
	}
	failed := w.disk.Stats().SyncsFailed > 0
	early := rng.IntN(2) == 0 // close readers before the store, or after
	if early {
		w.closeReaders()
	}
	next := loss
	switch {
	case loss == LossNone && w.store != nil:
		go w.disk.drain()
		err := w.store.Close()
		if err == nil {
			err = w.store.Close()
		}
		failed = failed || w.disk.Stats().SyncsFailed > 0
		w.note("  Close: %v", err)
		if err != nil {
			if !w.fencing && !w.wasStarved && !w.crashed() && !(w.unreadLog != 0 && errors.Is(err, segstore.ErrUnread)) {
				fail("promise 4: Close: %v", err)
			}
			loss = LossKill
		}
		next = pick(rng, LossKill, LossPower)
	case w.store != nil && rng.IntN(2) == 0 && !w.crashed():
		go w.disk.drain()
		w.store.Crash()
	}
	old := w.disk
	var successor *sim.Disk
	if next == LossPower {
		successor = old.PowerCut()
	} else {
		successor = old.Kill()
	}
	go old.drain()
	if w.store != nil {
		w.store.Crash()
	}
	w.observe()
	w.closeReaders()
	synctest.Wait()
	w.staysFull = w.starved && rng.IntN(2) == 0
	if w.staysFull {
		successor.SetBudget(max(1, successor.Used()+pick[int64](rng, 0, 4<<10)))
	} else {
		successor.SetBudget(0)
	}
	w.disk = &gate{Disk: successor}
	w.faults, w.unreadLog = nil, 0
	w.conclude(loss, next)
	w.tainted = (w.tainted || failed) && next != LossPower
	w.clean = loss == LossNone && next != LossPower && !w.fencing && !w.wasStarved && w.clean
	w.store = nil
	time.Sleep(time.Second) // names in quarantine/ have the second in them
}

// conclude tells the models how the life ended: loss is what happened to the
// store, next what happened to its disk.
func (w *world) conclude(loss, next Loss) {
	if loss != LossNone {
		loss = max(loss, next)
	}
	for _, l := range w.logs {
		switch {
		case l.log == nil && l.model.loss == LossNone:
			// It was not open, and on disk since a clean stop.
		case l.log == nil, l.model.Fenced(): // Close did nothing for it
			l.model.Stop(max(loss, next))
		default:
			l.model.Stop(loss)
		}
		l.log, l.unread = nil, nil
	}
	for _, d := range w.deleted {
		d.model.Stop(max(loss, next))
		d.fresh = false
	}
	w.txs.Stop()
	if w.program.config.durabilityOS && max(loss, next) == LossPower {
		w.txs = Transactions{} // that level keeps them whole in the page cache only
	}
	w.meta.model.Stop(loss)
}

func (w *world) closeReaders() {
	for _, l := range w.logs {
		l.closeReaders()
	}
}
