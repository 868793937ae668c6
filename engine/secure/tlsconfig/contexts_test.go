package tlsconfig

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/secure/securetest"
)

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pair is a connection that has buffers: both sides may write at the same time.
func pair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	a, err = net.Dial("tcp", l.Addr().String())
	check(t, err)
	b, err = l.Accept()
	check(t, err)
	return a, b
}

// shake makes one connection and returns both sides' view, or the first error.
func shake(t testing.TB, c *Contexts, client *tls.Config) (mine, theirs tls.ConnectionState, err error) {
	t.Helper()
	a, b := pair(t)
	defer a.Close()
	defer b.Close()
	server, done := tls.Server(b, c.Config()), make(chan error, 1)
	go func() {
		err := server.Handshake()
		if err == nil {
			_, err = server.Write([]byte("x")) // TLS 1.3 clients hear late of a refusal
		} else {
			b.Close()
		}
		done <- err
	}()
	conn := tls.Client(a, client)
	err = conn.Handshake()
	if err == nil {
		_, err = conn.Read(make([]byte, 1))
	}
	if err != nil {
		a.Close()
	}
	if serverErr := <-done; err == nil {
		err = serverErr
	}
	return conn.ConnectionState(), server.ConnectionState(), err
}

func settings(t testing.TB, dir, name string, cert tls.Certificate) Settings {
	t.Helper()
	certFile, keyFile := securetest.Write(t, dir, name, cert)
	return Settings{Host: Host{Cert: certFile, Key: keyFile}}
}

// TestKeyExchange: a hybrid with ML-KEM is negotiated by default.
func TestKeyExchange(t *testing.T) {
	ca, dir := securetest.NewCA(t), t.TempDir()
	c, err := Load(settings(t, dir, "a", ca.Certificate(t, "localhost")))
	check(t, err)
	mine, _, err := shake(t, c, &tls.Config{RootCAs: ca.Pool, ServerName: "localhost"})
	check(t, err)
	if mine.CurveID != tls.X25519MLKEM768 || mine.Version != tls.VersionTLS13 {
		t.Errorf("%v, version %x", mine.CurveID, mine.Version)
	}
}

func TestVersionsAndCiphers(t *testing.T) {
	ca, dir := securetest.NewCA(t), t.TempDir()
	s := settings(t, dir, "a", ca.Certificate(t, "localhost"))
	const suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
	s.Ciphers = []string{suite}
	c, err := Load(s)
	check(t, err)
	client := &tls.Config{RootCAs: ca.Pool, ServerName: "localhost", MaxVersion: tls.VersionTLS12}
	mine, _, err := shake(t, c, client)
	check(t, err)
	if tls.CipherSuiteName(mine.CipherSuite) != suite {
		t.Errorf("%s", tls.CipherSuiteName(mine.CipherSuite))
	}
	old := client.Clone()
	old.MinVersion, old.MaxVersion = tls.VersionTLS11, tls.VersionTLS11
	if _, _, err := shake(t, c, old); err == nil {
		t.Error("TLS 1.1 is served")
	}
	s.MinVersion = "1.3"
	check(t, c.Reload(s))
	if _, _, err := shake(t, c, client); err == nil {
		t.Error("TLS 1.2 is served below the minimum")
	}
}

// TestSNI: exact names before wildcards of one label, everything else the default.
func TestSNI(t *testing.T) {
	ca, dir := securetest.NewCA(t), t.TempDir()
	s := settings(t, dir, "default", ca.Certificate(t, "default"))
	for i, name := range []string{"mq.example.org", "*.example.org"} {
		certFile, keyFile := securetest.Write(t, dir, "sni"+string(rune('0'+i)), ca.Certificate(t, name))
		s.SNI = append(s.SNI, Host{Name: name, Cert: certFile, Key: keyFile})
	}
	c, err := Load(s)
	check(t, err)
	for asked, want := range map[string]string{
		"mq.example.org": "mq.example.org", "MQ.Example.ORG": "mq.example.org", "other.example.org": "*.example.org",
		"a.b.example.org": "default", "example.org": "default", "": "default", "default": "default",
	} {
		mine, _, err := shake(t, c, &tls.Config{InsecureSkipVerify: true, ServerName: asked})
		check(t, err)
		if got := mine.PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("%q is served as %s, want %s", asked, got, want)
		}
	}
	if certs := c.Certificates(); len(certs) != 3 || certs[0].Host != "" || certs[1].Subject != "CN=mq.example.org" || certs[2].NotAfter.IsZero() {
		t.Errorf("%+v", certs)
	}
}

