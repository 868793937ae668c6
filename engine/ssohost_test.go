package engine_test

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
	"github.com/basaltmq/basaltmq/engine/secure/sso"
)

// gatheredLog collects a log.
type gatheredLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *gatheredLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *gatheredLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ssoHost is a broker with single sign-on, as browsers see it.
type ssoHost struct {
	t      *testing.T
	engine *engine.Engine
	issuer *securetest.Issuer
	ca     *securetest.CA
	base   string
	secret string
	token  string // what the issuer gives
	log    gatheredLog
}

// startSSO runs one under http://localhost or https://localhost; the ports are the
// usual ones to browsers, whose connections go to the real ones.
func startSSO(t *testing.T, base, secret string, secretInBody bool) *ssoHost {
	h := &ssoHost{t: t, issuer: securetest.NewIssuer(t), ca: securetest.NewCA(t), base: base, secret: secret}
	h.issuer.Register(securetest.Client{ID: "broker", Secret: secret, RedirectURI: base + "/oauth/callback", SecretInBody: secretInBody}, func() string { return h.token })
	h.token = h.issuer.Token(t, "joe", "mq.tag:administrator mq.read:*/*", nil)
	any := netip.MustParseAddrPort("127.0.0.1:0")
	h.engine = start(t, secured(t, h.ca, func(s *engine.Secure) { s.HTTPS = any }), byTokens(h.issuer), func(c *engine.Config) {
		c.Logger = slog.New(slog.NewTextHandler(&h.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		c.Auth.SSO = sso.Options{ClientID: "broker", ClientSecret: secret, BaseURL: base, Scopes: []string{"openid", "profile"}}
	})
	return h
}

// browser keeps cookies and follows no redirect by itself.
func (h *ssoHost) browser() *http.Client {
	jar, err := cookiejar.New(nil)
	if err != nil {
		h.t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: h.ca.Pool}, DisableKeepAlives: true}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		switch addr {
		case "localhost:80":
			addr = h.engine.HTTPAddr().String()
		case "localhost:443":
			addr = h.engine.HTTPSAddr().String()
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	return &http.Client{Jar: jar, Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// get goes somewhere, a path of the broker or elsewhere.
func (h *ssoHost) get(b *http.Client, address string, change ...func(r *http.Request)) (response *http.Response, body string) {
	h.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = h.base + address
	}
	r, err := http.NewRequest(http.MethodGet, address, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/html,*/*;q=0.8")
	for _, f := range change {
		f(r)
	}
	response, err = b.Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return response, string(text)
}

// away goes to the issuer and returns where that sends the browser back to.
func (h *ssoHost) away(b *http.Client) *url.URL {
	h.t.Helper()
	begun, text := h.get(b, "/oauth/authorize")
	if begun.StatusCode != http.StatusSeeOther || !strings.HasPrefix(begun.Header.Get("Location"), h.issuer.URL+"/authorize?") {
		h.t.Fatalf("authorize: %s %v %s", begun.Status, begun.Header, text)
	}
	sent, text := h.get(b, begun.Header.Get("Location"))
	back, err := sent.Location()
	if err != nil {
		h.t.Fatalf("the issuer: %s %s", sent.Status, text)
	}
	return back
}

// logIn is the whole way.
func (h *ssoHost) logIn(b *http.Client) (ended *http.Response, body string) {
	h.t.Helper()
	return h.get(b, h.away(b).String())
}

func cookieOf(r *http.Response, name string) *http.Cookie {
	for _, c := range r.Cookies() {
		if c.Name == name {
			return c
		}
	}
	return &http.Cookie{}
}
