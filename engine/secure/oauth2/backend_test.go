package oauth2

import (
	"crypto"
	"encoding/base64"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
)

func logIn(b *Backend, token []byte) (broker.Login, error) {
	login, err := b.Authenticate([]byte("whoever"), token, netip.Addr{})
	if err != nil {
		return login, err
	}
	return login.Finish()
}

// TestLogin with each kind of key: name, tags, permissions and expiry.
func TestLogin(t *testing.T) {
	i := newIssuer(t)
	b := newBackend(t, i.options())
	for _, id := range []string{"rsa", "ec", "ed"} {
		token := i.token(t, id, i.claims(map[string]any{"preferred_username": "joe-" + id}))
		login, err := logIn(b, token)
		check(t, err)
		if login.User.Name != "joe-"+id || !slices.Equal(login.User.Spec().Tags, []string{"management"}) {
			t.Errorf("%s: %+v", id, login.User.Spec())
		}
		if left := time.Until(login.Expires); left < 59*time.Minute || left > time.Hour {
			t.Errorf("%s: expires in %v", id, left)
		}
		r := access.NewRegistry()
		for _, row := range []struct {
			vhost string
			p     access.Permission
			name  string
			want  bool
		}{
			{"any", access.Read, "q", true}, {"any", access.Write, "q", false}, {"v/1", access.Write, "orders.x", true},
			{"v/1", access.Write, "x", false}, {"any", access.Configure, "q", false},
		} {
			if got := r.Grant(login.User, row.vhost).Allows(row.p, []byte(row.name)); got != row.want {
				t.Errorf("%s: %+v: %v", id, row, got)
			}
		}
		if g := r.Grant(login.User, "v/1"); !g.AllowsTopic(access.Write, []byte("orders.x"), []byte("eu.1"), "") || g.AllowsTopic(access.Write, []byte("orders.x"), []byte("us.1"), "") {
			t.Error("routing keys")
		}
		again, err := b.Authenticate(nil, token, netip.Addr{})
		check(t, err)
		if again.Later != nil || again.User != login.User {
			t.Errorf("%s: a token is verified twice", id)
		}
		renewed, err := login.Renew(i.token(t, id, i.claims(map[string]any{"preferred_username": "joe-" + id, "jti": "2"})))
		check(t, err)
		if renewed, err = renewed.Finish(); err != nil || renewed.User.Name != login.User.Name {
			t.Errorf("%s: renewing: %v", id, err)
		}
	}
	if n := i.fetches.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}
}

