//go:build uring && linux

package uring

import (
	"bytes"
	"net"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// withRing runs use with a ring of the calling goroutine's own.
func withRing(entries int, use func(*Ring)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ring, err := New(entries)
	if err != nil {
		return err
	}
	defer ring.Close()
	use(ring)
	return nil
}

// listen returns a listening descriptor on loopback and its address.
func listen(t *testing.T) (int, string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer listener.Close()
	f, err := listener.(*net.TCPListener).File()
	check(t, err)
	t.Cleanup(func() { f.Close() })
	return int(f.Fd()), listener.Addr().String()
}

// socketPair returns two connected stream sockets.
func socketPair(t *testing.T) (int, int) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(t, err)
	t.Cleanup(func() { unix.Close(pair[0]); unix.Close(pair[1]) })
	return pair[0], pair[1]
}

func TestOps_AcceptMultishot(t *testing.T) {
	ring := openRing(t, 8)
	fd, address := listen(t)
	check(t, ring.AcceptMultishot(fd, 1))
	check(t, ring.Submit())
	for range 5 {
		conn, err := net.Dial("tcp", address)
		check(t, err)
		defer conn.Close()
		c := await(t, ring, 1)[0]
		if c.UserData != 1 || c.Res <= 0 || !c.More() {
			t.Fatalf("completion %+v (%v)", c, c.Err())
		}
		// The descriptor must be a real one: kernels 6.6 to 6.8 gave wrong ones
		// to rings with deferred task work.
		peer, err := unix.Getpeername(int(c.Res))
		check(t, err)
		local := conn.LocalAddr().(*net.TCPAddr)
		if in, ok := peer.(*unix.SockaddrInet4); !ok || in.Port != local.Port {
			t.Errorf("accepted %v, dialled from %v", peer, local)
		}
		check(t, ring.CloseFile(int(c.Res), 2))
		awaitResult(t, ring, 2, 0)
	}
	check(t, ring.Cancel(1, 3))
	for _, c := range await(t, ring, 2) {
		if c.UserData == 1 && (c.More() || c.Res != -int32(unix.ECANCELED)) {
			t.Errorf("cancelled accept: %+v", c)
		}
	}
}

func TestOps_SendAndRecvMultishot(t *testing.T) {
	ring := openRing(t, 16)
	const buffers, size, group = 4, 1024, 7
	memory, out := offHeap(t, buffers*size), offHeap(t, 64<<10)
	g, err := ring.RegisterBuffers(group, memory, size)
	if err != nil {
		t.Skipf("no provided buffer rings (Linux 5.19): %v", err)
	}
	defer func() { check(t, g.Unregister()) }()
	a, b := socketPair(t)
	for i := range out {
		out[i] = byte(i * 7 >> 3)
	}
	var received []byte
	starved, ended := 0, false
	check(t, ring.RecvMultishot(b, group, 1))
	// Every byte goes through 4 KiB of buffers, so the group runs dry often.
	sent := 0
	check(t, ring.Send(a, out, 0, 2))
	for !ended {
		check(t, ring.SubmitAndWait(1, -1))
		ring.ForEachCQE(func(c CQE) {
			switch {
			case c.UserData == 2 && c.Res > 0:
				if sent += int(c.Res); sent < len(out) {
					check(t, ring.Send(a, out[sent:], 0, 2))
				} else {
					check(t, ring.Shutdown(a, unix.SHUT_WR, 3))
				}
			case c.UserData == 1 && c.Res > 0:
				id, ok := c.BufferID()
				if !ok {
					t.Fatalf("no buffer in %+v", c)
				}
				received = append(received, g.Buffer(id)[:c.Res]...)
				g.Recycle(id)
				if !c.More() {
					check(t, ring.RecvMultishot(b, group, 1))
				}
			case c.UserData == 1 && c.Res == -int32(unix.ENOBUFS):
				starved++
				g.Publish()
				check(t, ring.RecvMultishot(b, group, 1))
			case c.UserData == 1 && c.Res == 0:
				ended = true
			case c.UserData == 3 && c.Res == 0:
			default:
				t.Fatalf("completion %+v (%v)", c, c.Err())
			}
		})
		g.Publish()
	}
	if !bytes.Equal(received, out) {
		t.Errorf("%d bytes received, %d sent; equal: false", len(received), len(out))
	}
	t.Logf("ran out of buffers %d times", starved)
}

func TestOps_SendToClosedPeer(t *testing.T) {
	ring := openRing(t, 4)
	a, b := socketPair(t)
	check(t, unix.Shutdown(b, unix.SHUT_RDWR))
	check(t, ring.Send(a, offHeap(t, 4096), 0, 1))
	awaitResult(t, ring, 1, -int32(unix.EPIPE)) // and no SIGPIPE
}

func TestBufferGroup_RefusesOddShapes(t *testing.T) {
	ring := openRing(t, 4)
	memory := offHeap(t, 3*4096)
	for _, bufBytes := range []int{0, -1, 4096, 5000} {
		if _, err := ring.RegisterBuffers(1, memory, bufBytes); err == nil {
			t.Errorf("buffers of %d bytes from %d were accepted", bufBytes, len(memory))
		}
	}
}

// TestBufferGroup_Large: giouring computes entry addresses in 16 bits, which
// wraps beyond 4,095 buffers.
func TestBufferGroup_Large(t *testing.T) {
	ring := openRing(t, 4)
	const buffers, size = BuffersMax, 16
	memory := offHeap(t, buffers*size)
	g, err := ring.RegisterBuffers(1, memory, size)
	if err != nil {
		t.Skipf("no provided buffer rings (Linux 5.19): %v", err)
	}
	a, b := socketPair(t)
	used := map[uint16]bool{}
	message := offHeap(t, 4096)
	for i := range 16 {
		message[0] = byte(i)
		check(t, ring.Send(a, message[:size], 0, 1))
		awaitResult(t, ring, 1, size)
		check(t, ring.RecvMultishot(b, 1, 2))
		c := await(t, ring, 1)[0]
		id, ok := c.BufferID()
		if !ok || c.Res != size || g.Buffer(id)[0] != byte(i) || used[id] {
			t.Fatalf("message %d: %+v, buffer %d", i, c, id)
		}
		used[id] = true
		if c.More() {
			check(t, ring.Cancel(2, 3))
			await(t, ring, 2)
		}
	}
	check(t, g.Unregister())
	check(t, g.Unregister())
}
