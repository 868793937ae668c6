package oauth2

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// issuer signs tokens and serves its keys.
type issuer struct {
	server  *httptest.Server
	fetches atomic.Int64

	mu      sync.Mutex
	keys    map[string]crypto.Signer // by id
	answer  func(w http.ResponseWriter, r *http.Request) bool
	control string // Cache-Control
}

var rsaOnce = sync.OnceValue(func() *rsa.PrivateKey {
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(err)
	}
	return k
})

func newIssuer(t testing.TB) *issuer {
	t.Helper()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	check(t, err)
	i := &issuer{keys: map[string]crypto.Signer{"rsa": rsaOnce(), "ec": ec, "ed": ed}}
	i.server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.server.Close)
	return i
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.answer != nil && i.answer(w, r) {
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": i.server.URL + "/", "jwks_uri": i.server.URL + "/keys"})
	case "/keys":
		i.fetches.Add(1)
		if i.control != "" {
			w.Header().Set("Cache-Control", i.control)
		}
		_, _ = w.Write(i.jwks())
	default:
		http.NotFound(w, r)
	}
}

func (i *issuer) jwks() []byte {
	b64 := base64.RawURLEncoding.EncodeToString
	keys := []map[string]string{{"kty": "oct", "k": "c2VjcmV0", "kid": "symmetric"}, {"kty": "RSA", "use": "enc", "kid": "enc"}}
	for id, k := range i.keys {
		switch p := k.Public().(type) {
		case *rsa.PublicKey:
			keys = append(keys, map[string]string{"kty": "RSA", "kid": id, "use": "sig", "alg": "RS256", "n": b64(p.N.Bytes()), "e": b64(big.NewInt(int64(p.E)).Bytes())})
		case *ecdsa.PublicKey:
			raw, _ := p.Bytes()
			keys = append(keys, map[string]string{"kty": "EC", "crv": "P-256", "kid": id, "x": b64(raw[1:33]), "y": b64(raw[33:])})
		case ed25519.PublicKey:
			keys = append(keys, map[string]string{"kty": "OKP", "crv": "Ed25519", "kid": id, "x": b64(p)})
		}
	}
	data, _ := json.Marshal(map[string]any{"keys": keys})
	return data
}

// token signs claims with a key; header may change the header.
func (i *issuer) token(t testing.TB, id string, claims jwt.MapClaims, header ...func(h map[string]any)) []byte {
	t.Helper()
	i.mu.Lock()
	key := i.keys[id]
	i.mu.Unlock()
	var method jwt.SigningMethod = jwt.SigningMethodRS256
	switch key.(type) {
	case *ecdsa.PrivateKey:
		method = jwt.SigningMethodES256
	case ed25519.PrivateKey:
		method = jwt.SigningMethodEdDSA
	}
	tok := jwt.NewWithClaims(method, claims)
	tok.Header["kid"] = id
	for _, f := range header {
		f(tok.Header)
	}
	text, err := tok.SignedString(key)
	check(t, err)
	return []byte(text)
}

// claims are those of a good token, with changes; nil takes one away.
func (i *issuer) claims(changes map[string]any) jwt.MapClaims {
	now := time.Now()
	c := jwt.MapClaims{
		"iss": i.server.URL, "aud": "mq", "sub": "joe", "exp": now.Add(time.Hour).Unix(), "iat": now.Unix(),
		"scope": "mq.tag:management mq.read:*/* other.write:*/* mq.write:v%2F1/orders.*/eu*",
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

func (i *issuer) options() Options {
	return Options{Issuer: i.server.URL, ResourceServerID: "mq", VerifyAudience: true, PreferredUsernameClaims: []string{"preferred_username", "sub"}, CacheTTL: time.Hour, retry: 10 * time.Millisecond}
}

func newBackend(t testing.TB, o Options) *Backend {
	t.Helper()
	b, err := New(o)
	check(t, err)
	t.Cleanup(b.Close)
	return b
}