// TestLogin_Refused: each check, by a token that fails only that.
func TestLogin_Refused(t *testing.T) {
	i, stranger := newIssuer(t), newIssuer(t)
	b := newBackend(t, i.options())
	now := time.Now()
	withAlg := func(alg string) func(h map[string]any) { return func(h map[string]any) { h["alg"] = alg } }
	resigned := func(token []byte, header string) []byte {
		parts := strings.Split(string(token), ".")
		parts[0] = base64.RawURLEncoding.EncodeToString([]byte(header))
		return []byte(strings.Join(parts, "."))
	}
	good := i.token(t, "ec", i.claims(nil))
	tampered := strings.Split(string(good), ".")
	tampered[1] = base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"admin","exp":99999999999,"aud":"mq"}`))
	// The public key as the secret of HS256, which is the classic mistake.
	hmacToken := jwt.NewWithClaims(jwt.SigningMethodHS256, i.claims(nil))
	hmacToken.Header["kid"] = "ec"
	confused, err := hmacToken.SignedString(i.jwks())
	check(t, err)
	for name, row := range map[string]struct {
		token []byte
		want  string
	}{
		"no token":           {[]byte("secret"), "not a token"},
		"two dots":           {[]byte("a.b.c"), "malformed"},
		"too long":           {[]byte("a." + strings.Repeat("x", tokenBytesMax) + ".c"), "not a token"},
		"tampered":           {[]byte(strings.Join(tampered, ".")), "signature is invalid"},
		"no signature":       {good[:strings.LastIndexByte(string(good), '.')+1], "signature is invalid"},
		"none":               {resigned(good, `{"alg":"none","kid":"ec"}`), "signing method none is invalid"},
		"HS256":              {[]byte(confused), "signing method HS256 is invalid"},
		"another method":     {i.token(t, "ec", i.claims(nil), withAlg("RS256")), "does not have"},
		"a stranger's key":   {stranger.token(t, "ec", i.claims(nil)), "signature is invalid"},
		"unknown key":        {i.token(t, "ec", i.claims(nil), func(h map[string]any) { h["kid"] = "other" }), "does not have"},
		"expired":            {i.token(t, "ec", i.claims(map[string]any{"exp": now.Add(-time.Second).Unix()})), "has expired"},
		"no exp":             {i.token(t, "ec", i.claims(map[string]any{"exp": nil})), "when it expires"},
		"exp is a text":      {i.token(t, "ec", i.claims(map[string]any{"exp": "tomorrow"})), "when it expires"},
		"not yet":            {i.token(t, "ec", i.claims(map[string]any{"nbf": now.Add(time.Minute).Unix()})), "from"},
		"nbf is a text":      {i.token(t, "ec", i.claims(map[string]any{"nbf": "x"})), "nbf"},
		"from the future":    {i.token(t, "ec", i.claims(map[string]any{"iat": now.Add(time.Minute).Unix()})), "future"},
		"another issuer":     {i.token(t, "ec", i.claims(map[string]any{"iss": "https://example.org"})), "another issuer"},
		"no issuer":          {i.token(t, "ec", i.claims(map[string]any{"iss": nil})), "another issuer"},
		"another audience":   {i.token(t, "ec", i.claims(map[string]any{"aud": []string{"x", "y"}})), "not for 'mq'"},
		"no audience":        {i.token(t, "ec", i.claims(map[string]any{"aud": nil})), "not for 'mq'"},
		"no name":            {i.token(t, "ec", i.claims(map[string]any{"sub": nil})), "name the user"},
		"a name of a number": {i.token(t, "ec", i.claims(map[string]any{"sub": 7})), "name the user"},
		"a long name":        {i.token(t, "ec", i.claims(map[string]any{"sub": strings.Repeat("x", 256)})), "256 bytes"},
	} {
		login, err := logIn(b, row.token)
		if !errors.Is(err, broker.ErrRefused) || !strings.Contains(err.Error(), row.want) || login.User != nil {
			t.Errorf("%s: %v, want %q", name, err, row.want)
		}
	}
	login, err := logIn(b, good)
	check(t, err)
	b.now = func() time.Time { return login.Expires }
	if _, err := logIn(b, good); !errors.Is(err, broker.ErrRefused) {
		t.Errorf("a remembered token that has expired: %v", err)
	}
}

// TestClaims: other shapes of scopes, audiences and key ids.
func TestClaims(t *testing.T) {
	i := newIssuer(t)
	o := i.options()
	o.AdditionalScopesKeys, o.Audience = []string{"roles", "extra"}, "https://mq.example.org"
	b := newBackend(t, o)
	login, err := logIn(b, i.token(t, "ed", i.claims(map[string]any{
		"aud": []string{"x", "https://mq.example.org"}, "iss": i.server.URL + "/", "scope": []string{"mq.tag:a", "mq.tag:a", "tag:no", "mq.read:v", "mq.fly:v/x", "mq.read:%zz/x"},
		"roles": "mq.tag:b mq.tag:", "extra": 17,
		"resource_access": map[string]any{"mq": map[string]any{"roles": []any{"mq.tag:c", 5}}, "other": map[string]any{"roles": []string{"mq.tag:no"}}},
	}), func(h map[string]any) { delete(h, "kid") })) // there is one key for EdDSA
	check(t, err)
	if tags := login.User.Spec().Tags; !slices.Equal(tags, []string{"c", "a", "b"}) {
		t.Errorf("%q", tags)
	}
	if access.NewRegistry().Grant(login.User, "v").Granted() {
		t.Error("scopes that are none give a permission")
	}
}

// TestKeys_Rotate: a new key is fetched when a token names it, tokens of the old
// one are not taken any more, and unknown ids do not make us ask again at once.
func TestKeys_Rotate(t *testing.T) {
	i := newIssuer(t)
	o := i.options()
	b := newBackend(t, o)
	old := i.token(t, "ec", i.claims(nil))
	_, err := logIn(b, old)
	check(t, err)
	i.mu.Lock()
	i.keys = map[string]crypto.Signer{"new": newIssuer(t).keys["ec"]}
	i.mu.Unlock()
	_, err = logIn(b, i.token(t, "new", i.claims(nil)))
	for err != nil { // it may have been asked within the pause
		_, err = logIn(b, i.token(t, "new", i.claims(nil)))
	}
	if _, err := logIn(b, old); !errors.Is(err, broker.ErrRefused) {
		t.Errorf("a token of a key that is gone: %v", err)
	}
	b.keys.unknown = time.Hour
	b.keys.mu.Lock()
	b.keys.asked = time.Now()
	b.keys.last = b.keys.asked
	b.keys.mu.Unlock()
	before := i.fetches.Load()
	for range 20 {
		if _, err := logIn(b, i.token(t, "new", i.claims(nil), func(h map[string]any) { h["kid"] = "made up" })); err == nil {
			t.Error("an unknown key")
		}
	}
	if n := i.fetches.Load() - before; n != 0 {
		t.Errorf("unknown keys led to %d fetches", n)
	}
}

// TestKeys_Outage: logins wait for the first keys; while the issuer is away later,
// those that are there go on being used.
func TestKeys_Outage(t *testing.T) {
	i := newIssuer(t)
	down, failures := true, 0
	i.answer = func(w http.ResponseWriter, _ *http.Request) bool {
		if down {
			if failures++; failures > 2 {
				down = false
			}
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		return false
	}
	b := newBackend(t, i.options())
	token := i.token(t, "ec", i.claims(nil))
	_, err := logIn(b, token)
	for err != nil { // a login waits for keys only so long
		_, err = logIn(b, token)
	}
	i.mu.Lock()
	down, failures = true, -1<<30
	i.mu.Unlock()
	b.keys.wake <- struct{}{}
	for {
		b.keys.mu.Lock()
		failed := b.keys.err != nil
		b.keys.mu.Unlock()
		if failed {
			break
		}
		_, err := logIn(b, i.token(t, "ec", i.claims(map[string]any{"jti": "x"})))
		check(t, err)
	}
	_, err = logIn(b, i.token(t, "ec", i.claims(map[string]any{"jti": "3"})))
	check(t, err)
}

// TestFetch_Refused: what an issuer may answer wrongly.
func TestFetch_Refused(t *testing.T) {
	i := newIssuer(t)
	for want, answer := range map[string]string{
		"as oauth2.issuer does": `{"issuer":"https://example.org","jwks_uri":"` + i.server.URL + `/keys"}`,
		"no jwks_uri":           `{"issuer":"` + i.server.URL + `"}`,
		"not https":             `{"issuer":"` + i.server.URL + `","jwks_uri":"http://example.org/keys"}`,
		"not understood":        `<html>`,
		"more than":             strings.Repeat(" ", fetchBytesMax+10),
	} {
		i.mu.Lock()
		i.answer = func(w http.ResponseWriter, _ *http.Request) bool { _, _ = w.Write([]byte(answer)); return true }
		i.mu.Unlock()
		f := newFetcher(i.options())
		if _, _, err := f.fetch(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		f.client.CloseIdleConnections()
	}
}

func TestTTL(t *testing.T) {
	f := newFetcher(Options{CacheTTL: time.Hour})
	for control, want := range map[string]time.Duration{
		"": time.Hour, "max-age=600": 10 * time.Minute, "public, Max-Age=\"7200\", x": 2 * time.Hour, "max-age=1": ttlMin, "max-age=9999999": ttlMax,
		"max-age=x": time.Hour, "max-age=-1": time.Hour, "no-store": time.Hour,
	} {
		if got := f.ttl(http.Header{"Cache-Control": {control}}); got != want {
			t.Errorf("%q: %v", control, got)
		}
	}
}

func TestNew_Refuses(t *testing.T) {
	good := Options{Issuer: "https://id.example.org", ResourceServerID: "mq", VerifyAudience: true, PreferredUsernameClaims: []string{"sub"}}
	for want, change := range map[string]func(o *Options){
		"neither issuer":  func(o *Options) { o.Issuer = "" },
		"which audience":  func(o *Options) { o.ResourceServerID = "" },
		"names no claim":  func(o *Options) { o.PreferredUsernameClaims = nil },
		"is not https":    func(o *Options) { o.Issuer = "http://id.example.org" },
		"is not a URL":    func(o *Options) { o.JWKSURI = "keys" },
		"oauth2.jwks_uri": func(o *Options) { o.JWKSURI = "http://10.0.0.1/keys" },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestParseKeys_Base64url: a key that is not written as RFC 7515 has it is none.
func TestParseKeys_Base64url(t *testing.T) {
	const x = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
	for text, good := range map[string]bool{
		x: true, x[:20] + `\n` + x[20:]: false, x + `\r\n`: false, x + "=": false, x[:42] + "p": false, strings.ReplaceAll(x, "_", "/"): false,
	} {
		_, err := parseKeys([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"` + text + `"}]}`))
		if (err == nil) != good {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// FuzzParseKeys: any key set is taken or refused, and what is taken can be used.
func FuzzParseKeys(f *testing.F) {
	f.Add([]byte(`{"keys":[{"kty":"EC","crv":"P-256","x":"AA","y":"AA"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"a","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`))
	f.Add([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"},{}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := parseKeys(data)
		if err != nil {
			return
		}
		for _, k := range set.keys {
			m := jwt.GetSigningMethod(k.method)
			if err := m.Verify("a.b", []byte("no signature"), k.public); err == nil || errors.Is(err, jwt.ErrInvalidKeyType) {
				t.Fatalf("%+v: %v", k, err)
			}
		}
	})
}

// FuzzScopes: any scope gives something or nothing.
func FuzzScopes(f *testing.F) {
	f.Add("mq.read:v/n/k mq.tag:x", "v", "n")
	f.Add("mq.write:%2F*/(*)", "/", "()")
	f.Fuzz(func(t *testing.T, scope, vhost, name string) {
		o := Options{ResourceServerID: "mq"}
		r := o.rightsOf(map[string]any{"scope": scope})
		u, err := access.NewScopedUser(access.Spec{Name: "joe", Tags: r.tags}, r.scopes)
		if err != nil {
			return
		}
		g := access.NewRegistry().Grant(u, vhost)
		if g.Allows(access.Read, []byte(name)) && !strings.Contains(scope, "mq.read:") {
			t.Fatalf("%q lets read %s in %s", scope, name, vhost)
		}
		g.AllowsTopic(access.Write, []byte(name), []byte(vhost), "")
	})
}
