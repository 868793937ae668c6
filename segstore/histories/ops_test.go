package histories

import (
	"math/rand/v2"
	"testing/synctest"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
)

// do carries out one operation.
func (w *world) do(o op) {
	rng := rand.New(rand.NewPCG(o.seed, 0x09))
	l := w.logs[rng.IntN(len(w.logs))]
	if l.log == nil && o.kind < opTick {
		return
	}
	w.note("%s log %d", o.kind, l.model.ID)
	if l.retained && w.doRetained(o, l, rng) {
		return
	}
	switch o.kind {
	case opAppend:
		w.append(l, rng, pick(rng, 1, 1, 1, 1, 3, 10, 60))
	case opBulk:
		for range 4 {
			w.append(l, rng, 120)
		}
	case opScatter: // so many single settlements that the settled file is rewritten
		first := l.model.Next()
		for range 4 {
			w.append(l, rng, 1500)
		}
		for o := first; o < l.model.Next(); o += 2 {
			w.settle(l, o, 1)
		}
	case opStuck:
		w.stuck(l, rng)
	case opWant:
		l.log.WantDurable()
	case opConfirm:
		w.confirm(l)
	case opTake:
		w.take(l, rng)
	case opSettleInOrder:
		w.settleTaken(l, rng, false)
	case opSettleAny:
		w.settleTaken(l, rng, true)
	case opRequeue:
		l.taken, l.at = nil, 0
	case opSettleRandom:
		if next := l.model.Next(); next > 0 {
			w.settle(l, rng.Uint64N(next), pick[uint64](rng, 0, 1, 1, 5, 40, NoOffset))
		}
	case opRead:
		if next := l.model.Next(); next > 0 {
			from := rng.Uint64N(next)
			w.readRange(l, from, min(next, from+pick[uint64](rng, 1, 10, 100)))
		}
	case opReaders:
		w.moveReaders(l, rng)
	case opPurge:
		w.settle(l, 0, l.model.Next())
		l.taken = nil
	case opDelete:
		w.delete(l)
	case opCursor:
		offset := rng.Uint64N(l.model.Next() + 1)
		l.log.SetCursor(offset)
		l.model.SetCursor(offset)
	default:
		w.doGlobal(o, l, rng)
	}
}

// doGlobal carries out the operations that concern the whole store.
func (w *world) doGlobal(o op, l *liveLog, rng *rand.Rand) {
	c := &w.program.config
	switch o.kind {
	case opTick:
		time.Sleep(pick(rng, c.flushInterval/2, c.flushInterval, 3*c.flushInterval))
	case opSyncTick:
		time.Sleep(pick(rng, c.syncInterval, 2*c.syncInterval))
	case opRest:
		w.rest(LossKill)
	case opRestLong:
		w.rest(LossPower)
	case opHold:
		w.disk.held.Store(true)
	case opStep:
		for range pick(rng, 1, 1, 2, 5) {
			synctest.Wait()
			w.disk.Step()
		}
	case opRelease:
		w.release()
	case opCommit:
		crashes := w.program.config.theme == themeCrash
		large := rng.IntN(120) == 0
		if crashes && (large || rng.IntN(8) == 0) {
			w.disk.CrashAfter(1 + rng.Int64N(8)) // in the middle of its group
		}
		w.commit(rng, large, rng.IntN(2) == 0)
	case opMeta:
		w.appendMeta(rng)
	case opClose:
		w.restart(LossNone, rng)
	case opCloseBusy: // Close finds a transaction, and may not come to its end
		w.commit(rng, false, false)
		w.disk.CrashAfter(1 + rng.Int64N(16))
		w.restart(LossNone, rng)
	case opKill:
		w.restart(LossKill, rng)
	case opPowerCut:
		w.restart(LossPower, rng)
	case opArmCrash:
		w.disk.CrashAfter(1 + rng.Int64N(pick[int64](rng, 3, 10, 40)))
	case opOpenLate:
		for _, l := range w.logs {
			if l.log == nil && l.unread == nil {
				w.release()
				if w.openLog(l) {
					w.checkTransactions()
				}
				break
			}
		}
	case opCheck:
		w.release()
		w.checkContent()
	default:
		w.doFault(o, l, rng)
	}
}

// release lets the disk go on.
func (w *world) release() {
	if w.disk.held.Swap(false) {
		go w.disk.drain()
	}
	synctest.Wait()
}

