package securetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Issuer signs tokens with ES256 and serves its key.
type Issuer struct {
	URL string
	key *ecdsa.PrivateKey
}

// NewIssuer makes one that the test's end stops.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	raw, err := key.PublicKey.Bytes()
	must(t, err)
	b64 := base64.RawURLEncoding.EncodeToString
	i := &Issuer{key: key}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/openid-configuration" {
			fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, i.URL, i.URL+"/keys")
			return
		}
		_, _ = io.WriteString(w, fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":%q,"y":%q}]}`, b64(raw[1:33]), b64(raw[33:])))
	}))
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Token is good for an hour, for the audience mq; claims are added.
func (i *Issuer) Token(t testing.TB, user, scope string, claims map[string]any) string {
	t.Helper()
	all := jwt.MapClaims{"iss": i.URL, "aud": "mq", "sub": user, "scope": scope, "exp": time.Now().Add(time.Hour).Unix()}
	maps.Copy(all, claims)
	token := jwt.NewWithClaims(jwt.SigningMethodES256, all)
	token.Header["kid"] = "1"
	text, err := token.SignedString(i.key)
	must(t, err)
	return text
}
