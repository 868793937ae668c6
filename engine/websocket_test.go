package engine_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// webSocket is a client of another implementation as a socket.
type webSocket struct {
	net.Conn
	ws *websocket.Conn
}

func (w webSocket) CloseWrite() error { return w.ws.Close(websocket.StatusNormalClosure, "") }

// startWeb runs a broker with HTTP and HTTPS on free ports.
func startWeb(t *testing.T, ca *securetest.CA) *engine.Engine {
	any := netip.MustParseAddrPort("127.0.0.1:0")
	return start(t, secured(t, ca, func(s *engine.Secure) { s.HTTPS = any }), func(c *engine.Config) { c.HTTP = any })
}

func dialWeb(t *testing.T, url string, ca *securetest.CA, header http.Header) webSocket {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool}, DisableKeepAlives: true}}
	ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPClient: client, Subprotocols: []string{"mqtt", "amqp"}, HTTPHeader: header})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	if ws.Subprotocol() != "amqp" {
		t.Errorf("sub-protocol %q", ws.Subprotocol())
	}
	ws.SetReadLimit(-1)
	// Its own context: the test's ends before what Cleanup does.
	return webSocket{websocket.NetConn(context.Background(), ws, websocket.MessageBinary), ws}
}

// TestWebSocket carries AMQP through ws and wss, bodies of all sizes.
func TestWebSocket(t *testing.T) {
	ca := securetest.NewCA(t)
	e := startWeb(t, ca)
	for scheme, addr := range map[string]netip.AddrPort{"ws": e.HTTPAddr(), "wss": e.HTTPSAddr()} {
		t.Run(scheme, func(t *testing.T) {
			socket := dialWeb(t, scheme+"://"+addr.String()+"/any/path", ca, nil)
			c := amqptest.OpenClientOn(t, socket, amqptest.Options{})
			if info := theConnection(t, e); info.Protocol != "Web AMQP 0-9-1" || info.TLS != (scheme == "wss") || info.PeerHost != "127.0.0.1" {
				t.Errorf("%+v", info)
			}
			c.Declare("q", amqptest.Exclusive)
			c.Subscribe(1, "q", "tag", amqptest.NoAck)
			sizes := []int{0, 1, 100, 16384, 70_000, 300_000, 2 << 20}
			go func() {
				for _, n := range sizes {
					if c.Send(amqptest.AppendPublish(nil, 1, amqptest.Message{Key: "q", Body: string(randomBody(n)), FrameMax: 131072})) != nil {
						return
					}
				}
			}()
			for _, n := range sizes {
				if _, body := delivery(c); body != string(randomBody(n)) {
					t.Fatalf("of %d bytes: other ones", n)
				}
			}
			reading, stop := context.WithCancel(t.Context())
			closed := socket.ws.CloseRead(reading) // reads, so that the pong is seen
			if err := socket.ws.Ping(t.Context()); err != nil {
				t.Errorf("a ping is not answered: %v", err)
			}
			stop()
			<-closed.Done()
		})
		eventually(t, "gone", func() bool { return e.Connections() == 0 })
	}
}

// TestWebSocket_Close: connection.close is followed by a close frame, and one of
// the client's is answered.
func TestWebSocket_Close(t *testing.T) {
	ca := securetest.NewCA(t)
	e := startWeb(t, ca)
	for scheme, addr := range map[string]netip.AddrPort{"ws": e.HTTPAddr(), "wss": e.HTTPSAddr()} {
		url := scheme + "://" + addr.String()
		c := amqptest.OpenClientOn(t, dialWeb(t, url, ca, nil), amqptest.Options{})
		c.Method(0, &wire.ConnectionClose{ReplyCode: 200})
		c.Want("0 connection.close-ok")
		if _, err := c.Socket.Read(make([]byte, 1)); err != io.EOF { // normal closure
			t.Errorf("%s: %v", scheme, err)
		}
		socket := dialWeb(t, url, ca, nil)
		amqptest.OpenClientOn(t, socket, amqptest.Options{})
		if err := socket.CloseWrite(); err != nil {
			t.Errorf("%s: the close frame is not answered: %v", scheme, err)
		}
		text := dialWeb(t, url, ca, nil)
		if err := text.ws.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
			t.Fatal(err)
		}
		if _, _, err := text.ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusUnsupportedData {
			t.Errorf("%s: a text message: %v", scheme, err)
		}
	}
	eventually(t, "gone", func() bool { return e.Connections() == 0 })
}

