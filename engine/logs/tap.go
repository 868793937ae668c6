package logs

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
)

const (
	linesKept    = 1024
	lineBytesMax = 4096
)

// Line is a line of the log as text, without its end.
type Line struct {
	ID       uint64 // counts from 1
	Severity string // debug, info, warn, error
	Text     string
}

// Tap is a slog.Handler that keeps the last lines and passes all on. Handlers
// made of it by WithAttrs and WithGroup share what it keeps.
type Tap struct {
	next   slog.Handler
	render slog.Handler // into shared.buf
	shared *shared
}

type shared struct {
	mu        sync.Mutex
	buf       bytes.Buffer
	lines     []Line // a ring, once it is full
	last      uint64 // ID of the newest
	changed   chan struct{}
	followers []*Follower
}

// NewTap makes a Tap in front of a handler.
func NewTap(next slog.Handler) *Tap {
	s := &shared{changed: make(chan struct{})}
	// What is enabled is the next one's to say.
	render := slog.NewTextHandler(&s.buf, &slog.HandlerOptions{Level: slog.Level(-1 << 30)})
	return &Tap{next, render, s}
}

// Enabled implements slog.Handler.
func (t *Tap) Enabled(ctx context.Context, l slog.Level) bool { return t.next.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (t *Tap) Handle(ctx context.Context, r slog.Record) error {
	err := t.next.Handle(ctx, r)
	s := t.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Reset()
	if t.render.Handle(ctx, r) != nil {
		return err
	}
	text := strings.TrimSuffix(s.buf.String(), "\n")
	if len(text) > lineBytesMax {
		text = strings.ToValidUTF8(text[:lineBytesMax], "") + "…"
	}
	s.last++
	line := Line{s.last, severities[levelIndex(r.Level)], text}
	if len(s.lines) < linesKept {
		s.lines = append(s.lines, line)
	} else {
		s.lines[(s.last-1)%linesKept] = line
	}
	close(s.changed)
	s.changed = make(chan struct{})
	for _, f := range s.followers {
		f.offer(line)
	}
	return err
}

var severities = [4]string{"debug", "info", "warn", "error"}

// WithAttrs implements slog.Handler.
func (t *Tap) WithAttrs(a []slog.Attr) slog.Handler {
	return &Tap{t.next.WithAttrs(a), t.render.WithAttrs(a), t.shared}
}

// WithGroup implements slog.Handler.
func (t *Tap) WithGroup(name string) slog.Handler {
	return &Tap{t.next.WithGroup(name), t.render.WithGroup(name), t.shared}
}

// Since returns the kept lines after the one with that ID, oldest first, and a
// channel that is closed when there is another. An ID that is not known, as one of
// an earlier run, counts as 0: everything that is kept.
func (t *Tap) Since(id uint64) (lines []Line, changed <-chan struct{}) {
	s := t.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	if id > s.last {
		id = 0
	}
	first := s.last - uint64(len(s.lines)) // ID before the oldest
	for n := max(id, first); n < s.last; n++ {
		lines = append(lines, s.lines[n%linesKept])
	}
	return lines, s.changed
}

// Follower gets lines as they come.
type Follower struct{ C chan Line }

func (f *Follower) offer(l Line) {
	select {
	case f.C <- l:
	default: // invariant 1
	}
}

// Follow adds a follower that has room for so many lines.
func (t *Tap) Follow(room int) *Follower {
	f := &Follower{make(chan Line, room)}
	t.shared.mu.Lock()
	defer t.shared.mu.Unlock()
	t.shared.followers = append(t.shared.followers, f)
	return f
}

// Leave ends Follow.
func (t *Tap) Leave(f *Follower) {
	t.shared.mu.Lock()
	defer t.shared.mu.Unlock()
	for i, other := range t.shared.followers {
		if other == f {
			t.shared.followers = append(t.shared.followers[:i], t.shared.followers[i+1:]...)
			return
		}
	}
}
