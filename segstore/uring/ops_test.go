//go:build uring && linux

package uring

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func tempFile(t *testing.T) *os.File {
	t.Helper()
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "f"), os.O_RDWR|os.O_CREATE, 0o600)
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestOps_WriteReadFsync(t *testing.T) {
	ring := openRing(t, 8)
	f := tempFile(t)
	fd := int(f.Fd())
	memory := offHeap(t, 8192)
	copy(memory, "basalt")
	check(t, ring.Write(fd, memory[:6], 3, 1))
	awaitResult(t, ring, 1, 6)
	check(t, ring.Fsync(fd, true, 2))
	awaitResult(t, ring, 2, 0)
	check(t, ring.Fsync(fd, false, 3))
	awaitResult(t, ring, 3, 0)
	check(t, ring.Read(fd, memory[4096:], 0, 4))
	awaitResult(t, ring, 4, 9)
	if got := memory[4096 : 4096+9]; !bytes.Equal(got, []byte("\x00\x00\x00basalt")) {
		t.Errorf("read %q", got)
	}
	check(t, ring.Read(fd, memory, 9, 5))
	awaitResult(t, ring, 5, 0)
	check(t, ring.Read(-1, memory, 0, 6))
	awaitResult(t, ring, 6, -int32(unix.EBADF))
}

// TestOps_NothingLeftFromTheSlotsPreviousUser: giouring's helpers keep the
// op-specific flags of the entry's last use, which makes the write after a
// datasync ask for polling.
func TestOps_NothingLeftFromTheSlotsPreviousUser(t *testing.T) {
	ring := openRing(t, 1)
	fd := int(tempFile(t).Fd())
	memory := offHeap(t, 4096)
	for range 4 {
		check(t, ring.Fsync(fd, true, 1))
		awaitResult(t, ring, 1, 0)
		check(t, ring.Write(fd, memory, 0, 2))
		awaitResult(t, ring, 2, 4096)
		check(t, ring.Fallocate(fd, unix.FALLOC_FL_KEEP_SIZE, 0, 4096, 3))
		if c := await(t, ring, 1)[0]; c.Res != 0 && c.Res != -int32(unix.EOPNOTSUPP) {
			t.Fatalf("fallocate after write: %v", c.Err())
		}
		check(t, ring.Nop(4))
		awaitResult(t, ring, 4, 0)
	}
}

func TestOps_Fallocate(t *testing.T) {
	ring := openRing(t, 8)
	f := tempFile(t)
	check(t, ring.Fallocate(int(f.Fd()), 0, 0, 1<<20, 1))
	c := await(t, ring, 1)[0]
	if c.Res == -int32(unix.EOPNOTSUPP) {
		t.Skip("the file system of the temporary directory has no fallocate")
	}
	if c.Res != 0 {
		t.Fatal(c.Err())
	}
	info, err := f.Stat()
	check(t, err)
	if info.Size() != 1<<20 {
		t.Errorf("size %d", info.Size())
	}
	check(t, ring.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 1<<20, 2))
	awaitResult(t, ring, 2, 0)
	var stat unix.Stat_t
	check(t, unix.Fstat(int(f.Fd()), &stat))
	if stat.Size != 1<<20 || stat.Blocks*512 > 1<<16 {
		t.Errorf("after punching: size %d, %d blocks", stat.Size, stat.Blocks)
	}
}

func TestOps_Ftruncate(t *testing.T) {
	ring := openRing(t, 8)
	f := tempFile(t)
	err := ring.Ftruncate(int(f.Fd()), 12345, 1)
	if !ring.CanFtruncate() {
		if !errors.Is(err, errors.ErrUnsupported) || ring.Queued() != 0 {
			t.Errorf("error %v, %d queued", err, ring.Queued())
		}
		t.Skip("this kernel has no ftruncate in io_uring (Linux 6.9)")
	}
	check(t, err)
	awaitResult(t, ring, 1, 0)
	info, err := f.Stat()
	check(t, err)
	if info.Size() != 12345 {
		t.Errorf("size %d", info.Size())
	}
}