// TestWebSocket_Early: AMQP that comes in one packet with the upgrade request.
func TestWebSocket_Early(t *testing.T) {
	e := startWeb(t, securetest.NewCA(t))
	c, err := net.Dial("tcp", e.HTTPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	hello := append([]byte{0x82, 0x88, 0, 0, 0, 0}, wire.ProtocolHeader...)
	if _, err := c.Write(append([]byte(upgrade), hello...)); err != nil {
		t.Fatal(err)
	}
	var got []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(got, []byte("en_US")) {
		n, err := c.Read(buf)
		if err != nil {
			t.Fatalf("%q, %v", got, err)
		}
		got = append(got, buf[:n]...)
	}
	if !bytes.HasPrefix(got, []byte("HTTP/1.1 101 Switching Protocols\r\n")) || !bytes.Contains(got, []byte("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n")) {
		t.Errorf("%q", got)
	}
}

// upgrade is the example of RFC 6455.
const upgrade = "GET /chat HTTP/1.1\r\nHost: server.example.com\r\nUpgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: amqp\r\nSec-WebSocket-Version: 13\r\n\r\n"

// TestWebSocket_BadRequests are answered and change nothing.
func TestWebSocket_BadRequests(t *testing.T) {
	e := startWeb(t, securetest.NewCA(t))
	for name, r := range map[string]struct{ old, new, want string }{
		"method":       {"GET", "POST", "400"},
		"version":      {"Version: 13", "Version: 8", "426"},
		"no version":   {"Sec-WebSocket-Version: 13\r\n", "", "426"},
		"key":          {"dGhlIHNhbXBsZSBub25jZQ==", "dGhl", "400"},
		"upgrade":      {"Upgrade: websocket", "Upgrade: h2c", "401"}, // an ordinary request, of nobody
		"connection":   {"Connection: keep-alive, Upgrade", "Connection: keep-alive", "400"},
		"sub-protocol": {"Protocol: amqp", "Protocol: mqtt, stomp", "400"},
		"injection":    {"Protocol: amqp", "Protocol: amqp(x)", "400"},
	} {
		c, err := net.Dial("tcp", e.HTTPAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, strings.Replace(upgrade, r.old, r.new, 1))
		buf := make([]byte, 4096)
		n, _ := c.Read(buf)
		if !strings.HasPrefix(string(buf[:n]), "HTTP/1.1 "+r.want) {
			t.Errorf("%s: %q", name, buf[:n])
		}
		c.Close()
	}
}

// TestWebSocket_Origin: a page of another site is no program of this machine,
// where the default user may come from.
func TestWebSocket_Origin(t *testing.T) {
	ca := securetest.NewCA(t)
	e := startWeb(t, ca)
	joe := addUser(t, e, "joe", access.Permissions{})
	for origin, local := range map[string]bool{
		"": true, "http://localhost:3000": true, "https://127.0.0.1": true, "http://[::1]:8080": true,
		"https://evil.example.org": false, "http://localhost.evil.example.org": false, "null": false, "http://127.0.0.1.example.org": false, "http://192.0.2.1": false,
	} {
		header := http.Header{}
		if origin != "" {
			header.Set("Origin", origin)
		}
		for user, want := range map[string]bool{"guest": local, "joe": true} {
			c := amqptest.NewClientOn(t, dialWeb(t, "ws://"+e.HTTPAddr().String(), ca, header))
			o := joe
			if user == "guest" {
				o = amqptest.Options{}
			}
			c.Write(amqptest.Handshake(o))
			c.Want(startLine)
			if got := c.Read().String() == tuneLine; got != want {
				t.Errorf("origin %q, %s: logged in %v", origin, user, got)
			}
			c.Abort()
		}
	}
}

// TestHTTPS: the API over TLS.
func TestHTTPS(t *testing.T) {
	ca := securetest.NewCA(t)
	e := startWeb(t, ca)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: ca.Pool}, DisableKeepAlives: true}}
	r, err := http.NewRequest("GET", "https://"+e.HTTPSAddr().String()+"/api/whoami", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("guest", "guest")
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || response.StatusCode != 200 || !strings.Contains(string(text), `"guest"`) {
		t.Errorf("%d %s, %v", response.StatusCode, text, err)
	}
	if response.TLS.Version != tls.VersionTLS13 || response.Header.Get("Strict-Transport-Security") == "" {
		t.Errorf("%+v", response.Header)
	}
}
