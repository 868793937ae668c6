package segstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// tester is what *testing.T, *testing.B and *rapid.T share.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Logf(format string, args ...any)
}

// testOptions adjust the store that openTest opens: small limits, no goroutine
// for the flusher, a memory disk, a clock that stands still.
type testOptions struct {
	disk    disk.Disk
	clock   *fakeClock
	segment int64
	os      bool
	journal bool // small amounts go to the journal; otherwise all batches by-pass it
	change  func(o *Options)
}

type testStore struct {
	*Store
	t     tester
	pool  *arena.Pool
	lines *logCapture
}

func openTest(t tester, to testOptions) *testStore {
	t.Helper()
	if to.disk == nil {
		to.disk = newMemDisk()
	}
	if to.clock == nil {
		to.clock = newFakeClock()
	}
	pool, logs := new(arena.Pool), new(logCapture)
	o := Options{
		Disk: to.disk, Arena: pool, Logger: slog.New(logs),
		SegmentBytes: to.segment, DurabilityOS: to.os,
		tune: tuning{manual: true, now: to.clock.Now},
	}
	if !to.journal {
		o.tune.bypassBytes = 1
	}
	if to.change != nil {
		to.change(&o)
	}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return &testStore{s, t, pool, logs}
}

// close closes the store and checks that all memory went back.
func (s *testStore) close() {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
	s.checkEmpty()
}

func (s *testStore) crash() {
	s.t.Helper()
	s.Crash()
	s.checkEmpty()
}

func (s *testStore) checkEmpty() {
	s.t.Helper()
	if n := s.pool.Stats().InUse; n != 0 {
		s.t.Errorf("%d bytes of the arena in use after closing", n)
	}
	if st := s.Stats(); st.UnwrittenBytes != 0 || st.ResidentBytes != 0 || st.OpenFiles != 0 || s.keptBytes.Load() != 0 || st.HeldBytes != 0 || s.blockBytes.Load() != 0 {
		s.t.Errorf("after closing: %+v, kept %d, blocks %d", st, s.keptBytes.Load(), s.blockBytes.Load())
	}
	if d, ok := s.disk.(*memDisk); ok {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.opens != 0 {
			s.t.Errorf("%d files left open", d.opens)
		}
	}
}

func (s *testStore) log(id uint64, transient bool) *Log {
	s.t.Helper()
	l, err := s.OpenLog(id, LogOptions{Transient: transient})
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *testStore) tick()     { s.cycle(pass{tick: true, step: true}) }
func (s *testStore) urge()     { s.cycle(pass{}) }
func (s *testStore) syncTick() { s.cycle(pass{tick: true, sync: true, step: true}) }

// bodyOf makes the body of the record at offset: recognisable, size bytes.
func bodyOf(offset uint64, size int) []byte {
	b := bytes.Repeat([]byte{byte(offset)}, size)
	if size >= 8 {
		binary.LittleEndian.PutUint64(b, offset)
	}
	return b
}

// appendN appends one batch of n records of size bytes.
func (s *testStore) appendN(l *Log, n, size int) uint64 {
	s.t.Helper()
	b := NewBatch(s.arena)
	defer b.Release()
	b.Reset(1000)
	tm := b.Template([]byte("exchange"), []byte("key"), []byte("properties"))
	next := l.Next()
	for i := range n {
		b.Add(tm, bodyOf(next+uint64(i), size))
	}
	base, err := l.Append(b)
	if err != nil {
		s.t.Fatal(err)
	}
	if base != next {
		s.t.Fatalf("base %d, want %d", base, next)
	}
	return base
}

// seek positions r, waiting for the disk.
func seek(r *Reader, offset uint64) error {
	for {
		done := make(chan struct{})
		err := r.Seek(offset, func() { close(done) })
		if !errors.Is(err, ErrNotResident) {
			return err
		}
		<-done
	}
}

// readAll reads [from, to) and returns the offsets that are there, checking
// their bodies.
func (s *testStore) readAll(r *Reader, from, to uint64) (found []uint64) {
	s.t.Helper()
	var rec Record
	for at := from; at < to; {
		err := seek(r, at)
		var missing ErrMissing
		if errors.As(err, &missing) {
			if missing.Next <= at {
				s.t.Fatalf("missing at %d, next %d", at, missing.Next)
			}
			at = missing.Next
			continue
		}
		if err != nil {
			s.t.Fatalf("seek %d: %v", at, err)
		}
		for at < to && r.Next(&rec) {
			if rec.Offset != at {
				s.t.Fatalf("offset %d, want %d", rec.Offset, at)
			}
			if want := bodyOf(at, len(rec.Body)); !bytes.Equal(rec.Body, want) {
				s.t.Fatalf("body of %d: %x, want %x", at, rec.Body, want)
			}
			if key := r.Template(rec.Template).RoutingKey; string(key) != "key" {
				s.t.Fatalf("routing key of %d: %q", at, key)
			}
			found = append(found, at)
			at++
		}
	}
	return found
}

// logCapture keeps log messages.
type logCapture struct {
	mu    sync.Mutex
	lines []string
}

func (c *logCapture) Enabled(context.Context, slog.Level) bool { return true }
func (c *logCapture) WithAttrs([]slog.Attr) slog.Handler       { return c }
func (c *logCapture) WithGroup(string) slog.Handler            { return c }
func (c *logCapture) Handle(_ context.Context, r slog.Record) error {
	line := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool {
		line += " " + a.String()
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = append(c.lines, line)
	return nil
}

func (c *logCapture) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.lines...)
}

// fakeClock is a clock that only tests move.
type fakeClock struct {
	mu  sync.Mutex
	now time.Time
}

func newFakeClock() *fakeClock { return &fakeClock{now: time.UnixMilli(1_700_000_000_000)} }

func (c *fakeClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// testArena is for stores that crash in the middle of Open.
var testArena = new(arena.Pool)
