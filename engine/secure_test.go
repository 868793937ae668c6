package engine_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
	"github.com/basaltmq/basaltmq/engine/secure/tlsconfig"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// secured makes a change of configuration for TLS with files of the test's own.
func secured(t testing.TB, ca *securetest.CA, change ...func(s *engine.Secure)) func(*engine.Config) {
	t.Helper()
	certFile, keyFile := securetest.Write(t, t.TempDir(), "server", ca.Certificate(t, "localhost"))
	return func(c *engine.Config) {
		c.Secure.TLS = &tlsconfig.Settings{Host: tlsconfig.Host{Cert: certFile, Key: keyFile}}
		for _, f := range change {
			f(&c.Secure)
		}
	}
}

func dialTLS(t testing.TB, e *engine.Engine, ca *securetest.CA, change ...func(c *tls.Config)) *tls.Conn {
	t.Helper()
	config := &tls.Config{RootCAs: ca.Pool, ServerName: "localhost"}
	for _, f := range change {
		f(config)
	}
	c, err := tls.Dial("tcp", e.AMQPSAddr().String(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// theConnection is what operators see of the only connection.
func theConnection(t testing.TB, e *engine.Engine) amqp.ConnectionInfo {
	t.Helper()
	list, err := e.AMQP().Connections(context.Background())
	if err != nil || len(list) != 1 {
		t.Fatalf("%d connections, %v", len(list), err)
	}
	return list[0]
}

// TestTLS_Transfers: bodies of all sizes through both versions of TLS.
func TestTLS_Transfers(t *testing.T) {
	ca := securetest.NewCA(t)
	e := start(t, secured(t, ca))
	for name, version := range map[string]uint16{"TLSv1.2": tls.VersionTLS12, "TLSv1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			socket := dialTLS(t, e, ca, func(c *tls.Config) { c.MaxVersion = version })
			c := amqptest.OpenClientOn(t, socket, amqptest.Options{})
			info := theConnection(t, e)
			if !info.TLS || info.TLSProtocol != name || !strings.HasSuffix(info.TLSKeyExchange, "X25519MLKEM768") && version == tls.VersionTLS13 || info.TLSCipher == "" || info.TLSHash == "" || info.Protocol != "AMQP 0-9-1" {
				t.Errorf("%+v", info)
			}
			if info.Name != socket.LocalAddr().String()+" -> "+e.AMQPSAddr().String() {
				t.Errorf("named %s", info.Name)
			}
			c.Declare("q", amqptest.Exclusive)
			c.Subscribe(1, "q", "tag", amqptest.NoAck)
			go func() {
				for _, n := range []int{0, 1, 100, 16384, 70_000, 300_000, 3 << 20} {
					for range 3 {
						if c.Send(amqptest.AppendPublish(nil, 1, amqptest.Message{Key: "q", Body: string(randomBody(n)), FrameMax: 131072})) != nil {
							return
						}
					}
				}
			}()
			for _, n := range []int{0, 1, 100, 16384, 70_000, 300_000, 3 << 20} {
				for range 3 {
					if _, body := delivery(c); body != string(randomBody(n)) {
						t.Fatalf("of %d bytes: other ones", n)
					}
				}
			}
			c.Method(0, &wire.ConnectionClose{ReplyCode: 200})
			c.Want("0 connection.close-ok")
			if rest, err := io.ReadAll(socket); err != nil || len(rest) != 0 {
				t.Errorf("%d bytes, %v", len(rest), err) // close_notify, not a cut
			}
			socket.Close()
			eventually(t, "the connection is gone", func() bool { return e.Connections() == 0 })
		})
	}
}

// TestTLS_BackPressure: a client that does not read what it asked for.
func TestTLS_BackPressure(t *testing.T) {
	ca := securetest.NewCA(t)
	e := start(t, secured(t, ca))
	c := amqptest.OpenClientOn(t, dialTLS(t, e, ca), amqptest.Options{})
	c.Declare("q", amqptest.Exclusive)
	body := string(randomBody(100_000))
	const messages = 200
	for range messages {
		c.Publish(1, amqptest.Message{Key: "q", Body: body, FrameMax: 131072})
	}
	c.Sync(1)
	c.Subscribe(1, "q", "tag", amqptest.NoAck)
	// Nobody reads: what is in buffers is bounded by theirs and the socket's.
	eventually(t, "the consumer is served", func() bool {
		for _, q := range e.Broker().VHost("/").SortedQueues() {
			return q.Counts().Ready < messages
		}
		return false
	})
	if used := e.Pool().Stats().InUse; used > 64<<20 {
		t.Errorf("%d bytes of buffers", used)
	}
	for range messages {
		if _, got := delivery(c); got != body {
			t.Fatal("another body")
		}
	}
}

// TestTLS_ClientCertificate: what operators see of it.
func TestTLS_ClientCertificate(t *testing.T) {
	ca := securetest.NewCA(t)
	caFile := ca.WriteCA(t, t.TempDir())
	e := start(t, secured(t, ca, func(s *engine.Secure) { s.TLS.CA, s.TLS.VerifyPeer = caFile, "required" }))
	joe := ca.Certificate(t, "joe")
	amqptest.OpenClientOn(t, dialTLS(t, e, ca, func(c *tls.Config) { c.Certificates = []tls.Certificate{joe} }), amqptest.Options{})
	info := theConnection(t, e)
	if info.PeerCertSubject != "CN=joe" || info.PeerCertIssuer != "CN=BasaltMQ test CA,O=Test" || !strings.Contains(info.PeerCertValidity, " - 20") {
		t.Errorf("%+v", info)
	}
	without := dialTLS(t, e, ca)
	if _, err := without.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: %v", err)
	}
}

