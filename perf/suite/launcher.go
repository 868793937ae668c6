package suite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
)

// Launcher starts brokers from one binary.
type Launcher struct {
	Binary    string
	Flags     []string // besides the data directory and the port
	Directory string   // where data directories are made; "": the one for temporary files
	Env       []string // variables in place of those of this process and of Start
	Commit    string   // noted in the environment
}

// Broker is a broker that is measured: one that was started here, or one that
// runs anyway.
type Broker struct {
	URI    string
	PID    int // 0: unknown, another machine's perhaps
	Record results.Record

	directory string // to be removed
	command   *exec.Cmd
	ended     chan struct{} // closed when the process has ended
	log       *tailBuffer
}

// Spans of starting and stopping a broker.
const (
	startSpan = 30 * time.Second
	stopSpan  = 60 * time.Second // a backlog is written out
)

// readyLine is how the broker says that it listens.
const readyLine = "BasaltMQ is ready"

// logField finds fields of a line in logfmt.
var logField = regexp.MustCompile(`(\w+)=("(?:[^"\\]|\\.)*"|\S+)`)

// Start starts a broker on an empty directory and a free port and waits until
// it listens.
func (l *Launcher) Start(ctx context.Context) (*Broker, error) {
	directory, err := os.MkdirTemp(l.Directory, "basaltmqperf-*")
	if err != nil {
		return nil, fmt.Errorf("can't make a data directory: %w", err)
	}
	b := &Broker{directory: directory, ended: make(chan struct{}), log: &tailBuffer{}}
	data := filepath.Join(directory, "data")
	b.command = exec.Command(l.Binary, append([]string{"-D", data, "--amqp-port", "0"}, l.Flags...)...)
	// By environment: brokers of earlier versions know no such flags.
	b.command.Env = append(append(os.Environ(), "BASALTMQ_HTTP_PORT=0", "BASALTMQ_METRICS_PORT=0"), l.Env...)
	b.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := b.command.StderrPipe()
	if err == nil {
		err = b.command.Start()
	}
	if err != nil {
		os.RemoveAll(directory)
		return nil, fmt.Errorf("can't start the broker: %w", err)
	}
	b.PID = b.command.Process.Pid
	ready := make(chan map[string]string, 1)
	go func() {
		b.watch(stderr, ready)
		_ = b.command.Wait() // how it ended shows in its log
		close(b.ended)
	}()
	timer := time.NewTimer(startSpan)
	defer timer.Stop()
	select {
	case fields := <-ready:
		b.URI = "amqp://guest:guest@" + fields["amqp"] + "/"
		b.Record = results.Record{
			DataDir: data, Durability: fields["durability"], Commit: l.Commit,
			IOBackend: fmt.Sprintf("sockets: %s, files: %s", fields["sockets"], fields["files"]),
		}
		return b, nil
	case <-b.ended:
		err = fmt.Errorf("%s did not start: %s", l.Binary, lastLine(b.log.text()))
	case <-timer.C:
		err = fmt.Errorf("%s did not listen within %s: %s", l.Binary, startSpan, lastLine(b.log.text()))
	case <-ctx.Done():
		err = ctx.Err()
	}
	return nil, errors.Join(err, b.Stop())
}

// watch reads the broker's log until it ends, so that the pipe never fills.
func (b *Broker) watch(stderr io.Reader, ready chan<- map[string]string) {
	lines := bufio.NewReader(stderr)
	said := false
	for {
		line, err := lines.ReadString('\n')
		b.log.add(line)
		if !said && strings.Contains(line, readyLine) {
			said = true
			fields := map[string]string{}
			for _, match := range logField.FindAllStringSubmatch(line, -1) {
				fields[match[1]] = strings.Trim(match[2], `"`)
			}
			ready <- fields
		}
		if err != nil {
			return
		}
	}
}

// Stop ends a broker that was started here, in good order if it goes, and
// removes its directory. One that runs anyway is left alone.
func (b *Broker) Stop() error {
	if b == nil || b.command == nil {
		return nil
	}
	_ = b.command.Process.Signal(syscall.SIGTERM) // it may have ended
	timer := time.NewTimer(stopSpan)
	defer timer.Stop()
	var failure error
	select {
	case <-b.ended:
	case <-timer.C:
		failure = fmt.Errorf("the broker did not stop within %s and was killed", stopSpan)
		_ = b.command.Process.Kill()
		<-b.ended
	}
	b.command = nil
	return errors.Join(failure, os.RemoveAll(b.directory))
}

// tailBuffer keeps the end of a log.
type tailBuffer struct {
	mu   sync.Mutex
	tail string
}

const tailBytes = 4 << 10

func (t *tailBuffer) add(line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tail += line
	if len(t.tail) > tailBytes {
		t.tail = t.tail[len(t.tail)-tailBytes:]
	}
}

func (t *tailBuffer) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.tail)
}
