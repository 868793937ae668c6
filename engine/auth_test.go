package engine_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/xdg-go/scram"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/secure/identity"
	"github.com/basaltmq/basaltmq/engine/secure/oauth2"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// scramLogin logs in with another implementation's client; it returns the
// conversation after the last thing that the broker said.
func scramLogin(t *testing.T, e *engine.Engine, user, password string) (*amqptest.Client, *scram.ClientConversation, amqptest.Event) {
	t.Helper()
	client, err := scram.SHA256.NewClient(user, password, "")
	if err != nil {
		t.Fatal(err)
	}
	talk := client.NewConversation()
	message, err := talk.Step("")
	if err != nil {
		t.Fatal(err)
	}
	c := amqptest.NewClient(t, e.Addr())
	c.Write(wire.ProtocolHeader)
	if m := amqptest.Expect[*wire.ConnectionStart](c).Method.(*wire.ConnectionStart); !strings.Contains(" "+string(m.Mechanisms)+" ", " SCRAM-SHA-256 ") {
		t.Fatalf("offers %q", m.Mechanisms)
	}
	ok := amqptest.StartOk(amqptest.Options{})
	ok.Mechanism, ok.Response = []byte("SCRAM-SHA-256"), []byte(message)
	c.Method(0, ok)
	for {
		event := c.Read()
		challenge, isChallenge := event.Method.(*wire.ConnectionSecure)
		if !isChallenge {
			return c, talk, event
		}
		if message, err = talk.Step(string(challenge.Challenge)); err != nil {
			t.Fatal(err)
		}
		c.Method(0, &wire.ConnectionSecureOk{Response: []byte(message)})
	}
}

const scramRefused = "0 connection.close 403 (0,0) ACCESS_REFUSED - Login was refused using authentication mechanism SCRAM-SHA-256. For details see the broker logfile."