// TestClientCertificates: none, optional and required.
func TestClientCertificates(t *testing.T) {
	ca, other, dir := securetest.NewCA(t), securetest.NewCA(t), t.TempDir()
	s := settings(t, dir, "a", ca.Certificate(t, "localhost"))
	s.CA = ca.WriteCA(t, dir)
	good, strange := ca.Certificate(t, "joe"), other.Certificate(t, "eve")
	for verify, want := range map[string][3]bool{ // without, with a good, with a strange one
		"none": {true, true, true}, "optional": {true, true, false}, "required": {false, true, false},
	} {
		s.VerifyPeer = verify
		c, err := Load(s)
		check(t, err)
		for i, cert := range []*tls.Certificate{nil, &good, &strange} {
			client := &tls.Config{RootCAs: ca.Pool, ServerName: "localhost"}
			if cert != nil {
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return cert, nil }
			}
			_, theirs, err := shake(t, c, client)
			if (err == nil) != want[i] {
				t.Errorf("%s, certificate %d: %v", verify, i, err)
			}
			if i == 1 && (len(theirs.VerifiedChains) > 0) != (verify != "none") {
				t.Errorf("%s: %d chains", verify, len(theirs.VerifiedChains))
			}
		}
	}
}

// TestReload swaps certificates; a bad file changes nothing.
func TestReload(t *testing.T) {
	ca, dir := securetest.NewCA(t), t.TempDir()
	s := settings(t, dir, "a", ca.Certificate(t, "first"))
	c, err := Load(s)
	check(t, err)
	serves := func(want string) {
		t.Helper()
		mine, _, err := shake(t, c, &tls.Config{InsecureSkipVerify: true})
		check(t, err)
		if got := mine.PeerCertificates[0].Subject.CommonName; got != want {
			t.Errorf("serves %s, want %s", got, want)
		}
	}
	serves("first")
	securetest.Write(t, dir, "a", ca.Certificate(t, "second"))
	serves("first")
	before := c.Files()
	check(t, c.Reload(s))
	serves("second")
	if after := c.Files(); len(after) != 2 || after[s.Cert] == before[s.Cert] || after[s.Key] == before[s.Key] {
		t.Errorf("the files were %v and are %v", before, after)
	}
	check(t, os.WriteFile(s.Key, []byte("no key"), 0o600))
	if err := c.Reload(s); err == nil || !strings.Contains(err.Error(), s.Key) {
		t.Errorf("%v", err)
	}
	serves("second")
}

// TestResumption_NeedsCertificate: a session from a host that asks for no
// certificate does not open one that requires it.
func TestResumption_NeedsCertificate(t *testing.T) {
	ca, dir := securetest.NewCA(t), t.TempDir()
	s := settings(t, dir, "a", ca.Certificate(t, "localhost", func(c *x509.Certificate) { c.DNSNames = append(c.DNSNames, "strict") }))
	s.SNI = []Host{{Name: "strict", Cert: s.Cert, Key: s.Key, CA: ca.WriteCA(t, dir), VerifyPeer: "required"}}
	c, err := Load(s)
	check(t, err)
	cache := &oneSession{}
	client := &tls.Config{RootCAs: ca.Pool, ServerName: "localhost", ClientSessionCache: cache}
	_, _, err = shake(t, c, client)
	check(t, err)
	mine, _, err := shake(t, c, client)
	check(t, err)
	if !mine.DidResume {
		t.Fatal("sessions are not resumed at all")
	}
	strict := client.Clone()
	strict.ServerName = "strict"
	if _, _, err := shake(t, c, strict); err == nil {
		t.Error("a session without a certificate opened a host that requires one")
	}
}

// oneSession offers its session to every host.
type oneSession struct{ session *tls.ClientSessionState }

func (o *oneSession) Get(string) (*tls.ClientSessionState, bool) { return o.session, o.session != nil }
func (o *oneSession) Put(_ string, s *tls.ClientSessionState) {
	if s != nil {
		o.session = s
	}
}

