package engine_test

import (
	"bufio"
	"crypto/tls"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	peer "github.com/pires/go-proxyproto"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// binaryHeaderOfJoe is a header of version 2 with a verified certificate.
func binaryHeaderOfJoe(t *testing.T) string {
	t.Helper()
	h := peer.HeaderProxyFromAddrs(2, &net.TCPAddr{IP: net.IPv4(203, 0, 113, 9), Port: 4711}, &net.TCPAddr{IP: net.IPv4(198, 51, 100, 1), Port: 15672})
	name := "joe"
	value := append([]byte{1 | 2, 0, 0, 0, 0, 0x22, 0, byte(len(name))}, name...)
	if err := h.SetTLVs([]peer.TLV{{Type: peer.PP2_TYPE_SSL, Value: value}}); err != nil {
		t.Fatal(err)
	}
	data, err := h.Format()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// askOn asks who one is over a connection; 0 if there is no answer.
func askOn(t *testing.T, c net.Conn, user, password string) (status int) {
	t.Helper()
	credentials := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	_, _ = io.WriteString(c, "GET /api/whoami HTTP/1.1\r\nHost: b\r\nConnection: close\r\nAuthorization: Basic "+credentials+"\r\n\r\n")
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0
	}
	_, _ = io.Copy(io.Discard, response.Body)
	response.Body.Close()
	return response.StatusCode
}

func behindHTTPProxy(c *engine.Config) {
	any := netip.MustParseAddrPort("127.0.0.1:0")
	c.HTTP, c.Secure.HTTPS = any, any
	c.Secure.HTTPProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// TestHTTPProxy: a client of the API is who the proxy says: the default user, who
// may come from this machine only, does not come through.
func TestHTTPProxy(t *testing.T) {
	ca := securetest.NewCA(t)
	e := start(t, secured(t, ca), behindHTTPProxy)
	addUser(t, e, "joe", everything)
	tags, err := e.Broker().SetUserTags("joe", []string{"administrator"})
	must(t, tags, err)
	for name, header := range map[string]string{"version 1": headerOfJoe, "version 2": binaryHeaderOfJoe(t)} {
		t.Run(name, func(t *testing.T) {
			plain := proxied(t, e.HTTPAddr(), header)
			if status := askOn(t, plain, "joe", "secret"); status != 200 {
				t.Errorf("joe: %d", status)
			}
			secured := tls.Client(proxied(t, e.HTTPSAddr(), header), &tls.Config{RootCAs: ca.Pool, ServerName: "localhost"})
			if status := askOn(t, secured, "guest", "guest"); status != 401 {
				t.Errorf("the default user from elsewhere: %d", status)
			}
		})
	}
	if status := askOn(t, proxied(t, e.HTTPAddr(), "PROXY UNKNOWN\r\n"), "guest", "guest"); status != 200 {
		t.Errorf("the proxy's own check: %d", status)
	}
	for name, text := range map[string]string{
		"no header": "", "another protocol": string(wire.ProtocolHeader), "rubbish": "PROXY TCP4 203.0.113.9\r\n", "an endless line": "PROXY " + strings.Repeat("x", 200),
		"a binary one": "\r\n\r\n\x00\r\nQUIT\n\x21\x12\x00\x01x",
	} {
		if status := askOn(t, proxied(t, e.HTTPAddr(), text), "joe", "secret"); status != 0 {
			t.Errorf("%s: %d", name, status)
		}
	}
}

// TestHTTPProxy_WebSocket: AMQP that comes through the API's port knows the client
// as well, and nothing of what follows the header is lost.
func TestHTTPProxy_WebSocket(t *testing.T) {
	e := start(t, secured(t, securetest.NewCA(t)), behindHTTPProxy)
	addUser(t, e, "joe", everything)
	hello := append([]byte{0x82, 0x88, 0, 0, 0, 0}, wire.ProtocolHeader...)
	// More than the HTTP server reads at once, and some AMQP behind it.
	request := strings.Replace(upgrade, "\r\n", "\r\nX-Long: "+strings.Repeat("x", 3900)+"\r\n", 1)
	c := proxied(t, e.HTTPAddr(), binaryHeaderOfJoe(t)+request+string(hello))
	reader := bufio.NewReader(c)
	response, err := http.ReadResponse(reader, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", response, err)
	}
	first := make([]byte, 32)
	if _, err := io.ReadFull(reader, first); err != nil || !strings.Contains(string(first), "\x01\x00\x00") {
		t.Fatalf("%q, %v", first, err)
	}
	if info := theConnection(t, e); info.PeerHost != "203.0.113.9" || info.PeerPort != 4711 || info.Protocol != "Web AMQP 0-9-1" {
		t.Errorf("%+v", info)
	}
}

// TestHTTPProxy_Untrusted: a header from elsewhere is no HTTP, and who sends none
// is served as ever.
func TestHTTPProxy_Untrusted(t *testing.T) {
	e := start(t, func(c *engine.Config) {
		c.HTTP = netip.MustParseAddrPort("127.0.0.1:0")
		c.Secure.HTTPProxies = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}
	})
	if status := askOn(t, proxied(t, e.HTTPAddr(), ""), "guest", "guest"); status != 200 {
		t.Errorf("without a header: %d", status)
	}
	for _, header := range []string{headerOfJoe, binaryHeaderOfJoe(t)} {
		if status := askOn(t, proxied(t, e.HTTPAddr(), header), "guest", "guest"); status != 400 && status != 0 {
			t.Errorf("%q: %d", header, status)
		}
	}
	amqptest.OpenClient(t, e.Addr(), amqptest.Options{}).Abort() // the AMQP port has its own rule
}

// TestHTTPProxy_Slow: a header that does not come is not waited for for ever, and
// others are served meanwhile.
func TestHTTPProxy_Slow(t *testing.T) {
	e := start(t, func(c *engine.Config) {
		behindHTTPProxy(c)
		c.Tuning.HandshakeTimeout = time.Second
	})
	slow := proxied(t, e.HTTPAddr(), "PROXY TCP4 203.0")
	eventually(t, "others are served", func() bool { // who is slow just now may try again
		return askOn(t, proxied(t, e.HTTPAddr(), "PROXY UNKNOWN\r\n"), "guest", "guest") == 200
	})
	if rest, err := io.ReadAll(slow); len(rest) != 0 || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
	// And a stop does not wait for one: the test's end stops the broker.
	proxied(t, e.HTTPAddr(), "PROXY ")
}
