package logs

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpen_Formats(t *testing.T) {
	t.Parallel()
	log := func(format string) string {
		var out bytes.Buffer
		o, err := Open(Options{Level: slog.LevelInfo, Format: format, Stderr: &out})
		if err != nil {
			t.Fatal(err)
		}
		l := slog.New(o).With("a", 1).WithGroup("g")
		l.Debug("not this")
		l.Info("one", "b", "two\nlines")
		l.Warn("w")
		l.Error("e")
		return out.String()
	}
	if text := log(Text); strings.Count(text, "\n") != 3 || !strings.Contains(text, `level=INFO msg=one a=1 g.b="two\nlines"`) {
		t.Errorf("text: %s", text)
	}
	for line := range strings.Lines(log(JSON)) {
		var v struct {
			Level, Msg string
			A          int
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || v.Level == "" || v.Msg == "" || v.A != 1 {
			t.Errorf("%s: %v", line, err)
		}
	}
	want := "<6>msg=one a=1 g.b=\"two\\nlines\"\n<4>msg=w a=1\n<3>msg=e a=1\n"
	if got := log(Journald); got != want {
		t.Errorf("journald: %q, want %q", got, want)
	}
}

// TestOpen_JournalStream: text that goes to the journal has the journal's form,
// other text has not, and what is not text stays what was asked for.
func TestOpen_JournalStream(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "stream"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	is := info.Sys().(*syscall.Stat_t)
	for _, c := range []struct{ format, stream, prefix string }{
		{Text, fmt.Sprintf("%d:%d", is.Dev, is.Ino), "<6>msg=x"},
		{Text, fmt.Sprintf("%d:%d", is.Dev, is.Ino+1), "time="},
		{Text, "nonsense", "time="},
		{Text, "", "time="},
		{JSON, fmt.Sprintf("%d:%d", is.Dev, is.Ino), "{"},
		{Journald, "", "<6>msg=x"},
	} {
		if err := f.Truncate(0); err != nil {
			t.Fatal(err)
		}
		o, err := Open(Options{Format: c.format, Stderr: f, Getenv: func(string) string { return c.stream }})
		if err != nil {
			t.Fatal(err)
		}
		slog.New(o).Info("x")
		text, _ := os.ReadFile(f.Name())
		if got := strings.TrimLeft(string(text), "\x00"); !strings.HasPrefix(got, c.prefix) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// TestReopen: after somebody has moved the file away, lines go to a new one; if
// that cannot be made, the old one stays.
func TestReopen(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "log")
	o, err := Open(Options{File: path})
	if err != nil {
		t.Fatal(err)
	}
	l := slog.New(o)
	l.Info("first")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if err := o.Reopen(); err != nil {
		t.Fatal(err)
	}
	l.Info("second")
	moved := filepath.Join(filepath.Dir(dir), "moved")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	if err := o.Reopen(); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("reopened in a directory that is gone: %v", err)
	}
	l.Info("third")
	old, _ := os.ReadFile(filepath.Join(moved, "log.1"))
	now, _ := os.ReadFile(filepath.Join(moved, "log"))
	if strings.Count(string(old), "\n") != 1 || !strings.Contains(string(now), "second") || !strings.Contains(string(now), "third") {
		t.Errorf("old %q, new %q", old, now)
	}
	if _, err := Open(Options{File: filepath.Join(dir, "no", "log")}); err == nil {
		t.Error("opened a file in a directory that is not there")
	}
}

func TestTap_KeepsTheLast(t *testing.T) {
	t.Parallel()
	tap := NewTap(slog.NewTextHandler(io.Discard, nil))
	l := slog.New(tap)
	if lines, _ := tap.Since(0); len(lines) != 0 {
		t.Fatal(lines)
	}
	l.Debug("not enabled")
	for i := range linesKept + 10 {
		l.With("i", i).Warn("x")
	}
	lines, changed := tap.Since(0)
	if len(lines) != linesKept || lines[0].ID != 11 || lines[linesKept-1].ID != linesKept+10 || !strings.HasSuffix(lines[0].Text, "level=WARN msg=x i=10") || lines[0].Severity != "warn" {
		t.Fatalf("%d lines, the first %+v", len(lines), lines[0])
	}
	if lines, _ := tap.Since(linesKept + 8); len(lines) != 2 {
		t.Errorf("%d lines after the one before the last", len(lines))
	}
	if lines, _ := tap.Since(1 << 40); len(lines) != linesKept {
		t.Errorf("%d lines for who comes from an earlier run", len(lines))
	}
	l.Error(strings.Repeat("é", lineBytesMax))
	<-changed
	if lines, _ := tap.Since(linesKept + 10); len(lines) != 1 || len(lines[0].Text) > lineBytesMax+4 || !strings.HasSuffix(lines[0].Text, "é…") {
		t.Errorf("a long line: %d bytes", len(lines[0].Text))
	}
}

// TestTap_FollowersDoNotHold: who does not read gets no more than there is room
// for, and nobody waits.
func TestTap_FollowersDoNotHold(t *testing.T) {
	t.Parallel()
	tap := NewTap(slog.NewTextHandler(io.Discard, nil))
	f := tap.Follow(4)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				slog.New(tap).Info("x")
			}
		})
	}
	all.Wait()
	if len(f.C) != 4 {
		t.Errorf("%d lines", len(f.C))
	}
	tap.Leave(f)
	for range 4 {
		<-f.C
	}
	slog.New(tap).Info("y")
	if len(f.C) != 0 {
		t.Error("a line after it has left")
	}
}

// TestLive: what is kept, then what comes; who comes back goes on where it was.
func TestLive(t *testing.T) {
	t.Parallel()
	tap := NewTap(slog.NewTextHandler(io.Discard, nil))
	l := slog.New(tap)
	l.Info("one")
	l.Warn("two")
	stop := make(chan struct{})
	s := httptest.NewServer(Live(tap, stop))
	defer s.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	follow := func(last string) (next func() string) {
		r, _ := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		answer, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		lines := bufio.NewScanner(answer.Body)
		return func() string {
			event := ""
			for lines.Scan() {
				if text := lines.Text(); text == "" && event != "" {
					return event
				} else if text != "" && text != ":" {
					event += text + "|"
				}
			}
			return "end"
		}
	}
	next := follow("")
	for i, want := range []string{"id: 1|event: info|data: time=", "id: 2|event: warn|data: time="} {
		if got := next(); !strings.HasPrefix(got, want) {
			t.Errorf("event %d: %s", i, got)
		}
	}
	l.Error("three\nlines")
	if got := next(); !strings.HasPrefix(got, "id: 3|event: error|") || !strings.HasSuffix(got, `msg="three\nlines"|`) {
		t.Errorf("then %s", got)
	}
	again := follow("2")
	if got := again(); !strings.HasPrefix(got, "id: 3|") {
		t.Errorf("after coming back: %s", got)
	}
	close(stop)
	if a, b := next(), again(); a != "end" || b != "end" {
		t.Errorf("after the end: %s, %s", a, b)
	}
}
