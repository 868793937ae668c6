package logs

import (
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
)

const (
	// viewersMax bounds who may follow the log at a time.
	viewersMax = 32
	// aliveInterval is how often a viewer without news is sent a comment, so that
	// a connection that has gone is noticed.
	aliveInterval = 15 * time.Second
	// viewerTimeout is how long a viewer may take for what it is sent.
	viewerTimeout = 10 * time.Second
)

// Live serves the log as server-sent events: what is kept, then what comes. A
// client that comes back with Last-Event-ID goes on where it was. It ends with the
// client, or when stop is closed.
func Live(t *Tap, stop <-chan struct{}) http.Handler {
	var viewers atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if viewers.Add(1) > viewersMax {
			viewers.Add(-1)
			http.Error(w, "too many follow the log already", http.StatusServiceUnavailable)
			return
		}
		defer viewers.Add(-1)
		last, _ := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64)
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "no-store")
		c := http.NewResponseController(w)
		send := func(f func() error) bool {
			_ = c.SetWriteDeadline(time.Now().Add(viewerTimeout)) // not all kinds of connections have one
			return f() == nil && c.Flush() == nil
		}
		alive := time.NewTicker(aliveInterval)
		defer alive.Stop()
		comment := func() error { _, err := w.Write([]byte(":\n\n")); return err }
		if !send(comment) { // so that the client knows that it has been heard
			return
		}
		for {
			lines, changed := t.Since(last)
			if len(lines) > 0 {
				last = lines[len(lines)-1].ID
				if !send(func() error { return writeEvents(w, lines) }) {
					return
				}
				continue
			}
			select {
			case <-changed:
			case <-alive.C:
				if !send(comment) {
					return
				}
			case <-r.Context().Done():
				return
			case <-stop:
				return
			}
		}
	})
}

func writeEvents(w http.ResponseWriter, lines []Line) error {
	for _, l := range lines {
		if _, err := fmt.Fprintf(w, "id: %d\nevent: %s\ndata: %s\n\n", l.ID, l.Severity, l.Text); err != nil {
			return err
		}
	}
	return nil
}

// Kept serves what is kept as text.
func Kept(t *Tap) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Content-Disposition", `attachment; filename="basaltmq.log"`)
		lines, _ := t.Since(0)
		for _, l := range lines {
			if _, err := fmt.Fprintln(w, l.Text); err != nil {
				return // the client is gone
			}
		}
	})
}
