package admin

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestServer_SlowClients: clients that send nothing, or half a request, are cut
// off, and those who waited for their places are served.
func TestServer_SlowClients(t *testing.T) {
	dir := t.TempDir()
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err == nil {
			_, _ = io.WriteString(w, "served")
		}
	})
	s, err := serveSocket(dir, handler, slog.New(slog.DiscardHandler), serverLimits{connections: connectionsMax, header: 50 * time.Millisecond, read: 100 * time.Millisecond, write: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	var slow []net.Conn
	for i := range 2 * connectionsMax {
		c, err := Dial(context.Background(), filepath.Join(dir, SocketName))
		if err != nil {
			t.Fatal(err)
		}
		switch i % 3 {
		case 1:
			_, _ = io.WriteString(c, "GET / HT")
		case 2:
			_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: b\r\nContent-Length: 1000\r\n\r\nx")
		}
		slow = append(slow, c)
	}
	for served := false; !served; { // on a busy machine this one may be too slow, too
		c, err := Dial(context.Background(), filepath.Join(dir, SocketName))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: b\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		switch served = err == nil; {
		case served:
			if text, err := io.ReadAll(response.Body); err != nil || string(text) != "served" {
				t.Errorf("%q, %v", text, err)
			}
			response.Body.Close()
		case !errors.Is(err, io.ErrUnexpectedEOF) && !wasReset(err):
			t.Fatal(err)
		}
		c.Close()
	}
	for i, c := range slow {
		if _, err := io.Copy(io.Discard, c); err != nil && !wasReset(err) {
			t.Errorf("slow client %d: %v", i, err)
		}
		c.Close()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, SocketName)); err == nil {
		t.Error("the socket is left behind")
	}
}

// TestServer_LargeHeaders are refused.
func TestServer_LargeHeaders(t *testing.T) {
	dir := t.TempDir()
	s, err := ServeSocket(dir, http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Dial(context.Background(), filepath.Join(dir, SocketName))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: b\r\n")
		for range 1024 {
			if _, err := io.WriteString(c, "X-Filler: 0123456789012345678901234567890123456789\r\n"); err != nil {
				return
			}
		}
	}()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("%v, %v", response, err)
	}
	c.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
