package segstore

import (
	"sync"
	"sync/atomic"
)

// The filer does what has to be done to logs' files and nobody waits for: tails
// that only the journal has go to their segments, for memory's sake or for a
// checkpoint, which syncs those too; segments are sealed, settled ones removed,
// settled files written. It is a goroutine that runs while there is such work, so
// that groups of the journal go on beside it: in waves of the flusher's own, a
// thousand small files written and synced made every confirm wait.
//
// A log is its business (filing) from the round that gave it away until the end of
// its wave. All that time the flusher only journals what the log takes in, and
// decides nothing about its files. What by-passes the journal stays with the
// flusher, as somebody may wait for it; so do transient logs, deleted ones, and
// everything while the disk is full or the store is closing.
//
// What it costs, measured on ext4 in a virtual machine with a thousand logs that
// nobody consumes: 3 us for each 4 KiB appended in writes of 8 KiB at odd positions
// (1.6 us if they were 16 KiB at multiples of that, because the page cache has larger
// folios then; spill.go makes them 16 KiB, at odd positions), and 0.1 ms of processor time to sync a file, however little is in it.
// Tried and dropped: journal files of 256 MiB, half as many syncs, but the same
// number of confirms; 16 MiB of HeldBytes or four times HeldBytes before
// the flusher waits, 5 % more confirms for 14 MiB of memory; sparing a log, at a
// checkpoint, the write of its tail if its share of the older file is in its segment
// already, 4 % fewer writes and no time that could be measured.
//
// Memory is bounded all the same: when the journal alone has heldFactor times
// HeldBytes (and what a crowd may have more, spill.go), the flusher waits for the
// filer, and publishers feel it.
type filer struct {
	crew
	moved atomic.Bool // some Durable moved, or space came back: OnCommit is due

	mu      sync.Mutex // a leaf
	quiet   sync.Cond  // running became false, or hindered true
	queue   []*Log
	logs    []*Log // of the wave under way; the goroutine's
	running bool
	hinders bool // it waits for space
}

func (b *filer) init() {
	b.behind = true
	b.quiet.L = &b.mu
}

// idle says that nothing is queued or under way.
func (b *filer) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.running
}

// hinder says that the filer waits for space, so nobody should wait for it.
func (b *filer) hinder() {
	b.mu.Lock()
	b.hinders = true
	b.quiet.Broadcast()
	b.mu.Unlock()
}

// wait returns when the filer is idle, or false when it waits for space.
func (b *filer) wait() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.running && !b.hinders {
		b.quiet.Wait()
	}
	return !b.running
}

// giveToFiler queues logs.
func (s *Store) giveToFiler(logs []*Log) {
	if len(logs) == 0 {
		return
	}
	b := &s.filer
	b.mu.Lock()
	b.queue = append(b.queue, logs...)
	start := !b.running
	b.running = true
	b.mu.Unlock()
	switch {
	case s.tune.manual:
		s.runFiler()
	case start:
		go s.runFiler()
	}
}

// runFiler is the filer's goroutine.
func (s *Store) runFiler() {
	b := &s.filer
	for {
		b.mu.Lock()
		b.hinders = false
		n := min(len(b.queue), s.tune.waveLogs)
		clear(b.logs)
		b.logs = append(b.logs[:0], b.queue[:n]...)
		rest := copy(b.queue, b.queue[n:])
		clear(b.queue[rest:])
		b.queue = b.queue[:rest]
		if n == 0 {
			b.running = false
			b.quiet.Broadcast()
			b.mu.Unlock()
			return
		}
		b.mu.Unlock()
		s.fileWave(b.logs)
	}
}

// fileWave does a wave of logs that the flusher gave away. When the store is
// being closed it gives them back: the last pass does everything that was decided.
func (s *Store) fileWave(logs []*Log) {
	b := &s.filer
	stopping := false
	select {
	case <-s.stop:
		stopping = true
	default:
	}
	b.begin(len(logs))
	for _, l := range logs {
		l.mu.Lock()
		if !stopping && !l.deleted {
			b.plan(l, pass{sync: l.journaled.tickSync})
		}
		l.mu.Unlock()
	}
	s.carryOut(&b.crew, pass{}, nil)
	moved := false
	for _, l := range logs {
		l.mu.Lock()
		moved = l.leaveFiler() || moved
		l.mu.Unlock()
	}
	if moved {
		b.moved.Store(true)
	}
	s.wake()
}

// leaveFiler gives the log back. Called with its mutex held.
func (l *Log) leaveFiler() (moved bool) {
	l.filing = false
	switch {
	case l.deleted:
		l.list(listUrgent)
		return true
	case l.err != nil && l.err != ErrClosed:
		return true
	}
	moved = l.settleDown()
	if l.missed {
		l.missed = false
		l.list(listUrgent)
	}
	return moved
}

// awaitFiler waits for the filer where nothing else bounds memory.
func (s *Store) awaitFiler() {
	if s.heldBytes.Load() > s.heldMax()+(s.tune.heldFactor-1)*s.o.HeldBytes {
		s.filer.wait()
	}
}

// stopFiler returns when the filer has ended; the flusher has.
func (s *Store) stopFiler() {
	b := &s.filer
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.running {
		b.quiet.Wait()
	}
}
