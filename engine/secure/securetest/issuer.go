package securetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// Issuer signs tokens with ES256 and serves its key. Who goes to its authorization
// endpoint is joe, without being asked.
type Issuer struct {
	URL    string
	key    *ecdsa.PrivateKey
	server *httptest.Server

	mu     sync.Mutex
	client Client
	grant  func() string // the token that the next login gets
	codes  map[string]url.Values
	broken func(w http.ResponseWriter, r *http.Request) bool
	asked  map[string]int // by path
}

// Client is who may send users to an Issuer.
type Client struct {
	ID, Secret, RedirectURI string
	// SecretInBody: the secret is not taken as Basic.
	SecretInBody bool
}

// NewIssuer makes one that the test's end stops.
func NewIssuer(t testing.TB) *Issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	i := &Issuer{key: key, codes: map[string]url.Values{}, asked: map[string]int{}}
	i.server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.server.Close)
	i.URL = i.server.URL
	return i
}

// Register makes a client known, whose users get such tokens.
func (i *Issuer) Register(c Client, token func() string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.client, i.grant = c, token
}

// Break has requests answered otherwise; f says whether it has. nil: as ever.
func (i *Issuer) Break(f func(w http.ResponseWriter, r *http.Request) bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.broken = f
}

// Asked is how often a path was.
func (i *Issuer) Asked(path string) int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked[path]
}

// Stop ends the server early.
func (i *Issuer) Stop() { i.server.Close() }

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.asked[r.URL.Path]++
	if i.broken != nil && i.broken(w, r) {
		return
	}
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		methods := []string{"client_secret_basic", "client_secret_post"}
		if i.client.SecretInBody {
			methods = methods[1:]
		}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": i.URL, "jwks_uri": i.URL + "/keys", "authorization_endpoint": i.URL + "/authorize?realm=test", "token_endpoint": i.URL + "/token",
			"code_challenge_methods_supported": []string{"S256"}, "token_endpoint_auth_methods_supported": methods,
		})
	case "/authorize":
		i.authorize(w, r)
	case "/token":
		i.token(w, r)
	default:
		raw, _ := i.key.PublicKey.Bytes() // of a curve that has them
		b64 := base64.RawURLEncoding.EncodeToString
		_, _ = io.WriteString(w, fmt.Sprintf(`{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":%q,"y":%q}]}`, b64(raw[1:33]), b64(raw[33:])))
	}
}

// authorize sends the user back with a code.
func (i *Issuer) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if q.Get("realm") != "test" || q.Get("response_type") != "code" || q.Get("client_id") != i.client.ID || q.Get("redirect_uri") != i.client.RedirectURI || q.Get("code_challenge_method") != "S256" {
		http.Error(w, "not such a client: "+r.URL.RawQuery, http.StatusBadRequest)
		return
	}
	code := rand.Text()
	i.codes[code] = q
	back := url.Values{"code": {code}, "state": {q.Get("state")}, "iss": {i.URL}}
	http.Redirect(w, r, i.client.RedirectURI+"?"+back.Encode(), http.StatusFound)
}

// token exchanges a code, once.
func (i *Issuer) token(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, name string) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": name, "error_description": "as the test wants"})
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	} else {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	}
	if id != i.client.ID || secret != i.client.Secret || i.client.SecretInBody && basic {
		refuse(http.StatusUnauthorized, "invalid_client")
		return
	}
	begun, ok := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !ok || r.Method != http.MethodPost || r.PostFormValue("grant_type") != "authorization_code" || r.PostFormValue("redirect_uri") != begun.Get("redirect_uri") ||
		base64.RawURLEncoding.EncodeToString(sum[:]) != begun.Get("code_challenge") {
		refuse(http.StatusBadRequest, "invalid_grant")
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": i.grant(), "token_type": "Bearer", "expires_in": 3600, "id_token": "not.looked.at"})
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
