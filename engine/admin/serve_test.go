package admin

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
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
		for {
			c := dialTCP(t, s)
			_, _ = io.WriteString(c, text)
			answer, err := io.ReadAll(c)      // until it is cut off
			if err != nil && !wasReset(err) { // what it said may have come after that
				t.Errorf("%s: %v", name, err)
			}
			ok := strings.HasPrefix(string(answer), "HTTP/1.1 200 OK")
			if name == "idle" && len(answer) == 0 {
				continue // on a busy machine this one was slow, too
			}
			if ok != (name == "idle") {
				t.Errorf("%s: %q", name, answer)
			}
			break
		}
	}
	if _, err := h.Broker.User("x"); err == nil {
		t.Error("half a body has made a user")
	}
}

// wasReset says that the peer had closed its socket with input in it, or before.
func wasReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
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

// TestServe_RefusalIsHeard: who reads the answer only when the whole request is
// written gets it, also if he says that he will close then.
func TestServe_RefusalIsHeard(t *testing.T) {
	h := newTestHandler(t)
	s := serveTCP(t, h, serverLimits{20, long, long, long, long, true}, nil)
	for _, said := range []string{"", "Connection: close\r\n"} {
		for path, want := range map[string]int{"/api/users/x": http.StatusRequestEntityTooLarge, "/api/nothing": http.StatusNotFound} {
			for {
				c := dialTCP(t, s)
				if err := c.(*net.TCPConn).SetWriteBuffer(16 << 10); err != nil { // else it would all fit in there
					t.Fatal(err)
				}
				body := strings.Repeat(" ", 1<<20+1)
				began := time.Now()
				_, err := fmt.Fprintf(c, "PUT %s HTTP/1.1\r\nHost: b\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n%sContent-Length: %d\r\n\r\n%s", path, said, len(body), body)
				var response *http.Response
				if err == nil {
					response, err = http.ReadResponse(bufio.NewReader(c), nil)
				}
				c.Close()
				if wasReset(err) && time.Since(began) > lingerTimeout {
					continue // on a busy machine that was too slow
				}
				if err != nil || response.StatusCode != want || response.ContentLength <= 0 {
					t.Errorf("%q %s: %v, %v", said, path, response, err)
				}
				break
			}
		}
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
			_, _ = io.WriteString(c, "GET /any/path HTTP/1.1\r\nHost: b\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
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

// ask sends text and reads one answer, after which the connection may go on.
func ask(t *testing.T, c net.Conn, text string) *http.Response {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Fatal(err)
	}
	return response
}

const asGuest = "Host: b\r\nAuthorization: Basic Z3Vlc3Q6Z3Vlc3Q=\r\n"

// TestServe_UnreadBody: a body that is not going to be read is not waited for: of
// those who are not let in, or that is too large by what its sender says.
func TestServe_UnreadBody(t *testing.T) {
	s := serveTCP(t, newTestHandler(t), serverLimits{20, long, long, long, long, true}, nil)
	for text, want := range map[string]int{
		"PUT /api/users/x HTTP/1.1\r\nHost: b\r\nContent-Length: 1000\r\n\r\n{":                                                         401,
		"PUT /api/users/x HTTP/1.1\r\nHost: b\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{":                                              401,
		"PUT /api/users/x HTTP/1.1\r\nHost: b\r\nAuthorization: Basic Z3Vlc3Q6d3Jvbmc=\r\nContent-Length: 1000\r\n\r\n{":                401,
		"PUT /api/nothing HTTP/1.1\r\n" + asGuest + "Content-Length: 1000\r\n\r\n{":                                                     404,
		"PUT /api/overview HTTP/1.1\r\n" + asGuest + "Content-Length: 1000\r\n\r\n{":                                                    405,
		"PUT /api/users/x HTTP/1.1\r\n" + asGuest + "Content-Length: 100000000\r\n\r\n{":                                                413,
		"POST /api/definitions HTTP/1.1\r\n" + asGuest + "Content-Length: 100000000\r\n\r\n{":                                           413,
		"POST /api/exchanges/%2F/x/publish HTTP/1.1\r\n" + asGuest + "Content-Length: 100000000\r\n\r\n{":                               413,
		"PUT /api/users/x HTTP/1.1\r\nHost: b\r\nAuthorization: Basic Z3Vlc3Q6d3Jvbmc=\r\nContent-Length: 9000000000000000000\r\n\r\n{": 401,
	} {
		c := dialTCP(t, s)
		if response := ask(t, c, text); response.StatusCode != want || !response.Close {
			t.Errorf("%q: %v", text, response)
		}
	}
}

// TestServe_Smuggled: what comes behind a request in chunks is not a request, so
// that one can't be hidden there from who stands in between.
func TestServe_Smuggled(t *testing.T) {
	h := newTestHandler(t)
	s := serveTCP(t, h, serverLimits{20, long, long, long, long, true}, nil)
	for _, length := range []string{"", "Content-Length: 4\r\n"} {
		c := dialTCP(t, s)
		response := ask(t, c, "PUT /api/vhosts/seen HTTP/1.1\r\n"+asGuest+length+"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+
			"PUT /api/vhosts/hidden HTTP/1.1\r\n"+asGuest+"Content-Length: 0\r\n\r\n")
		if response.StatusCode/100 != 2 || !response.Close {
			t.Errorf("%v", response)
		}
		if h.Broker.VHost("seen") == nil || h.Broker.VHost("hidden") != nil {
			t.Errorf("with %q: %v", length, h.Broker.VHosts())
		}
	}
}

// TestServe_Idle: who does nothing keeps nobody out: the connection that has been
// idle for longest makes room.
func TestServe_Idle(t *testing.T) {
	s := serveTCP(t, newTestHandler(t), serverLimits{3, long, long, long, long, true}, nil)
	const request = "GET /api/auth HTTP/1.1\r\nHost: b\r\n\r\n"
	var all []net.Conn
	for range 10 {
		c := dialTCP(t, s)
		if response := ask(t, c, request); response.StatusCode != 200 {
			t.Fatalf("%v", response)
		}
		all = append(all, c)
		// The answer may be here before its connection counts as idle.
		for s.socket.(*limitedListener).idle.count() < min(len(all), 3) {
			runtime.Gosched()
		}
	}
	for i, c := range all[:7] {
		if n, err := c.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("connection %d is not closed: %d, %v", i, n, err)
		}
	}
	for _, c := range all[7:] {
		if response := ask(t, c, request); response.StatusCode != 200 {
			t.Errorf("%v", response)
		}
	}
}

func (i *idleConns) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.order.Len()
}

// TestServe_OtherProtocols: who would rather speak another protocol, as Java's
// client does that always asks for HTTP/2, gets an answer in this one.
func TestServe_OtherProtocols(t *testing.T) {
	h := newTestHandler(t)
	h.Upgrade = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	s := serveTCP(t, h, serverLimits{20, long, long, long, long, true}, nil)
	for upgrade, want := range map[string]int{
		"h2c": 200, "TLS/1.0": 200, "": 200, "websocketx": 200,
		"websocket": http.StatusTeapot, "WebSocket": http.StatusTeapot, "h2c, websocket": http.StatusTeapot,
	} {
		response := ask(t, dialTCP(t, s), "GET /api/overview HTTP/1.1\r\n"+asGuest+"Connection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\nUpgrade: "+upgrade+"\r\n\r\n")
		if response.StatusCode != want {
			t.Errorf("%q: %v", upgrade, response)
		}
	}
}
