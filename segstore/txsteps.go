package segstore

import "fmt"

// Tx is a transaction whose steps its owner makes itself, with Append and
// Settle as usual, and names here: for owners that keep state of their own in
// step with their logs. Between Begin and End no round of the flusher looks at
// any log, so it sees all steps or none; keep it short. What Commit says of the
// result holds for End.
//
// One goroutine. Locks of the owner that are taken between Begin and End must
// not be held by anybody who calls Begin, Commit or AppendMeta.
type Tx struct {
	store *Store
	some  bool // it has a part that is to survive
}

// Begin starts a transaction. It waits for other transactions and for a round
// that is looking at the logs, but not for the disk.
func (s *Store) Begin() *Tx {
	s.gate.mu.Lock()
	s.gate.ticket++
	return &Tx{store: s}
}

// Appended says that the records [first, end) of l are part of the transaction.
func (t *Tx) Appended(l *Log, first, end uint64) {
	if l.transient || first >= end {
		return
	}
	l.mu.Lock()
	if !l.deleted { // not even if it was fenced just now, see enter
		l.wantTransaction(first, end)
		t.some = true
	}
	l.mu.Unlock()
}

// Settled says that settling count offsets from first on is part of it.
func (t *Tx) Settled(l *Log, first, count uint64) {
	t.store.gate.settle(l, first, count)
	t.some = t.some || !l.transient
}

// End completes the transaction. It is durable when TxDurable has reached the
// ticket; 0 when nothing in it is to survive.
func (t *Tx) End() (ticket uint64) {
	g := &t.store.gate
	defer g.mu.Unlock()
	if !t.some {
		return 0
	}
	g.wake(t.store)
	return g.ticket
}

// CheckTxBytes says whether a transaction may write so many bytes.
func CheckTxBytes(bytes uint64) error {
	if bytes > TxBytesMax {
		return fmt.Errorf("%w: %d bytes", ErrTxTooLarge, bytes)
	}
	return nil
}
