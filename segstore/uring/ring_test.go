//go:build uring && linux

package uring

import (
	"errors"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openRing makes a ring on the test's thread, or skips saying why.
func openRing(t testing.TB, entries int) *Ring {
	t.Helper()
	runtime.LockOSThread()
	ring, err := New(entries)
	if errors.Is(err, errors.ErrUnsupported) {
		runtime.UnlockOSThread()
		t.Skip(err)
	}
	if err != nil {
		runtime.UnlockOSThread()
		t.Fatal(err)
	}
	t.Cleanup(func() { // runs on the test's goroutine
		ring.Close()
		runtime.UnlockOSThread()
	})
	return ring
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits for count completions.
func await(t testing.TB, ring *Ring, count int) []CQE {
	t.Helper()
	var all []CQE
	for deadline := time.Now().Add(20 * time.Second); len(all) < count; {
		if time.Now().After(deadline) {
			t.Fatalf("%d of %d completions after 20 s", len(all), count)
		}
		check(t, ring.SubmitAndWait(1, time.Second))
		ring.ForEachCQE(func(c CQE) { all = append(all, c) })
	}
	if len(all) != count {
		t.Fatalf("%d completions, want %d", len(all), count)
	}
	return all
}

// awaitResult waits for one completion and checks its user data and result.
func awaitResult(t testing.TB, ring *Ring, userData uint64, result int32) CQE {
	t.Helper()
	c := await(t, ring, 1)[0]
	if c.UserData != userData || c.Res != result {
		t.Fatalf("completion %+v (%v), want user data %d, result %d", c, c.Err(), userData, result)
	}
	return c
}

// offHeap maps memory that the kernel may be given.
func offHeap(t testing.TB, size int) []byte {
	t.Helper()
	memory, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	check(t, err)
	t.Cleanup(func() { check(t, unix.Munmap(memory)) })
	return memory
}

func TestLayout_MatchesGiouring(t *testing.T) {
	for _, pair := range []struct{ ours, theirs any }{
		{ringLayout{}, giouring.Ring{}},
		{submissionLayout{}, giouring.SubmissionQueue{}},
		{completionLayout{}, giouring.CompletionQueue{}},
	} {
		ours, theirs := reflect.TypeOf(pair.ours), reflect.TypeOf(pair.theirs)
		for i := range ours.NumField() {
			field := ours.Field(i)
			if field.Name == "_" {
				continue
			}
			other, ok := theirs.FieldByName(field.Name)
			if !ok || other.Offset != field.Offset || other.Type.Kind() != field.Type.Kind() || other.Type.Size() != field.Type.Size() {
				t.Errorf("%v.%s is at %d, in giouring %v at %d (found: %v)", ours, field.Name, field.Offset, other.Type, other.Offset, ok)
			}
		}
	}
	if unsafe.Offsetof(giouring.BufAndRing{}.Tail) != 14 || unsafe.Offsetof(giouring.BufAndRing{}.Bid) != 12 {
		t.Error("the buffer ring's entry has moved")
	}
}

func TestRing_NopsBeyondTheQueue(t *testing.T) {
	ring := openRing(t, 8)
	const count = 100
	for i := range uint64(count) {
		check(t, ring.Nop(i))
	}
	seen := map[uint64]int{}
	for _, c := range await(t, ring, count) {
		if c.Res != 0 {
			t.Errorf("no-op %d: %v", c.UserData, c.Err())
		}
		seen[c.UserData]++
	}
	if len(seen) != count {
		t.Errorf("%d different completions of %d", len(seen), count)
	}
}

func TestRing_OverflowLosesNothing(t *testing.T) {
	ring := openRing(t, 4) // 8 completions fit
	const count = 64
	for i := range uint64(count) {
		check(t, ring.Nop(i))
		check(t, ring.Submit())
	}
	visited := 0
	if got := ring.ForEachCQE(func(c CQE) {
		if c.UserData != uint64(visited) {
			t.Errorf("completion %d carries %d", visited, c.UserData)
		}
		visited++
	}); got != count {
		t.Errorf("visited %d, want %d", got, count)
	}
}

func TestRing_VisitMayPrepare(t *testing.T) {
	ring := openRing(t, 4)
	check(t, ring.Nop(0))
	check(t, ring.SubmitAndWait(1, -1))
	const rounds = 50
	last := uint64(0)
	for last < rounds {
		ring.ForEachCQE(func(c CQE) {
			last = c.UserData
			if last < rounds {
				check(t, ring.Nop(last+1))
				check(t, ring.Submit())
			}
		})
		check(t, ring.Submit())
	}
	if ring.Queued() != 0 || ring.Ready() != 0 {
		t.Errorf("%d queued, %d ready at the end", ring.Queued(), ring.Ready())
	}
}

func TestRing_WaitGivesUp(t *testing.T) {
	ring := openRing(t, 4)
	check(t, ring.SubmitAndWait(1, 0))
	check(t, ring.SubmitAndWait(1, time.Millisecond))
	check(t, ring.SubmitAndWait(0, -1))
	check(t, ring.Submit())
	if n := ring.ForEachCQE(func(CQE) {}); n != 0 {
		t.Errorf("%d completions of nothing", n)
	}
}

func TestRing_WrongThread(t *testing.T) {
	ring := openRing(t, 4)
	if !ring.Deferred() {
		t.Skip("this kernel has no single-issuer rings (Linux 6.1)")
	}
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // certainly another thread
		defer runtime.UnlockOSThread()
		if err := ring.Nop(1); err != nil {
			failed <- err
			return
		}
		failed <- ring.SubmitAndWait(0, -1)
	}()
	if err := <-failed; !errors.Is(err, syscall.EEXIST) || !strings.Contains(err.Error(), "another thread") {
		t.Errorf("error %v", err)
	}
	awaitResult(t, ring, 1, 0)
}

// TestRing_SignalsDoNotDisturb preempts the waiting thread with the signal the
// Go runtime uses.
func TestRing_SignalsDoNotDisturb(t *testing.T) {
	ring := openRing(t, 4)
	thread, process := unix.Gettid(), unix.Getpid()
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				_ = unix.Tgkill(process, thread, unix.SIGURG)
				runtime.Gosched()
			}
		}
	}()
	for i := range uint64(20) {
		check(t, ring.Timeout(time.Millisecond, i))
		awaitResult(t, ring, i, -int32(unix.ETIME))
	}
	close(stop)
	<-stopped
}

