package logs

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"syscall"
)

// Formats of lines.
const (
	Text     = "text"
	JSON     = "json"
	Journald = "journald" // a level in angle brackets, no time: the journal has its own
)

// Options say where lines go and what they look like.
type Options struct {
	Level  slog.Leveler
	Format string
	File   string    // empty: Stderr
	Stderr io.Writer // nil: os.Stderr
	// Getenv finds JOURNAL_STREAM; nil: os.Getenv.
	Getenv func(string) string
}

// Output is an open log.
type Output struct {
	slog.Handler
	file *file // nil: standard error
}

// Open opens a log. Text that goes to the journal of systemd (JOURNAL_STREAM names
// standard error) is written as Journald. Errors name the file.
func Open(o Options) (*Output, error) {
	if o.Stderr == nil {
		o.Stderr = os.Stderr
	}
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	out := &Output{}
	w := o.Stderr
	if o.File != "" {
		out.file = &file{path: o.File}
		if err := out.file.reopen(); err != nil {
			return nil, err
		}
		w = out.file
	} else if o.Format == Text && isJournal(o.Stderr, o.Getenv("JOURNAL_STREAM")) {
		o.Format = Journald
	}
	options := &slog.HandlerOptions{Level: o.Level}
	switch o.Format {
	case JSON:
		out.Handler = slog.NewJSONHandler(w, options)
	case Journald:
		out.Handler = newJournald(w, options)
	default:
		out.Handler = slog.NewTextHandler(w, options)
	}
	return out, nil
}

// Reopen opens the file again under its name, after somebody has moved it away.
// Without a file it does nothing. If it fails, the old file stays in use.
func (o *Output) Reopen() error {
	if o.file == nil {
		return nil
	}
	return o.file.reopen()
}

// file is a log file.
type file struct {
	path string
	mu   sync.Mutex
	f    *os.File
}

func (f *file) reopen() error {
	next, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("the log file cannot be opened: %w", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.f != nil {
		f.f.Close()
	}
	f.f = next
	return nil
}

// Write implements io.Writer.
func (f *file) Write(line []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.f.Write(line)
}

// isJournal says whether w is the file, a socket, that stream, of the form
// device:inode, names.
func isJournal(w io.Writer, stream string) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	var device, inode uint64
	if n, _ := fmt.Sscanf(stream, "%d:%d", &device, &inode); n != 2 {
		return false
	}
	info, err := f.Stat()
	if err != nil {
		return false
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	return ok && uint64(is.Dev) == device && is.Ino == inode
}

// journald writes lines with the prefixes of sd-daemon(3).
type journald struct{ byLevel [4]slog.Handler }

// prefixes are the priorities of syslog for debug, info, warn and error.
var prefixes = [4]string{"<7>", "<6>", "<4>", "<3>"}

func levelIndex(l slog.Level) int {
	switch {
	case l < slog.LevelInfo:
		return 0
	case l < slog.LevelWarn:
		return 1
	case l < slog.LevelError:
		return 2
	}
	return 3
}

func newJournald(w io.Writer, o *slog.HandlerOptions) *journald {
	without := *o
	without.ReplaceAttr = func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}
	j := &journald{}
	mu := new(sync.Mutex)
	for i, p := range prefixes {
		j.byLevel[i] = slog.NewTextHandler(&prefixed{mu: mu, w: w, prefix: p}, &without)
	}
	return j
}

// prefixed puts a prefix before each write, which is a line.
type prefixed struct {
	mu     *sync.Mutex
	w      io.Writer
	prefix string
	buf    []byte
}

func (p *prefixed) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buf = append(append(p.buf[:0], p.prefix...), line...)
	if _, err := p.w.Write(p.buf); err != nil {
		return 0, err
	}
	return len(line), nil
}

func (j *journald) Enabled(ctx context.Context, l slog.Level) bool {
	return j.byLevel[0].Enabled(ctx, l)
}

func (j *journald) Handle(ctx context.Context, r slog.Record) error {
	return j.byLevel[levelIndex(r.Level)].Handle(ctx, r)
}

func (j *journald) with(f func(slog.Handler) slog.Handler) slog.Handler {
	next := &journald{}
	for i, h := range j.byLevel {
		next.byLevel[i] = f(h)
	}
	return next
}

func (j *journald) WithAttrs(a []slog.Attr) slog.Handler {
	return j.with(func(h slog.Handler) slog.Handler { return h.WithAttrs(a) })
}

func (j *journald) WithGroup(name string) slog.Handler {
	return j.with(func(h slog.Handler) slog.Handler { return h.WithGroup(name) })
}