// after is what follows each operation: the store comes to rest as far as the
// disk lets it, and must be what the model is.
func (w *world) after(rng *rand.Rand) {
	synctest.Wait()
	w.observe()
	w.checkCounts(rng)
	if w.crashed() {
		w.restart(pick(rng, LossKill, LossPower), rng)
	}
}

// restart stops the store and opens it again.
func (w *world) restart(loss Loss, rng *rand.Rand) {
	w.note("stop: %s", loss)
	w.stop(loss, rng)
	w.open(rng)
}

// newRecord draws a record and adds it to the batch, whose time is base, as of
// now; false if the batch took no more templates.
func (w *world) newRecord(b *segstore.Batch, rng *rand.Rand, base, now int64) (Record, bool) {
	most := w.program.config.bodyBytesMax
	size := rng.IntN(pick(rng, 1, 20, most/4, most/2, most) + 1)
	kind := rng.IntN(pick(rng, 1, 3, 40))
	n := b.Template(templateParts(kind))
	if n < 0 {
		return Record{}, false
	}
	w.serial++
	r := Record{Serial: w.serial, Size: size, Template: kind, Timestamp: max(base, now)}
	b.SetTime(now)
	addBody(b, rng, n, &r)
	return r, true
}

// addRecord adds a record of that size to an empty batch of that time.
func (w *world) addRecord(b *segstore.Batch, rng *rand.Rand, size int, timestamp int64) Record {
	w.serial++
	r := Record{Serial: w.serial, Size: size, Timestamp: timestamp}
	addBody(b, rng, b.Template(templateParts(0)), &r)
	return r
}

// addBody adds the body of r, whole or in pieces.
func addBody(b *segstore.Batch, rng *rand.Rand, template int, r *Record) {
	body := make([]byte, r.Size)
	FillBody(body, r.Serial)
	if rng.IntN(4) > 0 {
		b.Add(template, body)
		return
	}
	if rng.IntN(3) == 0 {
		b.Begin(template, r.Size+1)
		b.Write(body)
		b.Abort()
	}
	b.Begin(template, r.Size)
	cut := rng.IntN(r.Size + 1)
	b.Write(body[:cut])
	b.Write(body[cut:])
	b.End()
}

var templateNames = [...]string{"", "amq.topic", "a-rather-long-exchange-name-that-takes-some-room-in-every-batch"}

// templateParts makes the template of that kind.
func templateParts(kind int) (exchange, routingKey, properties []byte) {
	properties = make([]byte, kind*7%90)
	FillBody(properties, uint64(kind)+1e9)
	key := []byte{'k', byte('a' + kind%26), byte('a' + kind/26)}
	return []byte(templateNames[kind%len(templateNames)]), key[:kind%4], properties
}

// buildBatch fills the batch with up to n records.
func (w *world) buildBatch(b *segstore.Batch, rng *rand.Rand, n int) []Record {
	base := time.Now().UnixMilli()
	b.Reset(base)
	var records []Record
	for range n {
		if b.Size() >= segstore.BatchBytesTarget {
			break
		}
		r, ok := w.newRecord(b, rng, base, base+pick[int64](rng, 0, 0, 0, -5, 3, 100000))
		if !ok {
			break
		}
		records = append(records, r)
	}
	return records
}

func (w *world) append(l *liveLog, rng *rand.Rand, n int) {
	records := w.buildBatch(w.batch, rng, n)
	fenced := l.log.Err() != nil
	base, err := l.log.Append(w.batch)
	w.batch.Reset(0)
	switch {
	case err != nil && l.log.Err() == nil:
		fail("log %d: Append: %v, but the log is not fenced", l.model.ID, err)
	case err == nil && fenced:
		fail("log %d: promise 8: Append worked on a fenced log", l.model.ID)
	case err != nil:
		return
	case base != l.model.Next():
		fail("log %d: promise 1: Append returned %d, next was %d", l.model.ID, base, l.model.Next())
	}
	l.model.Append(records)
}

// confirm wants everything durable and waits for it, as a publisher would.
func (w *world) confirm(l *liveLog) {
	l.log.WantDurable()
	if rest := w.waitDurable(l, l.model.Next()); rest && !w.starved {
		fail("log %d: no confirm: durable %d, next %d after a minute, not fenced", l.model.ID, l.log.Durable(), l.model.Next())
	}
}

// waitDurable waits until Durable reaches offset or the log is fenced; see wait.
func (w *world) waitDurable(l *liveLog, offset uint64) bool {
	return w.wait(func() bool { return l.log.Durable() >= offset || l.log.Err() != nil })
}

