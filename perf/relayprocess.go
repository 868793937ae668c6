package perf

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/session"
	"golang.org/x/sys/unix"
)

// relayProcess is the child and the two connections through it.
type relayProcess struct {
	command *exec.Cmd
	stdin   io.Closer
	writer  int
	reader  int
}

// relayFlow is the child with as much going through it as it takes.
type relayFlow struct {
	*relayProcess
	writerDone  chan struct{}
	readerDone  chan struct{}
	transferred atomic.Uint64
	ended       atomic.Bool // by stop, not by an error
	failure     chan error
}

// startRelay starts the child and both ends of the stream through it.
func startRelay(stderr io.Writer) (relay *relayProcess, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("can't start the relay process: %w", err)
	}
	relay = &relayProcess{command: exec.Command(self, relayCommand), writer: -1, reader: -1}
	relay.command.Stderr = stderr
	// A process group of its own: Ctrl-C is for the parent, which ends the
	// child in its own time and prints what it has.
	relay.command.SysProcAttr = ownProcessGroup()
	stdin, err := relay.command.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("can't start the relay process: %w", err)
	}
	relay.stdin = stdin
	stdout, err := relay.command.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("can't start the relay process: %w", err)
	}
	if err := relay.command.Start(); err != nil {
		return nil, fmt.Errorf("can't start the relay process: %w", err)
	}
	defer func() {
		if err != nil {
			relay.kill()
		}
	}()
	var port int
	if _, err := fmt.Fscanf(bufio.NewReader(stdout), "port %d\n", &port); err != nil {
		return nil, fmt.Errorf("the relay process did not start: %w", err)
	}
	address := session.Address{HostPort: fmt.Sprintf("127.0.0.1:%d", port), Timeout: 10 * time.Second}
	if relay.writer, err = session.DialSocket(address); err != nil {
		return nil, fmt.Errorf("can't reach the relay process: %w", err)
	}
	if relay.reader, err = session.DialSocket(address); err != nil {
		unix.Close(relay.writer)
		return nil, fmt.Errorf("can't reach the relay process: %w", err)
	}
	return relay, nil
}

// startRelayFlow starts the child and two threads that write and read.
func startRelayFlow(stderr io.Writer) (*relayFlow, error) {
	process, err := startRelay(stderr)
	if err != nil {
		return nil, err
	}
	flow := &relayFlow{relayProcess: process, writerDone: make(chan struct{}), readerDone: make(chan struct{}), failure: make(chan error, 2)}
	go flow.write()
	go flow.read()
	return flow, nil
}

func (r *relayFlow) write() {
	runtime.LockOSThread()
	defer close(r.writerDone)
	chunk := make([]byte, relayWriteBytes)
	for !r.ended.Load() {
		if err := writeAll(r.writer, chunk); err != nil {
			r.fail(err)
			return
		}
	}
}

func (r *relayFlow) read() {
	runtime.LockOSThread()
	defer close(r.readerDone)
	buffer := make([]byte, relayReadBytes)
	for {
		n, err := unix.Read(r.reader, buffer)
		switch {
		case err == unix.EINTR:
		case err != nil:
			r.fail(err)
			return
		case n == 0:
			r.fail(io.ErrUnexpectedEOF)
			return
		default:
			r.transferred.Add(uint64(n))
		}
	}
}

func (r *relayFlow) fail(err error) {
	if !r.ended.Load() {
		r.failure <- fmt.Errorf("the relay broke: %w", err)
	}
}

// wait lets the relay run for a while, or until ctx ends.
func (r *relayFlow) wait(ctx context.Context, span time.Duration) error {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case err := <-r.failure:
		return err
	}
	return nil
}

// cpu reads the CPU times of the relay process and of this one.
func (r *relayProcess) cpu() (relay, client time.Duration) {
	relay, _ = process.CPU(r.command.Process.Pid)
	client, _ = process.CPU(os.Getpid())
	return relay, client
}

// stop ends child and threads, and closes the sockets after them.
func (r *relayFlow) stop() {
	r.ended.Store(true)
	_ = unix.Shutdown(r.writer, unix.SHUT_RDWR)
	_ = unix.Shutdown(r.reader, unix.SHUT_RDWR)
	r.kill()
	<-r.writerDone
	<-r.readerDone
	unix.Close(r.writer)
	unix.Close(r.reader)
}

func (r *relayProcess) kill() {
	if err := r.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
	_ = r.command.Wait() // only to reap it
	_ = r.stdin.Close()
}

// ownProcessGroup keeps the terminal's signals from a child process.
func ownProcessGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
