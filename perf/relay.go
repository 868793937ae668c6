package perf

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"golang.org/x/sys/unix"
)

// Chunk sizes of the bare relay: what the writer writes at once, and the most
// that the relay reads at once. Fixed, so that figures stay comparable.
const (
	relayWriteBytes = 128 << 10
	relayReadBytes  = 256 << 10
)

// relayCommand is the subcommand under which the tool starts itself again as
// the relay process.
const relayCommand = "relay-child"

// relayScenario is the relay process of calibrate: it listens on a free port of
// the loopback interface, writes "port N" to stdout, takes two connections and
// copies from the first to the second until the end of the stream. It also
// ends when stdin does, that is when its parent is gone, however that went.
func relayScenario() scenario.Scenario {
	return scenario.Scenario{
		Name: relayCommand, Hidden: true,
		Summary: "the relay process of calibrate; not for direct use",
		Prepare: func(*cli.FlagSet) func(context.Context, scenario.Console) error {
			return func(_ context.Context, out scenario.Console) error {
				go func() {
					_, _ = io.Copy(io.Discard, out.Stdin)
					os.Exit(exitFailure)
				}()
				return runRelay(out.Stdout)
			}
		},
	}
}

func runRelay(announce io.Writer) error {
	runtime.LockOSThread()
	client.ShortenSlice() // as the loops of the tool
	listener, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("relay: socket: %w", err)
	}
	defer unix.Close(listener)
	if err := unix.Bind(listener, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("relay: bind: %w", err)
	}
	if err := unix.Listen(listener, 2); err != nil {
		return fmt.Errorf("relay: listen: %w", err)
	}
	bound, err := unix.Getsockname(listener)
	if err != nil {
		return fmt.Errorf("relay: %w", err)
	}
	fmt.Fprintf(announce, "port %d\n", bound.(*unix.SockaddrInet4).Port)
	from, err := acceptBlocking(listener)
	if err != nil {
		return err
	}
	defer unix.Close(from)
	to, err := acceptBlocking(listener)
	if err != nil {
		return err
	}
	defer unix.Close(to)
	if err := unix.SetsockoptInt(to, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil { // matters when latency is measured
		return fmt.Errorf("relay: %w", err)
	}
	return copyBlocking(to, from)
}

func acceptBlocking(listener int) (fd int, err error) {
	err = session.RetryInterrupted(func() (err error) {
		fd, _, err = unix.Accept4(listener, unix.SOCK_CLOEXEC)
		return err
	})
	if err != nil {
		return -1, fmt.Errorf("relay: accept: %w", err)
	}
	return fd, nil
}

// copyBlocking copies until the end of the stream. A non-blocking variant with
// edge-triggered epoll was tried: over six interleaved runs on two cores the
// two could not be told apart (23 to 30 million messages a second each), so
// the plainer one stays.
func copyBlocking(to, from int) error {
	buffer := make([]byte, relayReadBytes)
	for {
		n, err := unix.Read(from, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 || err != nil {
			return nil // the parent closes when it is done
		}
		if err := writeAll(to, buffer[:n]); err != nil {
			return nil
		}
	}
}

func writeAll(fd int, data []byte) error {
	for len(data) > 0 {
		n, err := unix.Write(fd, data)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
