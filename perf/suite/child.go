package suite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Tool is the load generator, as far as the suite needs it.
type Tool interface {
	// Run runs a scenario and returns its result as JSON. A scenario that
	// failed may have one all the same.
	Run(ctx context.Context, arguments ...string) ([]byte, error)
	// Memory looks at a process.
	Memory(pid int) (results.Memory, error)
	// DeleteQueues removes queues; those that are not there are no error.
	DeleteQueues(uri string, names []string) error
}

// Child runs scenarios as child processes of this executable.
type Child struct{ executable string }

// NewChild finds the executable. /proc/self/exe is the file that runs, even
// after another was put in its place.
func NewChild() (Child, error) {
	if _, err := os.Stat(ownExecutable); err == nil {
		return Child{ownExecutable}, nil
	}
	executable, err := os.Executable()
	if err != nil {
		return Child{}, fmt.Errorf("can't find this program's file: %w", err)
	}
	return Child{executable}, nil
}

const ownExecutable = "/proc/self/exe"

// Run implements [Tool].
func (c Child) Run(ctx context.Context, arguments ...string) ([]byte, error) {
	return RunChild(ctx, c.executable, arguments...)
}

// Memory implements [Tool].
func (Child) Memory(pid int) (results.Memory, error) { return process.Memory(pid) }

// DeleteQueues implements [Tool].
func (Child) DeleteQueues(uri string, names []string) error {
	address, err := session.ParseURI(uri)
	if err != nil {
		return err
	}
	address.Client, address.ClientVersion = scenario.Program, scenario.ToolVersion()
	target := scenario.Target{Address: address}
	return target.Control(nil, func(s *session.Session) error {
		for _, name := range names {
			if err := s.Call(session.ClientChannel, &amqp.QueueDelete{Queue: []byte(name)}, &amqp.QueueDeleteOk{}); err != nil {
				return fmt.Errorf("can't delete the queue %s: %w", name, err)
			}
		}
		return nil
	})
}

// farewellSpan is how long a child that was told to end may take to write
// what it has.
const farewellSpan = 15 * time.Second

// RunChild runs the executable with the arguments and "-q -j" and returns what
// it writes to stdout. When ctx ends the child gets the signal of Ctrl-C and
// writes its partial result.
func RunChild(ctx context.Context, executable string, arguments ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, executable, append(arguments, "-q", "-j")...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	// A process group of its own: Ctrl-C at a terminal is for the parent, which
	// passes it on.
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGINT) }
	command.WaitDelay = farewellSpan
	err := command.Run()
	if err != nil && !(errors.Is(err, context.Canceled) && stdout.Len() > 0) {
		text := strings.TrimSpace(stderr.String())
		if text == "" {
			text = err.Error()
		}
		return stdout.Bytes(), fmt.Errorf("%s: %s", arguments[0], lastLine(text))
	}
	return stdout.Bytes(), nil
}

// lastLine is where a program says why it gave up.
func lastLine(text string) string {
	return text[strings.LastIndexByte(text, '\n')+1:]
}
