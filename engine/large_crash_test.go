package engine_test

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// logText collects what the broker logs.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// lines returns the lines that contain part.
func (l *logText) lines(part string) (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, part) {
			out = append(out, line)
		}
	}
	return out
}

// TestLarge_MissingAfterACrash: a body that is gone after a crash was that of a
// message that had been acknowledged, or was not persistent: no error. After a
// stop in good order it is one, and so is a persistent body that is damaged.
func TestLarge_MissingAfterACrash(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name       string
		clean      bool
		persistent bool
		damage     func(name string) error
		level      string
	}{
		{"gone", false, true, os.Remove, "WARN"},
		{"gone, not persistent", false, false, os.Remove, "WARN"},
		{"gone after a clean stop", true, true, os.Remove, "ERROR"},
		{"torn", false, true, func(name string) error { return os.Truncate(name, 9) }, "ERROR"},
		{"torn, not persistent", false, false, func(name string) error { return os.Truncate(name, 9) }, "WARN"},
		{"torn after a clean stop, not persistent", true, false, func(name string) error { return os.Truncate(name, 9) }, "ERROR"},
	} {
		for _, how := range []string{"get", "consume"} {
			t.Run(c.name+", "+how, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				e, err := engine.Start(engine.Config{DataDir: dir, Loops: 1, IO: os.Getenv(ioVariable)})
				if err != nil {
					t.Fatal(err)
				}
				p := open(t, e)
				p.Declare("q", amqptest.Durable)
				confirmSelect(p)
				for n := range 2 {
					p.Publish(1, large("q", n, c.persistent))
					amqptest.Expect[*amqp.BasicAck](p)
				}
				p.Abort()
				if err := e.Stop(); err != nil {
					t.Fatal(err)
				}
				if !c.clean {
					if err := os.Remove(filepath.Join(dir, "clean-stop")); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.damage(largeNames(t, dir)[0]); err != nil {
					t.Fatal(err)
				}
				logged := new(logText)
				e = start(t, func(config *engine.Config) {
					config.DataDir, config.Logger = dir, slog.New(slog.NewTextHandler(logged, nil))
				})
				r := open(t, e)
				if how == "get" {
					if got := r.Get(1, "q", amqptest.NoAck); string(got.Body) != largeBody(1) {
						t.Errorf("got %d bytes", len(got.Body))
					}
				} else {
					r.Subscribe(1, "q", "t", amqptest.NoAck)
					if _, body := delivery(r); body != largeBody(1) {
						t.Errorf("got %d bytes", len(body))
					}
				}
				if lines := logged.lines("passed over"); len(lines) != 1 || !strings.Contains(lines[0], "level="+c.level) {
					t.Errorf("logged %v", lines)
				}
			})
		}
	}
}