func TestOps_UnsupportedIsSaid(t *testing.T) {
	ring := openRing(t, 8)
	ring.supported[opFtruncate] = false
	if err := ring.Ftruncate(0, 0, 1); !errors.Is(err, errors.ErrUnsupported) || ring.Queued() != 0 {
		t.Errorf("error %v, %d queued", err, ring.Queued())
	}
}

func TestOps_CloseFile(t *testing.T) {
	ring := openRing(t, 8)
	fd, err := unix.Open(t.TempDir(), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	check(t, err)
	check(t, ring.CloseFile(fd, 1))
	awaitResult(t, ring, 1, 0)
	check(t, ring.CloseFile(fd, 2))
	awaitResult(t, ring, 2, -int32(unix.EBADF))
}

func TestOps_PollAdd(t *testing.T) {
	ring := openRing(t, 8)
	var pipe [2]int
	check(t, unix.Pipe2(pipe[:], unix.O_CLOEXEC))
	defer unix.Close(pipe[0])
	defer unix.Close(pipe[1])
	check(t, ring.PollAdd(pipe[1], unix.POLLOUT, false, 1))
	awaitResult(t, ring, 1, unix.POLLOUT)
	check(t, ring.PollAdd(pipe[0], unix.POLLIN, true, 2))
	check(t, ring.Submit())
	for range 3 {
		_, err := unix.Write(pipe[1], []byte("x"))
		check(t, err)
		if c := await(t, ring, 1)[0]; c.UserData != 2 || c.Res&unix.POLLIN == 0 || !c.More() {
			t.Errorf("completion %+v", c)
		}
	}
	check(t, ring.Cancel(2, 3))
	seen := map[uint64]int32{}
	for _, c := range await(t, ring, 2) {
		seen[c.UserData] = c.Res
	}
	if seen[2] != -int32(unix.ECANCELED) || seen[3] != 0 {
		t.Errorf("cancelling: %v", seen)
	}
	check(t, ring.Cancel(2, 4))
	awaitResult(t, ring, 4, -int32(unix.ENOENT))
}

func TestOps_Timeout(t *testing.T) {
	ring := openRing(t, 8)
	for i := range uint64(20) { // more than entries: their times share slots
		check(t, ring.Timeout(time.Duration(i)*time.Microsecond, i))
	}
	check(t, ring.Timeout(-time.Second, 20))
	check(t, ring.Timeout(time.Hour, 99))
	for _, c := range await(t, ring, 21) {
		if c.Res != -int32(unix.ETIME) || c.UserData == 99 {
			t.Errorf("completion %+v", c)
		}
	}
	check(t, ring.Cancel(99, 100))
	await(t, ring, 2)
}

func TestOps_ReadEvent(t *testing.T) {
	ring := openRing(t, 8)
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	check(t, err)
	defer unix.Close(fd)
	for i := range uint64(3) {
		check(t, ring.ReadEvent(fd, i))
		check(t, ring.Submit())
		if ring.Ready() != 0 {
			t.Fatal("completed before anything was written")
		}
		_, err := unix.Write(fd, []byte{1, 1, 1, 1, 1, 1, 1, 1})
		check(t, err)
		awaitResult(t, ring, i, 8)
	}
}

func TestOps_Message(t *testing.T) {
	type target struct {
		fd  int
		err error
	}
	opened, received := make(chan target), make(chan CQE)
	go func() {
		defer close(received)
		// A ring of another thread.
		var message CQE
		err := withRing(4, func(ring *Ring) {
			opened <- target{fd: ring.Fd()}
			for message.UserData == 0 {
				if ring.SubmitAndWait(1, time.Second) != nil {
					return
				}
				ring.ForEachCQE(func(c CQE) { message = c })
			}
		})
		if err != nil {
			opened <- target{err: err}
			return
		}
		received <- message
	}()
	ring := openRing(t, 4)
	other := <-opened
	check(t, other.err)
	check(t, ring.Message(other.fd, 42, 7, 1))
	awaitResult(t, ring, 1, 0)
	if c := <-received; c.UserData != 7 || c.Res != 42 {
		t.Errorf("received %+v", c)
	}
	<-received
}
