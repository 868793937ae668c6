package segstore

import (
	"errors"
	"fmt"
	"sync"

	"github.com/basaltmq/basaltmq/segstore/journal"
)

// TxBytesMax bounds the batches of one transaction: they are written at once.
const TxBytesMax = 64 << 20

// ErrTxTooLarge: the batches of a transaction have more than TxBytesMax bytes.
var ErrTxTooLarge = errors.New("segstore: a transaction of more than 64 MiB")

// TxPart is one step of a transaction: a batch appended to a log, or count
// offsets from First on settled.
type TxPart struct {
	Log   *Log
	Batch *Batch // nil: settle
	First uint64
	Count uint64

	// Set by Commit: the offset of the batch's first record, and what
	// TxDurable must reach for the whole transaction to be durable.
	Base   uint64
	Ticket uint64
}

// gate is where transactions and meta records wait for a round. A round holds
// its mutex while logs enter, so it sees a transaction wholly or not at all.
// Taken before any Log.mu.
type gate struct {
	mu      sync.Mutex
	settles []txSettle
	meta    []journal.Entry
	ticket  uint64 // of the last transaction
	some    bool   // one of them is not empty; guarded by listMu
	listMu  sync.Mutex
}

type txSettle struct {
	log        *Log
	first, end uint64
}

// Commit does all parts, and sees to it that after a crash all of them are
// there or none is. It asks for durability: when TxDurable has reached the
// Ticket of a part, all parts are durable. Transient logs take part as long
// as the process lives. On an error nothing was done.
//
// It waits for other transactions, but not for the disk. Consumers see the
// batches of one log before those of the next.
func (s *Store) Commit(parts []TxPart) error {
	bytes := 0
	for i := range parts {
		if b := parts[i].Batch; b != nil && !parts[i].Log.transient {
			bytes += b.Size()
		}
	}
	if bytes > TxBytesMax {
		return fmt.Errorf("%w: %d bytes", ErrTxTooLarge, bytes)
	}
	g := &s.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range parts {
		if err := parts[i].Log.Err(); err != nil {
			return err
		}
	}
	g.ticket++
	for i := range parts {
		part := &parts[i]
		part.Ticket = g.ticket
		l := part.Log
		if part.Batch == nil {
			g.settle(l, part.First, part.Count)
			continue
		}
		base, err := l.append(part.Batch, true)
		part.Base = base
		if err == nil && !l.transient && part.Batch.count > 0 {
			l.mu.Lock()
			l.wantTransaction(base, base+uint64(part.Batch.count))
			l.mu.Unlock()
		} // else it was deleted just now, and its part is void
	}
	g.wake(s)
	return nil
}

// TxDurable is the ticket up to which all transactions are durable. OnCommit
// tells when to look. It stands still when MetaErr is not nil.
func (s *Store) TxDurable() uint64 { return s.journal.txDurable.Load() }

// wantTransaction marks [first, end) as part of a transaction.
func (l *Log) wantTransaction(first, end uint64) {
	j := &l.journaled
	if j.txEnd == 0 || j.txRound != 0 && j.txRound <= l.store.flusher.syncedRound.Load() {
		j.txFirst, j.txEnd = first, 0
	}
	j.txEnd, j.txRound = max(j.txEnd, end), 0
	l.want.Store(max(l.want.Load(), end))
	l.list(listUrgent)
}

// settle notes what a transaction settles. Called with the gate's mutex held.
func (g *gate) settle(l *Log, first, count uint64) {
	end, next := first+count, l.next.Load()
	if end > next || end < first {
		end = next
	}
	if first >= end {
		return
	}
	if !l.transient {
		g.settles = append(g.settles, txSettle{l, first, end})
		l.mu.Lock()
		l.journaled.txSettle = txWaiting
		l.list(listUrgent)
		l.mu.Unlock()
	}
	l.Settle(first, count)
}

// wake asks for a round.
func (g *gate) wake(s *Store) {
	g.listMu.Lock()
	g.some = true
	g.listMu.Unlock()
	s.wake()
}

// waiting reports whether a round is needed.
func (g *gate) waiting() bool {
	g.listMu.Lock()
	defer g.listMu.Unlock()
	return g.some
}

// enter moves what waits into the round. Called with the gate's mutex held.
func (g *gate) enter(s *Store, r *round) {
	r.ticketTo = g.ticket
	// A transaction without parts left (its logs were deleted) is waited for too.
	r.wantSync = r.wantSync || g.ticket > s.journal.txDurable.Load()
	for i := range g.settles {
		t := &g.settles[i]
		t.log.mu.Lock()
		if !t.log.deleted {
			t.log.add(r, journal.Entry{Kind: journal.Range, ID: t.log.id, First: t.first, End: t.end}, nil)
			t.log.journaled.txSettle = r.number
			r.wantSync, r.atomic = true, true
		}
		t.log.mu.Unlock()
	}
	clear(g.settles)
	g.settles = g.settles[:0]
	for i := range g.meta {
		r.entries = append(r.entries, entry{Entry: g.meta[i]})
		r.metaTo = max(r.metaTo, g.meta[i].ID)
		r.wantSync = true
		s.journal.meta[s.journal.w.Current()] = true
	}
	clear(g.meta)
	g.meta = g.meta[:0]
	g.listMu.Lock()
	g.some = false
	g.listMu.Unlock()
}

// AppendMeta puts a record of the store's owner into the journal: definitions,
// cluster metadata. Sequence numbers ascend. MetaDurable tells when it is on
// stable storage; OnCommit when to look. The bytes are copied. It never waits
// for the disk.
func (s *Store) AppendMeta(seq uint64, rec []byte) {
	g := &s.gate
	g.mu.Lock()
	g.meta = append(g.meta, journal.Entry{Kind: journal.Meta, ID: seq, Data: append([]byte(nil), rec...)})
	g.mu.Unlock()
	g.wake(s)
}

// MetaDurable is the highest sequence number up to which all meta records
// appended in this life of the process are durable.
func (s *Store) MetaDurable() uint64 { return s.journal.metaDurable.Load() }

// MetaErr says why meta records don't become durable any more, nil if they do.
func (s *Store) MetaErr() error {
	if err := s.journal.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// SetMetaCheckpoint sets what makes all meta records appended before the call
// durable elsewhere. A checkpoint calls it from a goroutine of its own; it may
// block, but not wait for Durable or MetaDurable. As long as there is none, or
// it fails, the journal keeps the file with the records, and beyond one more
// file's worth publishers feel pressure. Set it before the first AppendMeta
// and after an Open that called OnMeta.
func (s *Store) SetMetaCheckpoint(do func() error) {
	js := &s.journal
	js.metaMu.Lock()
	js.metaCheckpoint = do
	js.metaMu.Unlock()
	s.wake()
}
