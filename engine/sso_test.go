package engine_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
	"github.com/basaltmq/basaltmq/engine/secure/sso"
)

// TestSSO: there, back, in, and out again, by http and by https.
func TestSSO(t *testing.T) {
	for base, prefix := range map[string]string{"http://localhost": "", "https://localhost": "__Host-"} {
		t.Run(base, func(t *testing.T) {
			h := startSSO(t, base, "", false)
			b := h.browser()
			begun, _ := h.get(b, "/oauth/authorize")
			state := cookieOf(begun, prefix+"oauth_state")
			if !state.HttpOnly || state.SameSite != http.SameSiteLaxMode || state.MaxAge != 300 || state.Secure != (prefix != "") || begun.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%+v, %+v", state, begun.Header)
			}
			back := h.away(b) // begun anew: the last counts
			ended, text := h.get(b, back.String())
			if ended.StatusCode != http.StatusSeeOther || ended.Header.Get("Location") != base+"/" {
				t.Fatalf("%s %v %s", ended.Status, ended.Header, text)
			}
			token := cookieOf(ended, prefix+"oauth_token")
			if !token.HttpOnly || token.SameSite != http.SameSiteStrictMode || token.Secure != (prefix != "") || token.MaxAge < 3500 || token.MaxAge > 3600 || token.Path != "/" || token.Value != h.token {
				t.Errorf("%+v", token)
			}
			if gone := cookieOf(ended, prefix+"oauth_state"); gone.MaxAge != -1 || gone.Value != "" {
				t.Errorf("the state stays: %+v", gone)
			}
			if r, text := h.get(b, "/api/whoami"); r.StatusCode != 200 || text != `{"name":"joe","tags":["administrator"]}`+"\n" {
				t.Errorf("%s %s", r.Status, text)
			}
			if r, text := h.get(b, back.String()); r.StatusCode != http.StatusBadRequest || !strings.Contains(text, "has not begun") {
				t.Errorf("replayed: %s %s", r.Status, text)
			}
			for site, status := range map[string]int{"cross-site": 403, "same-site": 403, "same-origin": 201} {
				r, text := h.get(b, "/api/vhosts/"+site, func(r *http.Request) { r.Method = http.MethodPut; r.Header.Set("Sec-Fetch-Site", site) })
				if r.StatusCode != status {
					t.Errorf("a change from %s: %s %s", site, r.Status, text)
				}
			}
			if out, _ := h.get(b, "/oauth/logout"); out.StatusCode != http.StatusSeeOther || out.Header.Get("Location") != base+"/" {
				t.Errorf("%s %v", out.Status, out.Header)
			}
			if r, _ := h.get(b, "/api/whoami"); r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("after that: %s %v", r.Status, r.Header)
			}
			for _, secret := range []string{back.Query().Get("code"), h.token, state.Value} {
				if strings.Contains(h.log.String(), secret) {
					t.Errorf("the log has %q", secret)
				}
			}
			if !strings.Contains(h.log.String(), "logged in by single sign-on") {
				t.Errorf("the log does not tell:\n%s", &h.log)
			}
		})
	}
}

