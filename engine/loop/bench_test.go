package loop

import (
	"io"
	"net"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// loopCPU is the processor time of the loop's thread in nanoseconds.
func loopCPU(l *Loop) (total int64) {
	on(l, func() {
		var usage unix.Rusage
		_ = unix.Getrusage(unix.RUSAGE_THREAD, &usage)
		total = usage.Utime.Nano() + usage.Stime.Nano()
	})
	return total
}

func benchmarkBackends(b *testing.B, bench func(b *testing.B, backend string)) {
	for _, backend := range []string{"epoll", "uring"} {
		b.Run(backend, func(b *testing.B) {
			needBackend(b, backend)
			bench(b, backend)
		})
	}
}

// blocking makes the test's side a plain descriptor: the client must be cheap.
func blocking(b *testing.B, peer net.Conn, f func(fd int)) {
	peerFD(b, peer, func(fd int) {
		check(b, unix.SetNonblock(fd, false))
		f(fd)
		check(b, unix.SetNonblock(fd, true))
	})
}

// BenchmarkLoop_Echo: one client sends a small message on each of its
// connections, then reads all the answers. One operation is one message.
func BenchmarkLoop_Echo(b *testing.B) {
	benchmarkBackends(b, func(b *testing.B, backend string) {
		for _, conns := range []int{1, 16, 256} {
			b.Run("conns="+strconv.Itoa(conns), func(b *testing.B) {
				l := newLoop(b, backend)
				fds := make([]int, conns)
				for i := range fds {
					fd, peer := pair(b, "tcp")
					peerFD(b, peer, func(peerFD int) {
						copied, err := unix.Dup(peerFD)
						check(b, err)
						check(b, unix.SetNonblock(copied, false))
						check(b, unix.SetsockoptInt(copied, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
						fds[i] = copied
					})
					check(b, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
					adopted := make(chan struct{})
					l.Adopt(fd, func(c *Conn) Handler { defer close(adopted); return &plainEcho{conn: c} })
					<-adopted
				}
				message, answer := pattern(64), make([]byte, 64)
				before := loopCPU(l)
				b.ReportAllocs()
				b.ResetTimer()
				for done := 0; done < b.N; {
					round := min(conns, b.N-done)
					for _, fd := range fds[:round] {
						_, _ = unix.Write(fd, message)
					}
					for _, fd := range fds[:round] {
						if n, err := unix.Read(fd, answer); n != len(answer) {
							b.Fatal(n, err)
						}
					}
					done += round
				}
				b.StopTimer()
				b.ReportMetric(float64(loopCPU(l)-before)/float64(b.N), "loop-ns/op")
				for _, fd := range fds {
					unix.Close(fd)
				}
			})
		}
	})
}

// relay copies from one connection to another.
type relay struct {
	conn, to *Conn
	sending  *arena.Buf
}

func (r *relay) Input(data []byte) {
	buf := r.to.loop.pool.Get(len(data))
	copy(buf.Bytes(), data)
	if r.to.Write(buf, len(data)) {
		buf.Release()
		return
	}
	r.sending = buf
	r.conn.PauseRead()
}
func (r *relay) Drained()     {}
func (r *relay) Closed(error) { r.to.CloseAfterDrain() }

// sink is the relay's other end.
type sink struct{ relay *relay }

func (s *sink) Input([]byte) {}
func (s *sink) Drained() {
	s.relay.sending.Release()
	s.relay.conn.ResumeRead()
}
func (s *sink) Closed(error) {}

// BenchmarkLoop_Relay: one thread writes 128 KiB chunks, the loop passes them
// on, another thread reads. One operation is one chunk.
func BenchmarkLoop_Relay(b *testing.B) {
	const chunkBytes = 128 << 10
	benchmarkBackends(b, func(b *testing.B, backend string) {
		l := newLoop(b, backend)
		in, source := pair(b, "tcp")
		out, target := pair(b, "tcp")
		r := &relay{}
		adopted := make(chan struct{}, 2)
		l.Adopt(out, func(c *Conn) Handler { r.to = c; adopted <- struct{}{}; return &sink{r} })
		l.Adopt(in, func(c *Conn) Handler { r.conn = c; adopted <- struct{}{}; return r })
		<-adopted
		<-adopted
		before := loopCPU(l)
		b.SetBytes(chunkBytes)
		b.ReportAllocs()
		b.ResetTimer()
		go blocking(b, source, func(fd int) {
			chunk := pattern(chunkBytes)
			for range b.N {
				for n := 0; n < chunkBytes; {
					k, err := unix.Write(fd, chunk[n:])
					if err != nil {
						b.Error(err)
						return
					}
					n += k
				}
			}
		})
		blocking(b, target, func(fd int) {
			buf := make([]byte, 2*chunkBytes)
			for left := b.N * chunkBytes; left > 0; {
				n, err := unix.Read(fd, buf)
				if err != nil || n == 0 {
					b.Error(io.ErrUnexpectedEOF, err)
					return
				}
				left -= n
			}
		})
		b.StopTimer()
		b.ReportMetric(float64(loopCPU(l)-before)/float64(b.N), "loop-ns/op")
	})
}