// TestScram logs in with the client of another implementation.
func TestScram(t *testing.T) {
	dir := t.TempDir()
	change := func(c *engine.Config) {
		c.DataDir, c.Auth.Mechanisms = dir, []string{"PLAIN", "SCRAM-SHA-256"}
	}
	e, err := engine.Start(engine.Config{DataDir: dir, Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	addUser(t, e, "a,b=c", everything)
	addUser(t, e, "jörg", everything)
	seq, err := e.Broker().SetPassword("jörg", "pässwörd €")
	must(t, seq, err)
	seq, err = e.Broker().AddUser(access.Spec{Name: "imported", Password: access.Hash{Algorithm: access.SHA256, Text: "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"}})
	must(t, seq, err)
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	e = start(t, change) // the credentials are durable
	for user, password := range map[string]string{"guest": "guest", "a,b=c": "secret", "jörg": "pässwörd €"} {
		c, talk, event := scramLogin(t, e, user, password)
		if event.String() != tuneLine || !talk.Valid() {
			t.Errorf("%s: %s, valid %v", user, event, talk.Valid())
		}
		c.Method(0, &wire.ConnectionTuneOk{})
		c.Method(0, &wire.ConnectionOpen{VirtualHost: []byte("/")})
		c.Want(openOkLine)
		if info := theConnection(t, e); info.User != user {
			t.Errorf("logged in as %s", info.User)
		}
		c.Abort()
		eventually(t, "gone", func() bool { return e.Connections() == 0 })
	}
	// A name and a password are the same however they are written: as SASLprep has
	// them the client sends them, PLAIN as it likes.
	if _, talk, event := scramLogin(t, e, "jo\u0308rg", "pa\u0308sswo\u0308rd\u00a0€"); event.String() != tuneLine || !talk.Valid() {
		t.Errorf("decomposed: %s", event)
	}
	for _, name := range []string{"jo\u0308rg", "jörg", "jo\u00ad\u0308rg"} {
		amqptest.OpenClient(t, e.Addr(), amqptest.Options{User: name, Password: "pa\u0308sswörd €"}).Abort()
	}
	for user, password := range map[string]string{"guest": "wrong", "nobody": "guest", "imported": "test12"} {
		c, talk, event := scramLogin(t, e, user, password)
		if event.String() != scramRefused || talk.Valid() {
			t.Errorf("%s: %s", user, event)
		}
		c.FinishClose()
	}
	must(t, 0, nil)
	seq, err = e.Broker().SetPassword("imported", "test12")
	must(t, seq, err)
	if _, talk, event := scramLogin(t, e, "imported", "test12"); event.String() != tuneLine || !talk.Valid() {
		t.Errorf("after the password was set: %s", event)
	}
}

// TestScram_BadMessages: what clients may say wrongly, and in the wrong order.
func TestScram_BadMessages(t *testing.T) {
	e := start(t, func(c *engine.Config) { c.Auth.Mechanisms = []string{"SCRAM-SHA-256"} })
	begin := func(t *testing.T, response string) *amqptest.Client {
		c := amqptest.NewClient(t, e.Addr())
		c.Write(wire.ProtocolHeader)
		ok := amqptest.StartOk(amqptest.Options{})
		ok.Mechanism, ok.Response = []byte("SCRAM-SHA-256"), []byte(response)
		c.Method(0, ok)
		c.Want(startLine)
		return c
	}
	for _, first := range []string{"", "n", "n,", "n,,", "n,,n=guest", "n,,n=guest,r=", "p=tls-unique,,n=guest,r=x", "n,a=root,n=guest,r=x", "n,,m=x,n=guest,r=x", "n,,n=gu=3est,r=x", "n,,n==,r=x", strings.Repeat("n", 3000)} {
		begin(t, first).Want(scramRefused)
	}
	for _, final := range []string{"", "c=biws", "c=biws,r=x", "c=biws,r=x,p=AAAA", "c=biws,r=x,p=" + strings.Repeat("A", 43) + "=", "c=eSws,p=x", ",p="} {
		c := begin(t, "n,,n=guest,r=x")
		c.Want("0 connection.secure*")
		c.Method(0, &wire.ConnectionSecureOk{Response: []byte(final)})
		c.Want(scramRefused)
	}
	c := begin(t, "n,,n=guest,r=x")
	c.Want("0 connection.secure*")
	c.Method(0, amqptest.StartOk(amqptest.Options{}))
	c.Want("0 connection.close 504 (10,11) *")
	c = amqptest.NewClient(t, e.Addr())
	c.Write(wire.ProtocolHeader)
	c.Method(0, &wire.ConnectionSecureOk{})
	c.Want(startLine, "0 connection.close 504 (10,21) *")
}

// TestExternal: the certificate says who it is.
func TestExternal(t *testing.T) {
	ca := securetest.NewCA(t)
	caFile := ca.WriteCA(t, t.TempDir())
	fromCN, err := identity.UserFrom("cn")
	if err != nil {
		t.Fatal(err)
	}
	e := start(t, secured(t, ca, func(s *engine.Secure) {
		s.TLS.CA, s.TLS.VerifyPeer, s.Identify = caFile, "optional", fromCN
	}), func(c *engine.Config) { c.Auth.Mechanisms = []string{"EXTERNAL", "PLAIN"} })
	seq, err := e.Broker().AddUser(access.Spec{Name: "joe"}) // no password
	must(t, seq, err)
	seq, err = e.Broker().SetPermissions("joe", "/", everything)
	must(t, seq, err)
	connect := func(name string) *amqptest.Client {
		c := amqptest.NewClientOn(t, dialTLS(t, e, ca, func(c *tls.Config) {
			if name != "" {
				c.Certificates = []tls.Certificate{ca.Certificate(t, name)}
			}
		}))
		c.Write(wire.ProtocolHeader)
		return c
	}
	offers := func(c *amqptest.Client, want string) {
		t.Helper()
		if m := amqptest.Expect[*wire.ConnectionStart](c).Method.(*wire.ConnectionStart); string(m.Mechanisms) != want {
			t.Fatalf("offers %q, want %q", m.Mechanisms, want)
		}
	}
	external := func(response string) *wire.ConnectionStartOk {
		ok := amqptest.StartOk(amqptest.Options{})
		ok.Mechanism, ok.Response = []byte("EXTERNAL"), []byte(response)
		return ok
	}
	for _, response := range []string{"", "joe"} {
		c := connect("joe")
		offers(c, "EXTERNAL PLAIN")
		c.Method(0, external(response))
		c.Method(0, &wire.ConnectionTuneOk{})
		c.Method(0, &wire.ConnectionOpen{VirtualHost: []byte("/")})
		c.Want(tuneLine, openOkLine)
		if info := theConnection(t, e); info.User != "joe" {
			t.Errorf("logged in as %s", info.User)
		}
		c.Abort()
		eventually(t, "gone", func() bool { return e.Connections() == 0 })
	}
	const refused = "0 connection.close 403 (0,0) ACCESS_REFUSED - Login was refused using authentication mechanism EXTERNAL. For details see the broker logfile."
	c := connect("joe")
	offers(c, "EXTERNAL PLAIN")
	c.Method(0, external("guest"))
	c.Want(refused)
	c = connect("nobody")
	offers(c, "EXTERNAL PLAIN")
	c.Method(0, external(""))
	c.Want(refused)
	c = connect("")
	offers(c, "PLAIN")
	c.Method(0, external(""))
	c.Want("0 connection.close 503 *")
}

// TestLockout: guessing passwords from one address ends the logins from there,
// good ones too, and from nowhere else.
func TestLockout(t *testing.T) {
	e := start(t, func(c *engine.Config) {
		c.Secure.Proxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
		c.Auth.LockoutFailures, c.Auth.LockoutTime = 3, time.Hour
	})
	joe := addUser(t, e, "joe", everything)
	try := func(addr, password string) bool {
		c := amqptest.NewClientOn(t, proxied(t, e.Addr(), "PROXY TCP4 "+addr+" 198.51.100.1 4711 5672\r\n"))
		o := joe
		o.Password = password
		c.Write(amqptest.Handshake(o))
		c.Want(startLine)
		good := c.Read().String() == tuneLine
		c.Abort()
		return good
	}
	for i := range 3 {
		if !try("203.0.113.9", "secret") || try("203.0.113.9", fmt.Sprint("guess", i)) {
			t.Fatal("before there were three")
		}
	}
	if try("203.0.113.9", "secret") {
		t.Error("not locked")
	}
	if !try("203.0.113.10", "secret") {
		t.Error("another address is locked")
	}
	for i := range 10 {
		if try("127.0.0.1", fmt.Sprint("guess", i)) {
			t.Error("a guess was good")
		}
	}
	if !try("127.0.0.1", "secret") {
		t.Error("this machine is locked")
	}
	if err := e.Reload(engine.Config{}); err != nil { // without a lockout
		t.Fatal(err)
	}
	for i := range 10 {
		try("203.0.113.11", fmt.Sprint("guess", i))
	}
	if !try("203.0.113.11", "secret") {
		t.Error("locked while it is off")
	}
}

// byTokens makes a change of configuration for tokens of an issuer, beside users.
func byTokens(i *securetest.Issuer) func(c *engine.Config) {
	return func(c *engine.Config) {
		c.Auth.Backends = []string{"local", "oauth2"}
		c.Auth.OAuth2 = oauth2.Options{Issuer: i.URL, ResourceServerID: "mq", VerifyAudience: true, PreferredUsernameClaims: []string{"sub"}, CacheTTL: time.Hour}
		c.HTTP = netip.MustParseAddrPort("127.0.0.1:0")
	}
}

// TestOAuth2: a token in the place of the password, with what its scopes allow.
func TestOAuth2(t *testing.T) {
	i := securetest.NewIssuer(t)
	e := start(t, byTokens(i))
	amqptest.OpenClient(t, e.Addr(), amqptest.Options{}).Abort() // local users, too
	eventually(t, "gone", func() bool { return e.Connections() == 0 })
	o := amqptest.Options{User: "whatever", Password: i.Token(t, "joe", "mq.configure:%2F/mine-* mq.read:*/mine-* mq.write:%2F/amq.default", nil)}
	c := amqptest.OpenClient(t, e.Addr(), o)
	if info := theConnection(t, e); info.User != "joe" {
		t.Errorf("logged in as %s", info.User)
	}
	c.Declare("mine-q", amqptest.Exclusive)
	c.PublishAll(1, "mine-q", "x")
	c.Sync(1)
	if event := c.Get(1, "mine-q", amqptest.NoAck); string(event.Body) != "x" {
		t.Errorf("%q", event.Body)
	}
	c.Method(1, c.QueueDeclare("yours", 0, nil))
	c.Want("1 channel.close 403 (50,10) ACCESS_REFUSED - configure access to queue 'yours' in vhost '/' refused for user 'joe'")
	refusedLogin(t, e, amqptest.Options{User: "joe", Password: i.Token(t, "joe", "mq.read:*/*", map[string]any{"aud": "other"})})
	refusedLogin(t, e, amqptest.Options{User: "joe", Password: "a.b.c"})
	none := amqptest.NewClient(t, e.Addr())
	none.Write(amqptest.Handshake(amqptest.Options{User: "joe", Password: i.Token(t, "joe", "mq.read:other/*", nil)}))
	none.Want(startLine, tuneLine, "0 connection.close 530 (10,40) NOT_ALLOWED - access to vhost '/' refused for user 'joe'")
}

// TestOAuth2_Renew: connection.update-secret puts another token in place, with
// other permissions and another end; then the connection ends with it.
func TestOAuth2_Renew(t *testing.T) {
	i := securetest.NewIssuer(t)
	e := start(t, byTokens(i))
	const publishOnly = "mq.configure:*/* mq.write:*/*"
	var c *amqptest.Client
	renew := func(token string) {
		c.Method(0, &wire.ConnectionUpdateSecret{NewSecret: []byte(token), Reason: []byte("test")})
	}
	begin := func() {
		c = amqptest.OpenClient(t, e.Addr(), amqptest.Options{User: "token", Password: i.Token(t, "joe", publishOnly+" mq.read:*/*", nil)})
	}
	begin()
	c.Declare("q", 0)
	c.PublishAll(1, "q", "1", "2") // the route is cached with its permission
	c.Get(1, "q", amqptest.NoAck)
	renew(i.Token(t, "joe", "mq.configure:*/*", nil))
	c.Want("0 connection.update-secret-ok")
	c.Publish(1, amqptest.Message{Key: "q", Body: "3"})
	c.Want("1 channel.close 403 (60,40) ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'joe'")
	c.Abort()
	for life := 2 * time.Second; ; life *= 2 { // on a busy machine a token may be too old when it comes
		begin()
		renew(i.Token(t, "joe", publishOnly, map[string]any{"exp": time.Now().Add(life).Unix()}))
		if _, ok := c.Read().Method.(*wire.ConnectionUpdateSecretOk); ok {
			break
		}
		c.FinishClose()
	}
	c.Want("0 connection.close 320 (0,0) CONNECTION_FORCED - the token of user 'joe' has expired")
	c.FinishClose()

	for name, token := range map[string]string{"rubbish": "rubbish", "another user's": i.Token(t, "eve", publishOnly, nil), "expired": i.Token(t, "joe", publishOnly, map[string]any{"exp": 1})} {
		c = amqptest.OpenClient(t, e.Addr(), amqptest.Options{User: "token", Password: i.Token(t, "joe", publishOnly, nil)})
		renew(token)
		if line := c.Read().String(); !strings.HasPrefix(line, "0 connection.close 403 (10,70)") {
			t.Errorf("%s: %s", name, line)
		}
		c.FinishClose()
	}
	local := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	local.Method(0, &wire.ConnectionUpdateSecret{NewSecret: []byte("x")})
	local.Want("0 connection.update-secret-ok")
}

// TestOAuth2_HTTP: tokens at the API, as Bearer and as the password of Basic.
func TestOAuth2_HTTP(t *testing.T) {
	i := securetest.NewIssuer(t)
	e := start(t, byTokens(i))
	get := func(set func(r *http.Request)) (int, string) {
		r, err := http.NewRequest("GET", "http://"+e.HTTPAddr().String()+"/api/whoami", nil)
		if err != nil {
			t.Fatal(err)
		}
		set(r)
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		text, _ := io.ReadAll(response.Body)
		return response.StatusCode, string(text)
	}
	token := i.Token(t, "joe", "mq.tag:monitoring", nil)
	for name, set := range map[string]func(r *http.Request){
		"bearer": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) },
		"basic":  func(r *http.Request) { r.SetBasicAuth("any", token) },
	} {
		if status, text := get(set); status != 200 || !strings.Contains(text, `"joe"`) || !strings.Contains(text, `"monitoring"`) {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
	for name, value := range map[string]string{"no tags": "Bearer " + i.Token(t, "joe", "mq.read:*/*", nil), "rubbish": "Bearer x.y.z", "empty": "Bearer "} {
		if status, _ := get(func(r *http.Request) { r.Header.Set("Authorization", value) }); status != 401 {
			t.Errorf("%s: %d", name, status)
		}
	}
}

// TestAuth_Refuses: a configuration that makes no sense.
func TestAuth_Refuses(t *testing.T) {
	for want, auth := range map[string]engine.Auth{
		"no backend 'ldap'":        {Backends: []string{"ldap"}},
		"no mechanism 'ANONYMOUS'": {Mechanisms: []string{"ANONYMOUS"}},
		"neither issuer":           {Backends: []string{"oauth2"}},
	} {
		if _, err := engine.Start(engine.Config{DataDir: t.TempDir(), Auth: auth}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