// wait waits until done or the disk is dead; true if none of it happened in a
// minute (or a moment, when the disk is full).
func (w *world) wait(done func() bool) (timedOut bool) {
	w.release()
	patience := time.Minute
	if w.starved {
		patience = 100 * time.Millisecond
	}
	timeout := time.NewTimer(patience)
	defer timeout.Stop()
	for !done() && !w.crashed() {
		select {
		case <-w.commits:
		case <-w.disk.Crashed():
		case <-timeout.C:
			return true
		}
		synctest.Wait()
	}
	return false
}

// take delivers a run to the consumer: it must be readable.
func (w *world) take(l *liveLog, rng *rand.Rand) {
	limit := pick[uint64](rng, 1, 5, 30)
	first, count := l.log.NextUnsettled(l.at, limit)
	wantFirst, wantCount := l.model.NextUnsettled(l.at, limit)
	if count != wantCount || count > 0 && first != wantFirst {
		fail("log %d: promise 1: NextUnsettled(%d, %d) = %d, %d; want %d, %d", l.model.ID, l.at, limit, first, count, wantFirst, wantCount)
	}
	if count == 0 {
		return
	}
	w.readRange(l, first, first+count)
	for o := first; o < first+count; o++ {
		l.taken = append(l.taken, o)
	}
	l.at = first + count
	if rng.IntN(3) == 0 {
		l.log.SetCursor(l.at)
		l.model.SetCursor(l.at)
	}
}

func (w *world) settle(l *liveLog, first, count uint64) {
	if count > l.model.Next() {
		count = l.model.Next() // and let the log see what it makes of the rest
		l.log.Settle(first, NoOffset)
	} else {
		l.log.Settle(first, count)
	}
	l.model.Settle(first, count)
}

// stuck leaves a few records unsettled among many, and time for the space of the
// others to be given back, or almost.
func (w *world) stuck(l *liveLog, rng *rand.Rand) {
	first := l.model.Next()
	for range pick(rng, 6, 12, 24) {
		w.append(l, rng, 120)
		if rng.IntN(4) == 0 {
			w.sleep(w.program.config.flushInterval)
		}
	}
	w.release()
	w.sleep(3 * w.program.config.syncInterval) // what is settled before it is written never is
	next := l.model.Next()
	for at := first; at < next; {
		count := min(pick[uint64](rng, 50, 300, 100_000)+rng.Uint64N(400), next-at)
		w.settle(l, at, count)
		at += count + pick[uint64](rng, 1, 1, 5)
	}
	w.sleep(time.Duration(rng.IntN(6)) * w.program.config.syncInterval)
}

// settleTaken acks some of what was delivered.
func (w *world) settleTaken(l *liveLog, rng *rand.Rand, anyOrder bool) {
	for range pick(rng, 1, 3, 20, 100) {
		if len(l.taken) == 0 {
			return
		}
		i := 0
		if anyOrder {
			i = rng.IntN(len(l.taken))
		}
		w.settle(l, l.taken[i], 1)
		l.taken = append(l.taken[:i], l.taken[i+1:]...)
	}
}

// delete drops a log; another one with a new id takes its place.
func (w *world) delete(l *liveLog) {
	if err := l.log.Delete(); err != nil {
		fail("log %d: Delete: %v", l.model.ID, err)
	}
	if _, err := l.log.Append(w.batch); err == nil {
		fail("log %d: Append worked on a deleted log", l.model.ID)
	}
	if err := l.log.Delete(); err == nil {
		fail("log %d: deleted twice", l.model.ID)
	}
	l.closeReaders()
	if !l.model.Transient {
		w.deleted[l.model.ID] = &deletedLog{model: l.model, fresh: true}
	}
	w.nextID++
	model := NewLogModel(w.nextID, l.model.Transient)
	*l = liveLog{model: model, retained: l.retained}
	w.release()
	w.openLog(l)
}

// rest waits until everything must survive a stop of that kind (promise 5).
func (w *world) rest(level Loss) {
	w.release()
	c := &w.program.config
	if w.wasStarved && !w.starved {
		w.sleep(spacePatience)
	}
	if level == LossKill {
		w.sleep(6 * c.flushInterval)
	} else {
		w.sleep(6*c.flushInterval + 3*c.syncInterval)
	}
	w.observe()
	if w.crashed() || w.starved {
		return
	}
	w.checkRested(level)
}
