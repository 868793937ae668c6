package histories

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

// doFault carries out the operations that hurt the disk.
func (w *world) doFault(o op, l *liveLog, rng *rand.Rand) {
	switch o.kind {
	case opStarve:
		w.starved, w.wasStarved = true, true
		w.disk.SetBudget(max(1, w.disk.Used()+pick[int64](rng, 0, 4<<10, 16<<10, 64<<10)))
	case opFeed:
		w.feed(rng)
	case opFail:
		w.injectError(l, rng)
	case opBreak:
		if l.log != nil {
			w.breakLog(l, rng)
		}
	case opReopen:
		w.reopen(rng)
	case opUnread:
		w.planUnreadable(l, rng)
		w.restart(pick(rng, LossNone, LossKill, LossPower), rng)
	case opReread:
		w.reread(rng)
	case opGiveUp:
		if l.unread != nil {
			l.log, l.unread = l.unread, nil
			w.delete(l)
		}
	case opFlip:
		w.flip(rng, true)
	case opFlipStopped:
		w.stop(pick(rng, LossNone, LossPower), rng) // flips in what is not synced could be undone by a cut
		for range pick(rng, 1, 1, 3) {
			w.flip(rng, false)
		}
		w.open(rng)
	}
}

// spacePatience is how long the store may take to notice that there is space
// again.
const spacePatience = 10 * time.Second

// feed gives the disk space again: everything that waited must get durable by
// itself (promise 8).
func (w *world) feed(rng *rand.Rand) {
	w.disk.SetBudget(0)
	if !w.starved {
		return
	}
	w.starved = false
	w.release()
	if rng.IntN(3) == 0 {
		return
	}
	w.sleep(spacePatience)
	w.observe()
	if !w.crashed() {
		w.checkRested(LossPower)
	}
}

// injectError lets operations fail from now on.
func (w *world) injectError(l *liveLog, rng *rand.Rand) {
	rule := sim.Rule{
		Calls: pick(rng, sim.CallWrite, sim.CallSync, sim.CallWrite|sim.CallSync, sim.CallSyncDir, sim.CallCreate, sim.CallRename,
			sim.CallRead, sim.CallAny&^(sim.CallRead|sim.CallReadDir|sim.CallFree)),
		After: rng.IntN(4),
		Count: pick(rng, 0, 1, 1, 3),
	}
	if rng.IntN(4) == 0 {
		rule.Probability = 0.3
	}
	if rule.Calls == sim.CallWrite {
		rule.Short = rng.IntN(2) == 0
		if rule.Short && rng.IntN(2) == 0 {
			rule.Err = syscall.EIO
		}
	}
	switch rng.IntN(3) {
	case 0:
		rule.Path = fmt.Sprintf("%s/%016x/*", segstore.LogsDir, l.model.ID)
		if rule.Calls&sim.CallSyncDir != 0 && rng.IntN(2) == 0 {
			rule.Path = fmt.Sprintf("%s/%016x", segstore.LogsDir, l.model.ID)
		}
		if w.fencing && w.fencedLog != l.model.ID {
			w.fencedLog = 0
		} else {
			w.fencedLog = l.model.ID
		}
	case 1:
		rule.Path = pick(rng, "*.seg", segstore.SettledName, segstore.SettledTempName, journal.Dir, journal.Dir+"/*")
		w.fencedLog = 0
	default:
		w.fencedLog = 0
	}
	if rule.Short && rule.Err == nil { // the disk hides it
		w.disk.Inject(rule)
		return
	}
	w.fencing, w.clean = true, false
	w.note("  rule %+v", rule)
	w.faults = append(w.faults, w.disk.Inject(rule))
}

// flip turns a bit at rest in a segment, or when the store is stopped in a
// settled file, and notes which records that may cost (promise 9).
func (w *world) flip(rng *rand.Rand, live bool) {
	var names []string
	for _, name := range w.disk.Files() {
		if strings.HasPrefix(name, journal.Dir+"/") && !live && rng.IntN(10) == 0 {
			w.flipJournal(name, rng)
			return
		}
		if strings.HasPrefix(name, segstore.LogsDir+"/") && !strings.Contains(name, segstore.QuarantineSuffix) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return
	}
	name := names[rng.IntN(len(names))]
	data, err := w.disk.ReadFile(name)
	if err != nil || len(data) == 0 {
		return
	}
	l := w.logOf(name)
	if l == nil {
		return
	}
	if path.Base(name) == segstore.SettledName {
		if !live {
			// At rest: a removed segment does not come back any more. (The settled
			// file may be all that keeps its offsets from being used again.)
			if err := w.disk.SyncDir(path.Dir(name)); err != nil {
				fail("sim: %v", err)
			}
			l.model.AcksDamaged, w.clean = true, false
			w.flipBit(name, rng.IntN(len(data)), rng)
		}
		return
	}
	ranges, end := batchRanges(data)
	sealed := end < len(data) && segstore.IsFooter(data[end:])
	switch {
	case len(ranges) == 0 || live && !sealed:
	case sealed && !live && rng.IntN(6) == 0:
		w.clean = false
		w.flipBit(name, end+rng.IntN(len(data)-end), rng)
	default:
		r := ranges[rng.IntN(len(ranges))]
		l.model.MarkDamaged(r.info.Base, r.info.End)
		w.clean = false
		if r.info.Hole {
			r.info.Bytes = segstore.HoleMarkBytes
		}
		w.flipBit(name, r.pos+rng.IntN(int(r.info.Bytes)), rng)
	}
}

// flipJournal turns a bit in a file of the journal, where there is something.
func (w *world) flipJournal(name string, rng *rand.Rand) {
	data, err := w.disk.ReadFile(name)
	used := len(bytes.TrimRight(data, "\x00"))
	if err != nil || used == 0 {
		return
	}
	w.forgive()
	w.flipBit(name, rng.IntN(used), rng)
}

func (w *world) flipBit(name string, pos int, rng *rand.Rand) {
	bit := uint(rng.IntN(8))
	w.note("  flip %s at %d bit %d", name, pos, bit)
	if err := w.disk.Flip(name, int64(pos), bit); err != nil {
		fail("sim: %v", err)
	}
}

// logOf is the log that owns a file, nil if it is none of the living.
func (w *world) logOf(name string) *liveLog {
	for _, l := range w.logs {
		if strings.HasPrefix(name, fmt.Sprintf("%s/%016x/", segstore.LogsDir, l.model.ID)) {
			return l
		}
	}
	return nil
}

type batchRange struct {
	pos  int
	info segstore.BatchInfo
}

// batchRanges lists the batches at the start of a segment file and where they
// end.
func batchRanges(data []byte) (ranges []batchRange, end int) {
	end = segstore.SegmentHeaderBytes
	for end < len(data) {
		info, isHole, err := segstore.DecodeHole(data[end:])
		if !isHole {
			info, err = segstore.VerifyBatch(data[end:])
		}
		if err != nil {
			break
		}
		ranges = append(ranges, batchRange{end, info})
		end += int(info.Bytes)
	}
	return ranges, end
}