// TestSSO_Token: what the issuer gives is looked at as any token.
func TestSSO_Token(t *testing.T) {
	h := startSSO(t, "http://localhost", "", false)
	good := "mq.tag:monitoring"
	for name, c := range map[string]struct {
		token  string
		status int
	}{
		"good":             {h.issuer.Token(t, "joe", good, nil), 303},
		"in pieces":        {h.issuer.Token(t, "joe", good, map[string]any{"pad": strings.Repeat("x", 6000)}), 303},
		"too long":         {h.issuer.Token(t, "joe", good, map[string]any{"pad": strings.Repeat("x", 12000)}), 502},
		"expired":          {h.issuer.Token(t, "joe", good, map[string]any{"exp": 1}), 401},
		"for another":      {h.issuer.Token(t, "joe", good, map[string]any{"aud": "other"}), 401},
		"another issuer's": {securetest.NewIssuer(t).Token(t, "joe", good, map[string]any{"iss": h.issuer.URL}), 401},
		"without a tag":    {h.issuer.Token(t, "joe", "mq.read:*/*", nil), 401},
		"no token":         {"opaque", 401},
		"rubbish":          {"a; b", 502},
		"none":             {"", 502},
	} {
		h.token = c.token
		b := h.browser()
		ended, text := h.logIn(b)
		if ended.StatusCode != c.status {
			t.Errorf("%s: %s %s", name, ended.Status, text)
		}
		want := 401
		if c.status == 303 {
			want = 200
		}
		if r, text := h.get(b, "/api/whoami"); r.StatusCode != want {
			t.Errorf("%s: then %s %s", name, r.Status, text)
		}
	}
	// A login that is over has the browser ask nobody for a password.
	b := h.browser()
	r, text := h.get(b, "/api/whoami", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "oauth_token", Value: "a.b.c"}) })
	if r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") != "" || !strings.Contains(text, "Login failed") {
		t.Errorf("%s %v %s", r.Status, r.Header, text)
	}
	// What a request says itself counts.
	r, _ = h.get(b, "/api/whoami", func(r *http.Request) {
		r.SetBasicAuth("guest", "guest")
		r.AddCookie(&http.Cookie{Name: "oauth_token", Value: "a.b.c"})
	})
	if r.StatusCode != 200 {
		t.Errorf("Basic beside an old cookie: %s", r.Status)
	}
}

// TestSSO_Callback: what a callback may lack or have wrong; none of it reaches the
// issuer.
func TestSSO_Callback(t *testing.T) {
	h := startSSO(t, "http://localhost", "", false)
	for name, c := range map[string]struct {
		change func(q url.Values)
		status int
		reason string
	}{
		"another state":     {func(q url.Values) { q.Set("state", strings.Repeat("A", 43)) }, 400, "state is not"},
		"no state":          {func(q url.Values) { q.Del("state") }, 400, "state is not"},
		"no code":           {func(q url.Values) { q.Del("code") }, 400, "no code"},
		"a long code":       {func(q url.Values) { q.Set("code", strings.Repeat("A", 5000)) }, 400, "too long"},
		"another issuer":    {func(q url.Values) { q.Set("iss", "https://evil.example.org") }, 400, "another issuer's"},
		"denied":            {func(q url.Values) { q.Set("error", "access_denied") }, 401, "the issuer refuses: access_denied"},
		"denied, with an é": {func(q url.Values) { q.Set("error", "<script>\né") }, 401, "the issuer refuses: <script>??"},
	} {
		b := h.browser()
		back := h.away(b)
		q := back.Query()
		c.change(q)
		back.RawQuery = q.Encode()
		r, text := h.get(b, back.String())
		var answer struct{ Reason string }
		if err := json.Unmarshal([]byte(text), &answer); err != nil || r.StatusCode != c.status || !strings.Contains(answer.Reason, c.reason) || r.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s %s", name, r.Status, text)
		}
	}
	// In another browser: somebody else's login is not ours.
	if r, text := h.get(h.browser(), h.away(h.browser()).String()); r.StatusCode != 400 || !strings.Contains(text, "has not begun") {
		t.Errorf("another browser: %s %s", r.Status, text)
	}
	b := h.browser()
	back := h.away(b)
	forged := func(r *http.Request) {
		r.Header.Del("Cookie")
		r.AddCookie(&http.Cookie{Name: "oauth_state", Value: strings.Repeat("A", 134)})
	}
	if r, text := h.get(h.browser(), back.String(), forged); r.StatusCode != 400 || !strings.Contains(text, "state is not") {
		t.Errorf("a forged cookie: %s %s", r.Status, text)
	}
	if n := h.issuer.Asked("/token"); n != 0 {
		t.Errorf("the issuer was asked for %d tokens", n)
	}
	// The same once more, with the cookie that the browser should have forgotten.
	kept := b.Jar.Cookies(&url.URL{Scheme: "http", Host: "localhost", Path: "/"})
	again := func(r *http.Request) {
		for _, c := range kept {
			r.AddCookie(c)
		}
	}
	if r, text := h.get(b, back.String()); r.StatusCode != 303 {
		t.Errorf("%s %s", r.Status, text)
	}
	if r, text := h.get(h.browser(), back.String(), again); r.StatusCode != 400 || !strings.Contains(text, "ended already") {
		t.Errorf("replayed: %s %s", r.Status, text)
	}
	// A code that the issuer does not know.
	b = h.browser()
	back = h.away(b)
	q := back.Query()
	q.Set("code", "guessed")
	back.RawQuery = q.Encode()
	if r, text := h.get(b, back.String()); r.StatusCode != 401 || !strings.Contains(text, "Login failed") {
		t.Errorf("a guessed code: %s %s", r.Status, text)
	}
	if n := h.issuer.Asked("/token"); n != 2 {
		t.Errorf("the issuer was asked for %d tokens", n)
	}
}

