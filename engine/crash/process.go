package crash

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startPatience bounds a start and a stop; reaching it is a failure.
const startPatience = 60 * time.Second

// Build compiles the broker into dir and returns the program's path. tags and
// ldflags as for go build.
func Build(dir, tags, ldflags string) (string, error) {
	binary := dir + "/basaltmq"
	args := []string{"build", "-tags", tags, "-ldflags", ldflags, "-o", binary, "github.com/basaltmq/basaltmq/cmd/basaltmq"}
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("crash: building the broker: %w\n%s", err, out)
	}
	return binary, nil
}

// ErrNoUring says that the machine has no io_uring to offer.
var ErrNoUring = errors.New("crash: io_uring is not available here")

// process is a running broker.
type process struct {
	Addr netip.AddrPort

	cmd   *exec.Cmd
	ready chan struct{} // closed when the start line was read
	ended chan struct{} // closed when the process is gone and its output read

	mu     sync.Mutex
	lines  []string // the last of stderr
	errors []string // lines at level ERROR
}

const linesMax = 200

// launch starts a broker on a free port.
func launch(binary, dir, backend string, loops int, more ...string) (*process, error) {
	p := &process{ready: make(chan struct{}), ended: make(chan struct{})}
	p.cmd = exec.Command(binary, append([]string{"-D", dir, "-p", "0", "--io", backend, "--loops", fmt.Sprint(loops)}, more...)...)
	p.cmd.Env = append(os.Environ(), "BASALTMQ_HTTP_PORT=-1", "BASALTMQ_METRICS_PORT=-1") // many at once
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}                  // a test that is killed leaves no broker
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("crash: starting the broker: %w", err)
	}
	go p.read(bufio.NewScanner(stderr))
	return p, nil
}

func (p *process) read(scanner *bufio.Scanner) {
	defer close(p.ended)
	started := false
	for scanner.Scan() {
		line := scanner.Text()
		p.mu.Lock()
		if len(p.lines) == linesMax {
			p.lines = append(p.lines[:0], p.lines[linesMax/2:]...)
		}
		p.lines = append(p.lines, line)
		if strings.Contains(line, "level=ERROR") {
			p.errors = append(p.errors, line)
		}
		p.mu.Unlock()
		if _, rest, ok := strings.Cut(line, " amqp="); ok && !started {
			text, _, _ := strings.Cut(rest, " ")
			if addr, err := netip.ParseAddrPort(text); err == nil {
				p.Addr = addr
				started = true
				close(p.ready)
			}
		}
	}
	_ = p.cmd.Wait() // ProcessState says it all
}

// awaitReady waits for the start line.
func (p *process) awaitReady() error {
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	select {
	case <-p.ready:
		return nil
	case <-p.ended:
		if text := p.output(); strings.Contains(text, "io_uring") && strings.Contains(text, "not available") {
			return fmt.Errorf("%w: %s", ErrNoUring, text)
		}
		return fmt.Errorf("crash: the broker did not start, %s:\n%s", p.cmd.ProcessState, p.output())
	case <-patience.C:
		return fmt.Errorf("crash: the broker is not ready after %s:\n%s", startPatience, p.output())
	}
}

// kill ends the process without warning and waits until it is gone.
func (p *process) kill() error {
	return p.stop(os.Kill)
}

func (p *process) stop(signal os.Signal) error {
	_ = p.cmd.Process.Signal(signal) // an error says that it has ended
	patience := time.NewTimer(startPatience)
	defer patience.Stop()
	select {
	case <-p.ended:
		return nil
	case <-patience.C:
		_ = p.cmd.Process.Kill()
		return fmt.Errorf("crash: the broker has not ended %s after %s:\n%s", startPatience, signal, p.output())
	}
}

func (p *process) output() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.lines, "\n")
}

// errorLines returns what the broker logged at level ERROR.
func (p *process) errorLines() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.errors...)
}