func TestLoad_Refuses(t *testing.T) {
	ca, dir := securetest.NewCA(t), t.TempDir()
	good := settings(t, dir, "a", ca.Certificate(t, "localhost"))
	_, foreign := securetest.Write(t, dir, "b", ca.Certificate(t, "localhost"))
	empty := filepath.Join(dir, "empty")
	check(t, os.Mkdir(empty, 0o700))
	for want, change := range map[string]func(s *Settings){
		"tls.cert is not set":                func(s *Settings) { s.Cert = "" },
		"tls.cert cannot be read":            func(s *Settings) { s.Cert = dir + "/none" },
		"tls.key cannot be read":             func(s *Settings) { s.Key = dir + "/none" },
		"cannot be used":                     func(s *Settings) { s.Key = foreign },
		"a.crt cannot be used":               func(s *Settings) { s.Key = "" }, // no key in the certificate's file
		"neither 1.2 nor 1.3":                func(s *Settings) { s.MinVersion = "1.1" },
		"'RC4' is not offered":               func(s *Settings) { s.Ciphers = []string{"RC4"} },
		"TLS_RSA_WITH_RC4_128_SHA' is not":   func(s *Settings) { s.Ciphers = []string{"TLS_RSA_WITH_RC4_128_SHA"} },
		"leave it out":                       func(s *Settings) { s.Ciphers = []string{"TLS_AES_128_GCM_SHA256"} },
		"none of none, optional":             func(s *Settings) { s.VerifyPeer = "yes" },
		"tls.ca does not say":                func(s *Settings) { s.VerifyPeer = "required" },
		"tls.ca cannot be read":              func(s *Settings) { s.VerifyPeer, s.CA = "required", dir+"/none" },
		"no certificate in " + empty:         func(s *Settings) { s.VerifyPeer, s.CA = "optional", empty },
		"no certificate in " + good.Key:      func(s *Settings) { s.VerifyPeer, s.CA = "optional", good.Key },
		"tls.sni[0].cert is not set":         func(s *Settings) { s.SNI = []Host{{Name: "a"}} },
		"tls.sni[0].host '*.*.a' is neither": func(s *Settings) { s.SNI = []Host{{Name: "*.*.a", Cert: s.Cert, Key: s.Key}} },
		"tls.sni[0].host '' is neither":      func(s *Settings) { s.SNI = []Host{{Cert: s.Cert, Key: s.Key}} },
		"'A.' is there twice": func(s *Settings) {
			s.SNI = []Host{{Name: "a", Cert: s.Cert, Key: s.Key}, {Name: "A.", Cert: s.Cert, Key: s.Key}}
		},
	} {
		s := good
		change(&s)
		if _, err := Load(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestResumption_OtherAuthority: a session that goes on counts as its client's only where the
// certificate would be taken anew: not after the authority was replaced, and not
// under another name that trusts another one, or asks for none.
func TestResumption_OtherAuthority(t *testing.T) {
	ca, other, dir := securetest.NewCA(t), securetest.NewCA(t), t.TempDir()
	otherDir := t.TempDir()
	s := settings(t, dir, "a", ca.Certificate(t, "a.test.example", func(c *x509.Certificate) { c.DNSNames = []string{"*.test.example"} }))
	s.CA, s.VerifyPeer = ca.WriteCA(t, dir), "optional"
	certFile, keyFile := s.Cert, s.Key
	s.SNI = []Host{
		{Name: "b.test.example", Cert: certFile, Key: keyFile, CA: other.WriteCA(t, otherDir), VerifyPeer: "optional"},
		{Name: "c.test.example", Cert: certFile, Key: keyFile, VerifyPeer: "none"},
	}
	c, err := Load(s)
	check(t, err)
	joe := ca.Certificate(t, "joe")
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		sessions := &oneSession{}
		connect := func(name string) (resumed, known bool) {
			t.Helper()
			client := &tls.Config{
				RootCAs: ca.Pool, ServerName: name, MaxVersion: version, ClientSessionCache: sessions,
				GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &joe, nil },
			}
			mine, theirs, err := shake(t, c, client)
			if err != nil {
				return false, false
			}
			return mine.DidResume, len(theirs.VerifiedChains) > 0
		}
		if resumed, known := connect("a.test.example"); resumed || !known {
			t.Fatalf("version %x, at first: %v, %v", version, resumed, known)
		}
		if resumed, known := connect("a.test.example"); !resumed || !known {
			t.Errorf("version %x, again: %v, %v", version, resumed, known)
		}
		first := sessions.session
		for _, name := range []string{"b.test.example", "c.test.example"} {
			sessions.session = first
			if _, known := connect(name); known {
				t.Errorf("version %x: known to %s", version, name)
			}
		}
		replaced := s
		replaced.CA = s.SNI[0].CA
		check(t, c.Reload(replaced))
		sessions.session = first
		if resumed, known := connect("a.test.example"); resumed || known {
			t.Errorf("version %x, after the authority was replaced: %v, %v", version, resumed, known)
		}
		check(t, c.Reload(s))
	}
}