// TestTLS_Reload: new certificates for new connections; the open one goes on.
func TestTLS_Reload(t *testing.T) {
	ca, other := securetest.NewCA(t), securetest.NewCA(t)
	var settings tlsconfig.Settings
	e := start(t, secured(t, ca, func(s *engine.Secure) { settings = *s.TLS }))
	c := amqptest.OpenClientOn(t, dialTLS(t, e, ca), amqptest.Options{})
	securetest.Write(t, filepath.Dir(settings.Cert), "server", other.Certificate(t, "localhost"))
	if err := e.ReloadTLS(settings); err != nil {
		t.Fatal(err)
	}
	amqptest.OpenClientOn(t, dialTLS(t, e, other), amqptest.Options{}).Declare("x", 0)
	c.Declare("y", 0)
	if err := os.WriteFile(settings.Key, []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := e.ReloadTLS(settings); err == nil || !strings.Contains(err.Error(), settings.Key) {
		t.Errorf("a bad key: %v", err)
	}
	amqptest.OpenClientOn(t, dialTLS(t, e, other), amqptest.Options{}).Declare("z", 0)
	if certs := e.Certificates(); len(certs) != 1 || certs[0].Subject != "CN=localhost" {
		t.Errorf("%+v", certs)
	}
	if err := start(t).ReloadTLS(settings); err == nil || !strings.Contains(err.Error(), "restart") {
		t.Errorf("without TLS: %v", err)
	}
}

// TestTLS_BadClients: clients without TLS, half-finished and silent ones end in
// time; the broker stops while some are in their handshake.
func TestTLS_BadClients(t *testing.T) {
	ca := securetest.NewCA(t)
	e := start(t, secured(t, ca), func(c *engine.Config) { c.Tuning.HandshakeTimeout = 300 * time.Millisecond })
	for name, data := range map[string]string{"AMQP": "AMQP\x00\x00\x09\x01", "HTTP": "GET / HTTP/1.0\r\n\r\n", "half a hello": "\x16\x03\x01\x02\x00\x01", "nothing": ""} {
		c, err := net.Dial("tcp", e.AMQPSAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = io.WriteString(c, data)
		_ = c.SetReadDeadline(time.Now().Add(amqptest.Patience))
		if _, err := io.Copy(io.Discard, c); err != nil && !strings.Contains(err.Error(), "reset") {
			t.Errorf("%s: %v", name, err)
		}
	}
	slow := start(t, secured(t, ca), func(c *engine.Config) { c.Tuning.HandshakeTimeout = time.Hour })
	for range 3 {
		c, err := net.Dial("tcp", slow.AMQPSAddr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
}

// proxied sends a PROXY header of version 1 on a fresh connection.
func proxied(t testing.TB, addr netip.AddrPort, header string) *net.TCPConn {
	t.Helper()
	c, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if _, err := io.WriteString(c, header); err != nil {
		t.Fatal(err)
	}
	return c.(*net.TCPConn)
}

const headerOfJoe = "PROXY TCP4 203.0.113.9 198.51.100.1 4711 5672\r\n"

// TestProxy: the client is who the proxy says, to operators and to the rule that
// the default user comes from this machine.
func TestProxy(t *testing.T) {
	ca := securetest.NewCA(t)
	e := start(t, secured(t, ca), func(c *engine.Config) { c.Secure.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	joe := addUser(t, e, "joe", everything)
	t.Run("plain", func(t *testing.T) {
		c := amqptest.OpenClientOn(t, proxied(t, e.Addr(), headerOfJoe), joe)
		info := theConnection(t, e)
		if info.PeerHost != "203.0.113.9" || info.PeerPort != 4711 || info.Name != "203.0.113.9:4711 -> 198.51.100.1:5672" {
			t.Errorf("%+v", info)
		}
		c.Abort()
		eventually(t, "gone", func() bool { return e.Connections() == 0 })
	})
	t.Run("header and handshake in one", func(t *testing.T) {
		socket := proxied(t, e.Addr(), headerOfJoe+string(amqptest.Handshake(joe)))
		c := amqptest.NewClientOn(t, socket)
		c.Want(startLine, tuneLine, openOkLine)
		c.Abort()
		eventually(t, "gone", func() bool { return e.Connections() == 0 })
	})
	t.Run("TLS inside", func(t *testing.T) {
		secured := tls.Client(proxied(t, e.AMQPSAddr(), headerOfJoe), &tls.Config{RootCAs: ca.Pool, ServerName: "localhost"})
		c := amqptest.OpenClientOn(t, secured, joe)
		if info := theConnection(t, e); info.PeerHost != "203.0.113.9" || !info.TLS {
			t.Errorf("%+v", info)
		}
		c.Abort()
		eventually(t, "gone", func() bool { return e.Connections() == 0 })
	})
	t.Run("the default user from elsewhere", func(t *testing.T) {
		c := amqptest.NewClientOn(t, proxied(t, e.Addr(), headerOfJoe))
		c.Write(amqptest.Handshake(amqptest.Options{}))
		c.Want(startLine, "0 connection.close 403 *")
		c.FinishClose()
	})
	t.Run("the proxy's own check", func(t *testing.T) {
		amqptest.OpenClientOn(t, proxied(t, e.Addr(), "PROXY UNKNOWN\r\n"), amqptest.Options{}).Abort()
		eventually(t, "gone", func() bool { return e.Connections() == 0 })
	})
	t.Run("no header", func(t *testing.T) {
		socket := proxied(t, e.Addr(), "AMQP\x00\x00\x09\x01")
		if rest, _ := io.ReadAll(socket); len(rest) != 0 {
			t.Errorf("%q", rest)
		}
	})
}

// TestProxy_Untrusted: a header from elsewhere is refused, and who sends none is
// served as ever.
func TestProxy_Untrusted(t *testing.T) {
	e := start(t, func(c *engine.Config) { c.Secure.Proxies = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")} })
	amqptest.OpenClient(t, e.Addr(), amqptest.Options{}).Declare("q", 0)
	for _, addr := range []netip.AddrPort{e.Addr(), start(t).Addr()} {
		socket := proxied(t, addr, headerOfJoe+"AMQP\x00\x00\x09\x01")
		rest, _ := io.ReadAll(socket)
		if !bytes.Equal(rest, wire.ProtocolHeader) {
			t.Errorf("%q", rest)
		}
	}
}

// TestUnixSocket: AMQP over a unix socket counts as local.
func TestUnixSocket(t *testing.T) {
	dir, err := os.MkdirTemp("", "basalt") // paths of sockets are short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "amqp.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false)
	stale.Close()
	start(t, func(c *engine.Config) { c.Secure.UnixPath = path })
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info, err)
	}
	socket, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	c := amqptest.OpenClientOn(t, socket.(*net.UnixConn), amqptest.Options{})
	c.Declare("q", amqptest.Exclusive)
	c.PublishAll(1, "q", "over a unix socket")
	c.Sync(1)
	if event := c.Get(1, "q", amqptest.NoAck); string(event.Body) != "over a unix socket" {
		t.Errorf("%q", event.Body)
	}
	if _, err := engine.Start(engine.Config{DataDir: t.TempDir(), Secure: engine.Secure{UnixPath: path}}); err == nil || !strings.Contains(err.Error(), "somebody does already") {
		t.Errorf("a second listener: %v", err)
	}
}

// TestTLS_Identity: whom a certificate stands for is what the configuration makes
// of it.
func TestTLS_Identity(t *testing.T) {
	ca := securetest.NewCA(t)
	caFile := ca.WriteCA(t, t.TempDir())
	seen := make(chan string, 1)
	e := start(t, secured(t, ca, func(s *engine.Secure) {
		s.TLS.CA, s.TLS.VerifyPeer = caFile, "optional"
		s.Identify = func(c *x509.Certificate) string { seen <- c.Subject.CommonName; return "" }
	}))
	amqptest.OpenClientOn(t, dialTLS(t, e, ca), amqptest.Options{})
	joe := ca.Certificate(t, "joe")
	dialTLS(t, e, ca, func(c *tls.Config) { c.Certificates = []tls.Certificate{joe} })
	if name := <-seen; name != "joe" {
		t.Errorf("asked about %s", name)
	}
}
