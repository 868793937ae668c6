//go:build uring && linux

package disk

import (
	"errors"
	"io"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/uring"
)

func openRingDisk(t *testing.T) *ringDisk {
	t.Helper()
	d, err := OpenUring(t.TempDir())
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d.(*ringDisk)
}

// TestUring_TruncateWithoutTheOperation stands for kernels before 6.9.
func TestUring_TruncateWithoutTheOperation(t *testing.T) {
	r := openRingDisk(t)
	f, err := r.Open("f", CreateNew)
	if err != nil {
		t.Fatal(err)
	}
	// canTruncate is the ring thread's: change it there, in a Done.
	changed := make(chan struct{})
	r.Submit([]*Op{{Kind: Sync, File: f, Done: func(*Op) { r.canTruncate = false; close(changed) }}})
	<-changed
	if err := Run(r, &Op{Kind: Truncate, File: f, Pos: 4711}); err != nil {
		t.Fatal(err)
	}
	if size, err := f.Size(); size != 4711 || err != nil {
		t.Errorf("size %d, %v", size, err)
	}
	// Close waits for it, too.
	finished := false
	r.Submit([]*Op{{Kind: Truncate, File: f, Pos: 5, Done: func(*Op) { finished = true }}})
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if !finished {
		t.Error("Close returned before the truncation")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestUring_CompletionResults feeds results that a healthy kernel hardly gives.
func TestUring_CompletionResults(t *testing.T) {
	p, err := OpenPosix(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	f, err := p.Open("f", CreateNew)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Run(p, &Op{Kind: Write, File: f, Buf: []byte("0123456789")}); err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ring, err := uring.New(8)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	r := &ringDisk{ring: ring, slots: make([]ringSlot, 1)}
	r.visit = r.complete

	for _, tc := range []struct {
		name    string
		kind    Kind
		retries int
		first   int32 // result of the first completion; the kernel gives the rest
		n       int
		err     error
	}{
		{"interrupted write", Write, 0, -int32(unix.EINTR), 10, nil},
		{"interrupted sync", Sync, 0, -int32(unix.EINTR), 0, nil},
		{"busy read", Read, 0, -int32(unix.EAGAIN), 10, nil},
		{"busy for too long", Read, retriesMax, -int32(unix.EAGAIN), 0, syscall.EAGAIN},
		{"short write", Write, 0, 4, 10, nil},
		{"short read", Read, 0, 4, 10, nil},
		{"end of file", Read, 0, 0, 0, nil},
		{"write without progress", Write, 0, 0, 0, io.ErrShortWrite},
		{"failed write", Write, 0, -int32(unix.EIO), 0, syscall.EIO},
		{"failed sync", Sync, 0, -int32(unix.EIO), 0, syscall.EIO},
		{"busy sync", Sync, 0, -int32(unix.EAGAIN), 0, syscall.EAGAIN},
	} {
		// Not a subtest: that would be another thread.
		done := 0
		op := &Op{Kind: tc.kind, File: f, Done: func(*Op) { done++ }}
		if tc.kind != Sync {
			op.Buf = []byte("0123456789")
		}
		op.admit(false)
		r.free = r.free[:0]
		r.slots[0] = ringSlot{op: op, retries: tc.retries}
		r.complete(uring.CQE{UserData: 0, Res: tc.first})
		for done == 0 {
			if err := ring.SubmitAndWait(1, -1); err != nil {
				t.Fatal(err)
			}
			ring.ForEachCQE(r.visit)
		}
		if done != 1 || op.N != tc.n || !errors.Is(op.Err, tc.err) {
			t.Errorf("%s: done %d times, %d bytes, %v; want %d bytes, %v", tc.name, done, op.N, op.Err, tc.n, tc.err)
		}
		if len(r.free) != 1 || ring.Queued() != 0 {
			t.Errorf("%s: %d free slots, %d queued", tc.name, len(r.free), ring.Queued())
		}
	}
}
