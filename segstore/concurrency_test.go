package segstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// signal wakes everybody who waits for a change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) broadcast() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// TestStore_ConcurrentUse runs publishers that wait for durability, consumers
// that settle in disorder, and onlookers that read everything, over the real
// disk and the real flusher; then it kills, reopens and counts.
func TestStore_ConcurrentUse(t *testing.T) {
	for _, kind := range []string{"posix", "uring"} {
		t.Run(kind, func(t *testing.T) {
			d, reason, err := disk.Open(kind, t.TempDir())
			if err != nil && kind == "uring" {
				t.Skipf("no io_uring: %v %s", err, reason)
			}
			if err != nil {
				t.Fatal(err)
			}
			useConcurrently(t, d)
		})
	}
}

func useConcurrently(t *testing.T, d disk.Disk) {
	const logs, publishers, batches = 3, 2, 60
	var committed, appended signal
	pool := new(arena.Pool)
	options := Options{
		Disk: d, Arena: pool, OnCommit: committed.broadcast, SegmentBytes: 32 << 10,
		FlushInterval: time.Millisecond, SyncInterval: 5 * time.Millisecond,
	}
	smallLimits(&options)
	options.tune.filesMax, options.tune.blockBytes = 8, 4<<10
	s, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	var publishing, consuming, looking sync.WaitGroup
	all := make([]*Log, logs)
	for id := range all {
		l, err := s.OpenLog(uint64(id), LogOptions{Transient: id == 2})
		if err != nil {
			t.Fatal(err)
		}
		all[id] = l
		for p := range publishers {
			publishing.Go(func() { publish(t, s, l, p, batches, &committed, &appended) })
		}
		done := make(chan struct{})
		consuming.Go(func() {
			defer close(done)
			consume(t, l, uint64(id), &appended, publishers*batches)
		})
		looking.Go(func() { look(t, l, &appended, done) })
	}
	publishing.Wait()
	consuming.Wait()
	appended.broadcast()
	looking.Wait()
	var next, low [logs]uint64
	for id, l := range all {
		next[id], low[id] = l.Next(), l.Low()
		if l.Unsettled() != l.Next()/10 {
			t.Errorf("log %d: %d of %d unsettled", id, l.Unsettled(), l.Next())
		}
		l.WantDurable()
		for l.Durable() < l.Next() {
			ch := committed.wait()
			if l.Durable() < l.Next() {
				<-ch
			}
		}
	}
	s.Crash()
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
	if s, err = Open(options); err != nil {
		t.Fatal(err)
	}
	for id := range 2 {
		l, err := s.OpenLog(uint64(id), LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if l.Next() != next[id] || l.Unsettled() < next[id]/10 {
			t.Errorf("log %d after the crash: next %d, want %d; %d unsettled", id, l.Next(), next[id], l.Unsettled())
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func publish(t *testing.T, s *Store, l *Log, who, batches int, committed, appended *signal) {
	rng := rand.New(rand.NewPCG(uint64(who), 5))
	b := NewBatch(s.arena)
	defer b.Release()
	for range batches {
		for s.Pressured() {
			ch := committed.wait()
			if s.Pressured() {
				<-ch
			}
		}
		b.Reset(1)
		tm := b.Template(nil, []byte("key"), nil)
		for range 10 {
			b.Add(tm, bytes.Repeat([]byte{byte(who)}, rng.IntN(300)))
		}
		base, err := l.Append(b)
		if err != nil {
			t.Error(err)
			return
		}
		appended.broadcast()
		if rng.IntN(4) == 0 {
			l.WantDurable()
			for l.Durable() < base+10 {
				ch := committed.wait()
				if l.Durable() < base+10 {
					<-ch
				}
			}
		}
	}
}

// consume takes runs, reads them, and settles all but every tenth record, in
// disorder.
func consume(t *testing.T, l *Log, seed uint64, appended *signal, batches int) {
	rng := rand.New(rand.NewPCG(seed, 9))
	r := l.NewReader()
	defer r.Close()
	var rec Record
	var unacked []uint64
	cursor, total := uint64(0), uint64(batches*10)
	for cursor < total {
		ch := appended.wait()
		first, count := l.NextUnsettled(cursor, 37)
		if count == 0 {
			r.Close()
			<-ch
			continue
		}
		if first != cursor {
			t.Errorf("run begins at %d, cursor %d", first, cursor)
			return
		}
		for at := first; at < first+count; {
			if err := seek(r, at); err != nil {
				t.Errorf("seek %d: %v", at, err)
				return
			}
			for at < first+count && r.Next(&rec) {
				if rec.Offset != at || len(rec.Body) > 0 && rec.Body[0] != rec.Body[len(rec.Body)-1] {
					t.Errorf("record %d: %+v", at, rec)
				}
				if at%10 != 3 {
					unacked = append(unacked, at)
				}
				at++
			}
		}
		cursor = first + count
		l.SetCursor(cursor)
		rng.Shuffle(len(unacked), func(i, j int) { unacked[i], unacked[j] = unacked[j], unacked[i] })
		for len(unacked) > rng.IntN(100) || cursor == total && len(unacked) > 0 {
			l.Settle(unacked[0], 1)
			unacked = unacked[1:]
		}
	}
}

// look reads the whole log again and again, far behind the consumer.
func look(t *testing.T, l *Log, appended *signal, done <-chan struct{}) {
	r := l.NewReader()
	defer r.Close()
	var rec Record
	for at := uint64(0); ; {
		next := l.Next()
		for at < next {
			err := seek(r, at)
			var missing ErrMissing
			if errors.As(err, &missing) {
				at = missing.Next
				continue
			}
			if err != nil {
				t.Errorf("seek %d: %v", at, err)
				return
			}
			for r.Next(&rec) {
				at++
			}
		}
		select {
		case <-done:
			return
		default:
			at = 0
		}
	}
}

// Deleting while others work must neither race nor leak.
func TestStore_ConcurrentDelete(t *testing.T) {
	d := newMemDisk()
	pool := new(arena.Pool)
	var committed signal
	s, err := Open(Options{Disk: d, Arena: pool, OnCommit: committed.broadcast, FlushInterval: time.Millisecond, SyncInterval: 2 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for id := range uint64(20) {
		l, err := s.OpenLog(id, LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			b := NewBatch(pool)
			defer b.Release()
			for i := 0; ; i++ {
				b.Reset(0)
				b.Add(b.Template(nil, nil, nil), binary.LittleEndian.AppendUint64(nil, uint64(i)))
				if _, err := l.Append(b); err != nil {
					return
				}
				l.WantDurable()
				l.Settle(uint64(i/2), 1)
				if ch := committed.wait(); i%50 == 0 && l.Durable() <= uint64(i) {
					<-ch
				}
			}
		})
		group.Go(func() {
			for l.Durable() < 120 {
				if ch := committed.wait(); l.Durable() < 120 {
					<-ch
				}
			}
			r := l.NewReader()
			defer r.Close()
			_ = seek(r, 2)
			if err := l.Delete(); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := pool.Stats().InUse; n != 0 {
		t.Errorf("%d bytes in use", n)
	}
}
