package sso

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/engine/secure/identity"
	"github.com/basaltmq/basaltmq/engine/secure/oauth2"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
	"github.com/basaltmq/basaltmq/engine/stats"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newSSO makes one whose issuer gives tokens of joe, and a handler of its routes.
func newSSO(t *testing.T, change ...func(o *Options)) (*SSO, http.Handler) {
	t.Helper()
	issuer := securetest.NewIssuer(t)
	issuer.Register(securetest.Client{ID: "broker", RedirectURI: "https://mq.example.org/oauth/callback"}, func() string { return issuer.Token(t, "joe", "mq.tag:management", nil) })
	backend, err := oauth2.New(oauth2.Options{Issuer: issuer.URL, ResourceServerID: "mq", VerifyAudience: true, PreferredUsernameClaims: []string{"sub"}, CacheTTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(backend.Close)
	o := Options{ClientID: "broker", BaseURL: "https://mq.example.org/", Backend: backend, Attempts: new(stats.Attempts)}
	for _, f := range change {
		f(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	for _, r := range s.Routes() {
		mux.Handle(r.Pattern, r.Handler)
	}
	return s, mux
}

func ask(h http.Handler, target string, cookies ...*http.Cookie) *http.Response {
	r := httptest.NewRequest("GET", target, nil)
	r.RemoteAddr = "203.0.113.9:4711"
	r.Header.Set("Accept", "text/html")
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

// begin begins a login; it returns the cookie and the state.
func begin(t *testing.T, h http.Handler) (*http.Cookie, string) {
	t.Helper()
	begun := ask(h, "/oauth/authorize")
	target, err := begun.Location()
	if err != nil || len(begun.Cookies()) != 1 {
		t.Fatalf("%+v, %v", begun, err)
	}
	return begun.Cookies()[0], target.Query().Get("state")
}

func callback(state, code string) string {
	return "/oauth/callback?" + url.Values{"state": {state}, "code": {code}}.Encode()
}

// TestCallback_Expired: who takes too long begins anew, whatever his browser keeps.
func TestCallback_Expired(t *testing.T) {
	s, h := newSSO(t)
	now := time.Now()
	s.now = func() time.Time { return now }
	cookie, state := begin(t, h)
	now = now.Add(stateTime - time.Second)
	if r := ask(h, callback(state, "unknown"), cookie); r.StatusCode != http.StatusUnauthorized { // in time, and refused by the issuer
		t.Errorf("in time: %s", r.Status)
	}
	cookie, state = begin(t, h)
	now = now.Add(stateTime)
	if r := ask(h, callback(state, "unknown"), cookie); r.StatusCode != http.StatusBadRequest {
		t.Errorf("late: %s", r.Status)
	}
	other, h2 := newSSO(t) // as after a restart: another key
	other.now = func() time.Time { return now }
	cookie, state = begin(t, h)
	if r := ask(h2, callback(state, "unknown"), cookie); r.StatusCode != http.StatusBadRequest {
		t.Errorf("another process's: %s", r.Status)
	}
}

// TestCallback_Lockout: whoever sends wrong codes is locked out, and counted.
func TestCallback_Lockout(t *testing.T) {
	lockout := identity.NewLockout(3, time.Minute, slog.New(slog.DiscardHandler))
	s, h := newSSO(t, func(o *Options) { o.Lockout = lockout })
	for i := range 3 {
		cookie, state := begin(t, h)
		if r := ask(h, callback(state, "guess"), cookie); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%d: %s", i, r.Status)
		}
	}
	cookie, state := begin(t, h)
	if r := ask(h, callback(state, "guess"), cookie); r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("locked: %s", r.Status)
	}
	if !lockout.Locked(netip.MustParseAddr("203.0.113.9")) {
		t.Error("not locked")
	}
	if got := s.Attempts.BySource(); len(got) != 1 || got[0].Failed != 3 || got[0].Remote != "203.0.113.9" {
		t.Errorf("%+v", got)
	}
}

// TestCallback_Bounded: there is room for so many logins at a time.
func TestCallback_Bounded(t *testing.T) {
	s, h := newSSO(t)
	for range exchangesMax {
		s.exchanges <- struct{}{}
	}
	cookie, state := begin(t, h)
	if r := ask(h, callback(state, "x"), cookie); r.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("%s", r.Status)
	}
	var u usedStates
	now := time.Now()
	for i := range usedMax {
		if fresh, full := u.use(strings.Repeat("x", i), now); !fresh || full {
			t.Fatalf("%d: %v, %v", i, fresh, full)
		}
	}
	if fresh, full := u.use("x", now); fresh || full {
		t.Error("used twice")
	}
	if _, full := u.use("one more", now); !full {
		t.Error("more than there is room for")
	}
	if fresh, full := u.use("one more", now.Add(stateTime)); !fresh || full || len(u.until) != 1 {
		t.Errorf("the old ones are kept: %v, %v, %d", fresh, full, len(u.until))
	}
}

// TestToken_Pieces: a token of any length that cookies take comes back, and what
// is left of a longer one before does not spoil it.
func TestToken_Pieces(t *testing.T) {
	s, _ := newSSO(t)
	browser := map[string]*http.Cookie{}
	for _, n := range []int{1, pieceBytesMax, piecesMax * pieceBytesMax, pieceBytesMax + 1, 5, 0} {
		w := httptest.NewRecorder()
		want := strings.Repeat("t", n)
		if err := s.setToken(w, want, time.Minute); err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest("GET", "/", nil)
		for _, c := range w.Result().Cookies() {
			if browser[c.Name] = c; c.MaxAge < 0 {
				delete(browser, c.Name)
			}
			if !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || len(c.String()) > 4096 {
				t.Errorf("%s", c)
			}
		}
		for _, c := range browser {
			r.AddCookie(c)
		}
		if got, ok := s.Token(r); string(got) != want || ok != (n > 0) {
			t.Errorf("of %d bytes: %d", n, len(got))
		}
	}
	if err := s.setToken(httptest.NewRecorder(), strings.Repeat("t", piecesMax*pieceBytesMax+1), time.Minute); err == nil {
		t.Error("one that is too long")
	}
	if _, ok := (*SSO)(nil).Token(httptest.NewRequest("GET", "/", nil)); ok {
		t.Error("without single sign-on")
	}
}

// FuzzOpen: no cookie is taken but those that were made, unchanged.
func FuzzOpen(f *testing.F) {
	s := newSealer()
	now := time.Now()
	made, cookie := s.begin(now)
	f.Add(cookie)
	f.Add(cookie[:len(cookie)-1])
	f.Add("")
	f.Add("AAAA")
	if p, ok := s.open(cookie, now); !ok || p != made {
		f.Fatal("its own is refused")
	}
	f.Fuzz(func(t *testing.T, text string) {
		if p, ok := s.open(text, now); ok && (text != cookie || p != made) {
			t.Fatalf("%q is taken", text)
		}
	})
}
