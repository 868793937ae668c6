package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime/debug"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/host"
	"github.com/basaltmq/basaltmq/engine/systemd"
)

// Below these the log has advice.
const (
	filesAdvised  = 4096     // descriptors; each connection is one
	memoryAdvised = 64 << 20 // bytes; an idle broker takes a quarter
)

// lookAtHost raises what may be raised, and gives advice where there is little.
func lookAtHost(logger *slog.Logger) {
	var files unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &files); err == nil {
		if files.Cur < files.Max {
			files.Cur = files.Max
			_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &files) // what was there stays
			_ = unix.Getrlimit(unix.RLIMIT_NOFILE, &files)
		}
		if files.Cur < filesAdvised {
			logger.Warn("few open files are allowed, and each connection is one: raise the limit (LimitNOFILE= of a unit, ulimit -n, --ulimit nofile= of a container)",
				"limit", files.Cur, "advised", filesAdvised)
		}
	}
	limit := host.MemoryLimit("/")
	if limit == 0 {
		return
	}
	if limit < memoryAdvised {
		logger.Warn("the memory limit of this control group is low: messages wait on disk, but busy connections need buffers: raise it (MemoryMax= of a unit, --memory= of a container)", "limit_bytes", limit, "advised_bytes", memoryAdvised)
	}
	// Most of the broker's memory is buffers that the runtime does not see: half
	// of the limit is for the heap, which then is collected more often.
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(limit / 2)
	}
}

// writePID writes the file that holds the process's number, and returns what
// removes it, if it is still this process's.
func writePID(name string) (remove func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	text := strconv.Itoa(os.Getpid()) + "\n"
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		return nil, fmt.Errorf("pidfile: %w", err)
	}
	return func() {
		if data, err := os.ReadFile(name); err == nil && string(data) == text {
			_ = os.Remove(name)
		}
	}, nil
}

// passedSockets are those that the service manager has opened.
func passedSockets() (map[string]int, error) {
	passed, err := systemd.Sockets(engine.SocketNames...)
	if err != nil {
		return nil, err
	}
	sockets := map[string]int{}
	for name, fds := range passed {
		if len(fds) > 1 {
			return nil, fmt.Errorf("systemd: there are %d sockets named %q: one can be served (ListenStream=[::]:PORT takes IPv4, too)", len(fds), name)
		}
		sockets[name] = fds[0]
	}
	return sockets, nil
}

// advise adds a remedy to errors of a start that have one.
func advise(err error, dataDir string) error {
	if errors.Is(err, fs.ErrPermission) && dataDir == "/var/lib/basaltmq" {
		return fmt.Errorf("%w (choose a directory of your own with -D)", err)
	}
	return err
}
