package histories

import (
	"errors"
	"math/rand/v2"
	"sync"

	"github.com/basaltmq/basaltmq/segstore"
)

// metaSide is the owner of the meta records: the model and what Open said.
type metaSide struct {
	mu    sync.Mutex // the checkpoint calls from a goroutine of the store
	model MetaModel
	found []MetaRecord
}

// prepare adds to the options what meta records need.
func (w *world) prepare(o *segstore.Options) {
	w.meta.found = nil
	o.OnMeta = func(seq uint64, rec []byte) error {
		w.meta.found = append(w.meta.found, MetaRecord{seq, append([]byte(nil), rec...)})
		return nil
	}
}

// checkMeta compares the meta records of an opened store and sets up the
// checkpoint of the new life.
func (w *world) checkMeta(rng *rand.Rand) {
	m := &w.meta
	m.mu.Lock()
	err := m.model.Adopt(m.found)
	m.mu.Unlock()
	if err != nil {
		fail("%v", err)
	}
	own := rand.New(rand.NewPCG(rng.Uint64(), 0))
	refusals := own.IntN(2)
	w.store.SetMetaCheckpoint(func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		if refusals > 0 && own.IntN(2) == 0 {
			refusals--
			return errors.New("refused")
		}
		m.model.TookOver(m.model.Last())
		return nil
	})
}

func (w *world) appendMeta(rng *rand.Rand) {
	for range pick(rng, 1, 1, 1, 5) {
		data := make([]byte, rng.IntN(pick(rng, 1, 50, 3000)+1))
		w.serial++
		FillBody(data, w.serial)
		w.meta.mu.Lock()
		seq := w.meta.model.Append(data)
		w.meta.mu.Unlock()
		w.store.AppendMeta(seq, data)
	}
}

func (w *world) observeMeta(level Loss) {
	w.meta.mu.Lock()
	defer w.meta.mu.Unlock()
	if err := w.meta.model.ObserveDurable(w.store.MetaDurable(), level); err != nil {
		fail("%v", err)
	}
	if err := w.store.MetaErr(); err != nil && !w.fencing && !w.crashed() {
		fail("MetaErr without a reason: %v", err)
	}
}

// largeBytes is the size of a large body: three parts with one each are more
// than the 4 MiB after which the journal cuts what is no transaction.
const largeBytes = 1500 << 10

// commit does a transaction over up to four logs, the same one twice if it
// comes so.
func (w *world) commit(rng *rand.Rand, large, wait bool) {
	var parts []segstore.TxPart
	var do []func(p *segstore.TxPart)
	var appended, settled []Piece
	fenced := false
	ahead := map[*liveLog]uint64{} // Next with the parts so far
	count := pick(rng, 1, 2, 3, 4)
	if large {
		count = 4
	}
	for range count {
		l := w.logs[rng.IntN(len(w.logs))]
		if l.log == nil {
			continue
		}
		fenced = fenced || l.log.Err() != nil
		next := max(ahead[l], l.model.Next())
		ahead[l] = next
		if rng.IntN(2) == 0 && next > 0 && !large && !l.retained {
			first, count := rng.Uint64N(next), pick[uint64](rng, 1, 1, 3, 50)
			parts = append(parts, segstore.TxPart{Log: l.log, First: first, Count: count})
			w.note("  settle log %d from %d on, %d", l.model.ID, first, count)
			do = append(do, func(*segstore.TxPart) {
				for o := first; o < min(first+count, l.model.Next()); o++ {
					if r := &l.model.Records[o]; !r.Settled && !l.model.Transient {
						settled = append(settled, Piece{l.model.ID, o, r.Serial})
					}
				}
				l.model.Settle(first, count)
			})
			continue
		}
		b := segstore.NewBatch(w.pool)
		defer b.Release()
		records := w.buildBatch(b, rng, pick(rng, 0, 1, 1, 3, 30))
		if large { // together more than what usually is one write
			b.Reset(0)
			records = []Record{w.addRecord(b, rng, largeBytes, 0)}
		}
		ahead[l] += uint64(len(records))
		w.note("  append %d to log %d", len(records), l.model.ID)
		parts = append(parts, segstore.TxPart{Log: l.log, Batch: b})
		do = append(do, func(p *segstore.TxPart) {
			if p.Base != l.model.Next() {
				fail("log %d: promise 1: Commit appended at %d, next was %d", l.model.ID, p.Base, l.model.Next())
			}
			for i, r := range records {
				if !l.model.Transient {
					appended = append(appended, Piece{l.model.ID, p.Base + uint64(i), r.Serial})
				}
			}
			l.model.Append(records)
		})
	}
	err := w.store.Commit(parts)
	w.note("  Commit of %d parts: %v", len(parts), err)
	if err == nil && fenced {
		fail("promise 8: Commit worked with a fenced log")
	}
	if err != nil {
		if !w.fencing && !w.crashed() {
			fail("Commit: %v", err)
		}
		return
	}
	if len(parts) == 0 {
		return
	}
	for i := range parts {
		do[i](&parts[i])
	}
	w.txs.Add(parts[0].Ticket, appended, settled)
	if !wait {
		return
	}
	if w.wait(func() bool {
		return w.store.TxDurable() >= parts[0].Ticket || w.store.MetaErr() != nil || w.anyFenced()
	}) && !w.starved {
		fail("promise 10: transaction %d is not durable after a minute: TxDurable %d", parts[0].Ticket, w.store.TxDurable())
	}
}

// forgive takes back all promises but that nothing false is read: after damage
// to the journal, which may have held anything.
func (w *world) forgive() {
	w.clean = false
	for _, l := range w.logs {
		l.model.AcksDamaged, l.model.Forgiven = true, true
		l.model.MarkDamaged(0, NoOffset)
	}
	for _, d := range w.deleted {
		d.rested = false
	}
	w.txs = Transactions{}
	w.meta.model.Forgive()
}

func (w *world) anyFenced() bool {
	for _, l := range w.logs {
		if l.log != nil && l.log.Err() != nil {
			return true
		}
	}
	return false
}

// modelOf is the model of a log that is open, or nil.
func (w *world) modelOf(id uint64) *LogModel {
	for _, l := range w.logs {
		if l.model.ID == id && l.log != nil {
			return l.model
		}
	}
	return nil
}