func TestRing_CloseTwice(t *testing.T) {
	ring := openRing(t, 4)
	ring.Close()
	ring.Close()
	if ring.Fd() != -1 {
		t.Errorf("descriptor %d after Close", ring.Fd())
	}
}

// TestRing_KernelErrorsAreReported takes the descriptor away.
func TestRing_KernelErrorsAreReported(t *testing.T) {
	ring := openRing(t, 1)
	fd := ring.fd
	ring.fd = -1
	defer func() { ring.fd = fd }()
	check(t, ring.Nop(1))
	for name, err := range map[string]error{
		"Submit":               ring.Submit(),
		"SubmitAndWait":        ring.SubmitAndWait(1, 0),
		"Nop, making room":     ring.Nop(2),
		"Timeout, making room": ring.Timeout(0, 3),
	} {
		if !errors.Is(err, syscall.EBADF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if ring.Queued() != 1 || ring.Entries() != 1 {
		t.Errorf("%d of %d queued", ring.Queued(), ring.Entries())
	}
	ring.fd = fd
	awaitResult(t, ring, 1, 0)
}

func TestNew_SizesOutOfRange(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if _, err := New(0); err == nil {
		t.Error("a ring of 0 entries was made")
	}
}

func TestRing_AllocatesNothing(t *testing.T) {
	ring := openRing(t, 8)
	visited := 0
	visit := func(CQE) { visited++ }
	allocs := testing.AllocsPerRun(500, func() {
		for i := range uint64(4) {
			_ = ring.Nop(i)
		}
		_ = ring.Timeout(0, 9)
		_ = ring.Submit()
		_ = ring.SubmitAndWait(1, time.Second)
		ring.ForEachCQE(visit)
	})
	if allocs != 0 || visited == 0 {
		t.Errorf("%v allocations per round, %d visited", allocs, visited)
	}
}

func BenchmarkRing_Nop(b *testing.B) {
	ring := openRing(b, 64)
	visited := 0
	visit := func(CQE) { visited++ }
	b.ReportAllocs()
	for range b.N {
		_ = ring.Nop(1)
		_ = ring.Submit()
		ring.ForEachCQE(visit)
	}
	if visited != b.N {
		b.Fatalf("%d of %d completions", visited, b.N)
	}
}
