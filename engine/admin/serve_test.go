package admin

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serveTCP serves a handler on a free port with bounds of its own.
func serveTCP(t *testing.T, h http.Handler, limits serverLimits, config *tls.Config) *Server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(ServeOptions{Listener: l, TLS: config, Handler: h, Logger: slog.New(slog.DiscardHandler), limits: limits})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dialTCP(t *testing.T, s *Server) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

const long = time.Minute

// TestServe_SlowClients: those who send their headers, or a body, drop by drop are
// cut off, and so is who has nothing to say; the others go on meanwhile.
func TestServe_SlowClients(t *testing.T) {
	h := newTestHandler(t)
	s := serveTCP(t, h, serverLimits{20, 50 * time.Millisecond, 100 * time.Millisecond, long, 50 * time.Millisecond, true}, nil)
	for name, text := range map[string]string{
		"silent":       "",
		"half a line":  "GET /api/ov",
		"half headers": "GET /api/overview HTTP/1.1\r\nHost: b\r\nX-A: ",
		"half a body":  "PUT /api/users/x HTTP/1.1\r\nHost: b\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\nContent-Length: 1000\r\n\r\n{",
		"idle":         "GET /api/auth HTTP/1.1\r\nHost: b\r\n\r\n",
	} {
		c := dialTCP(t, s)
		_, _ = io.WriteString(c, text)
		answer, err := io.ReadAll(c) // until it is cut off
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if ok := strings.HasPrefix(string(answer), "HTTP/1.1 200 OK"); ok != (name == "idle") {
			t.Errorf("%s: %q", name, answer)
		}
	}
	if _, err := h.Broker.User("x"); err == nil {
		t.Error("half a body has made a user")
	}
}

// TestServe_HugeBody: it is refused when it is known to be too large, whatever its
// sender says of its length, and read no further.
func TestServe_HugeBody(t *testing.T) {
	h := newTestHandler(t)
	s := serveTCP(t, h, serverLimits{20, long, long, long, long, true}, nil)
	for _, kind := range []string{"Content-Length: 1000000000000", "Transfer-Encoding: chunked"} {
		c := dialTCP(t, s)
		go func() {
			_, _ = fmt.Fprintf(c, "PUT /api/users/x HTTP/1.1\r\nHost: b\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n%s\r\n\r\n", kind)
			chunk := strings.Repeat(" ", 32<<10)
			for {
				text := chunk
				if strings.HasPrefix(kind, "Transfer") {
					text = fmt.Sprintf("%x\r\n%s\r\n", len(chunk), chunk)
				}
				if _, err := io.WriteString(c, text); err != nil {
					return
				}
			}
		}()
		response, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || response.StatusCode != http.StatusRequestEntityTooLarge || !response.Close {
			t.Errorf("%s: %v, %v", kind, response, err)
		}
		c.Close()
	}
}

// TestServe_Hijacked: a connection that goes on with another protocol, also over
// TLS, makes room for the next.
func TestServe_Hijacked(t *testing.T) {
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	defer certificate.Close()
	for _, config := range []*tls.Config{nil, {Certificates: certificate.TLS.Certificates, NextProtos: []string{"http/1.1"}}} {
		ended := make(chan struct{})
		h := newTestHandler(t)
		h.Upgrade = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c, "other")
			go func() {
				_, _ = io.Copy(io.Discard, c)
				c.Close()
				ended <- struct{}{}
			}()
		})
		s := serveTCP(t, h, serverLimits{1, long, long, long, long, true}, config)
		var open []net.Conn
		for range 3 {
			c := dialTCP(t, s)
			if config != nil {
				c = tls.Client(c, &tls.Config{InsecureSkipVerify: true})
			}
			_, _ = io.WriteString(c, "GET /any/path HTTP/1.1\r\nHost: b\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n")
			answer := make([]byte, 5)
			if _, err := io.ReadFull(c, answer); err != nil || string(answer) != "other" {
				t.Fatalf("%q, %v", answer, err)
			}
			open = append(open, c)
		}
		for _, c := range open {
			c.Close()
			<-ended
		}
	}
}

// TestServe_HalfClosed: who has said all there is to say gets the answer.
func TestServe_HalfClosed(t *testing.T) {
	s := serveTCP(t, newTestHandler(t), serverLimits{20, long, long, long, long, true}, nil)
	c := dialTCP(t, s)
	_, _ = io.WriteString(c, "GET /api/auth HTTP/1.0\r\n\r\n")
	_ = c.(*net.TCPConn).CloseWrite()
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.0 200 OK") {
		t.Errorf("%q, %v", answer, err)
	}
}