// TestSSO_Secret: a secret with anything in it reaches the issuer in the way that
// it takes, and stays out of the log.
func TestSSO_Secret(t *testing.T) {
	const secret = "s:é c%ret+/"
	for _, inBody := range []bool{false, true} {
		h := startSSO(t, "http://localhost", secret, inBody)
		if r, text := h.logIn(h.browser()); r.StatusCode != 303 {
			t.Errorf("in the body %v: %s %s", inBody, r.Status, text)
		}
		h.issuer.Register(securetest.Client{ID: "broker", Secret: "another", RedirectURI: h.base + "/oauth/callback", SecretInBody: inBody}, nil)
		if r, text := h.logIn(h.browser()); r.StatusCode != 502 || strings.Contains(text, secret) {
			t.Errorf("a wrong one: %s %s", r.Status, text)
		}
		if log := h.log.String(); strings.Contains(log, secret) || strings.Contains(log, url.QueryEscape(secret)) || !strings.Contains(log, "invalid_client") {
			t.Errorf("%s", log)
		}
	}
}

// TestSSO_IssuerDown: an issuer that is away, or answers nonsense, is an error of
// its own; when it is back all is well.
func TestSSO_IssuerDown(t *testing.T) {
	h := startSSO(t, "http://localhost", "", false)
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, h.issuer.URL+"/elsewhere", http.StatusTemporaryRedirect)
		},
		"a page":   func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") },
		"too much": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat(" ", 2<<20)) },
		"a MAC": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"access_token":"a.b.c","token_type":"mac"}`)
		},
		"nothing": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		h.issuer.Break(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/token" {
				answer(w, r)
			}
			return r.URL.Path == "/token"
		})
		b := h.browser()
		if r, text := h.logIn(b); r.StatusCode != http.StatusBadGateway || !strings.Contains(text, "the broker's log says more") {
			t.Errorf("%s: %s %s", name, r.Status, text)
		}
	}
	if h.issuer.Asked("/elsewhere") != 0 {
		t.Error("the code is carried along by a redirect")
	}
	h.issuer.Break(nil)
	if r, text := h.logIn(h.browser()); r.StatusCode != 303 {
		t.Errorf("when it is back: %s %s", r.Status, text)
	}
	for name, configuration := range map[string]map[string]any{
		"no endpoints":    {"issuer": "URL"},
		"in the clear":    {"issuer": "URL", "authorization_endpoint": "http://id.example.org/a", "token_endpoint": "https://id.example.org/t"},
		"without S256":    {"issuer": "URL", "authorization_endpoint": "https://id.example.org/a", "token_endpoint": "https://id.example.org/t", "code_challenge_methods_supported": []string{"plain"}},
		"somebody else's": {"issuer": "https://evil.example.org", "authorization_endpoint": "https://evil.example.org/a", "token_endpoint": "https://evil.example.org/t"},
		"not an URL":      {"issuer": "URL", "authorization_endpoint": "javascript:alert(1)", "token_endpoint": "https://id.example.org/t"},
	} {
		issuer := securetest.NewIssuer(t)
		issuer.Break(func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "openid-configuration") {
				return false
			}
			found := map[string]any{"jwks_uri": issuer.URL + "/keys"}
			for k, v := range configuration {
				if v == "URL" {
					v = issuer.URL
				}
				found[k] = v
			}
			_ = json.NewEncoder(w).Encode(found)
			return true
		})
		h.engine = start(t, byTokens(issuer), func(c *engine.Config) {
			c.Auth.SSO = sso.Options{ClientID: "broker", BaseURL: "http://localhost"}
		})
		asked := issuer.Asked("/.well-known/openid-configuration")
		for range 5 {
			if r, text := h.get(h.browser(), "/oauth/authorize"); r.StatusCode != http.StatusBadGateway || len(r.Cookies()) != 0 {
				t.Errorf("%s: %s %s", name, r.Status, text)
			}
		}
		if n := issuer.Asked("/.well-known/openid-configuration") - asked; n > 3 { // one for us, and perhaps those for keys
			t.Errorf("%s: it was asked %d times for its configuration", name, n)
		}
	}
}

// TestSSO_Settings: what programs are told, with and without single sign-on.
func TestSSO_Settings(t *testing.T) {
	h := startSSO(t, "http://localhost", "secret", false)
	b := h.browser()
	program := func(r *http.Request) { r.Header.Set("Accept", "application/json") }
	_, text := h.get(b, "/oauth/authorize", program)
	var begun struct {
		URL string `json:"authorize_url"`
	}
	if err := json.Unmarshal([]byte(text), &begun); err != nil || !strings.HasPrefix(begun.URL, h.issuer.URL+"/authorize?") {
		t.Errorf("%s", text)
	}
	if u, err := url.Parse(begun.URL); err != nil || u.Query().Get("scope") != "openid profile" || u.Query().Get("realm") != "test" {
		t.Errorf("%v", u)
	}
	if _, text := h.get(b, "/oauth/enabled", program); text != `{"enabled":true}`+"\n" {
		t.Error(text)
	}
	var auth map[string]any
	_, text = h.get(b, "/api/auth", program)
	if err := json.Unmarshal([]byte(text), &auth); err != nil || auth["oauth_enabled"] != true || auth["oauth_client_id"] != "broker" || auth["oauth_provider_url"] != h.issuer.URL || auth["oauth_disable_basic_auth"] != false ||
		auth["oauth_resource_servers"].(map[string]any)["mq"].(map[string]any)["oauth_metadata_url"] != h.issuer.URL+"/.well-known/openid-configuration" || strings.Contains(text, "secret") {
		t.Errorf("%s", text)
	}
	if _, text := h.get(b, "/docs/openapi.json"); !strings.Contains(text, `"oauth_token"`) || !strings.Contains(text, `"/oauth/callback"`) {
		t.Error("the document does not tell of it")
	}

	h.engine = start(t, func(c *engine.Config) { c.HTTP = netip.MustParseAddrPort("127.0.0.1:0") })
	if _, text := h.get(b, "/oauth/enabled", program); text != `{"enabled":false}`+"\n" {
		t.Error(text)
	}
	if _, text := h.get(b, "/api/auth", program); text != `{"oauth_enabled":false}`+"\n" {
		t.Error(text)
	}
	for _, path := range []string{"authorize", "callback?code=x&state=y", "logout"} {
		if r, text := h.get(b, "/oauth/"+path); r.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "oauth2.client_id") {
			t.Errorf("%s: %s %s", path, r.Status, text)
		}
	}
}

// TestSSO_Refuses: configurations that make no sense.
func TestSSO_Refuses(t *testing.T) {
	issuer := securetest.NewIssuer(t)
	for want, change := range map[string]func(a *engine.Auth){
		"name oauth2 in auth.backends": func(a *engine.Auth) { a.Backends = []string{"local"} },
		"oauth2.issuer":                func(a *engine.Auth) { a.OAuth2.Issuer, a.OAuth2.JWKSURI = "", issuer.URL+"/keys" },
		"oauth2.mgmt_base_url: where":  func(a *engine.Auth) { a.SSO.BaseURL = "" },
		"is not https":                 func(a *engine.Auth) { a.SSO.BaseURL = "http://mq.example.org" },
		"is not a URL":                 func(a *engine.Auth) { a.SSO.BaseURL = "mq.example.org" },
		"more than a host":             func(a *engine.Auth) { a.SSO.BaseURL = "https://mq.example.org/?a=b" },
	} {
		c := engine.Config{DataDir: t.TempDir(), Loops: 1}
		byTokens(issuer)(&c)
		c.Auth.SSO = sso.Options{ClientID: "broker", BaseURL: "https://mq.example.org"}
		change(&c.Auth)
		if _, err := engine.Start(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
