package oauth2

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
)

const (
	tokenBytesMax = 64 << 10
	tokensMax     = 1024 // verified ones that are remembered
	// skew is how far the clocks of broker and issuer may be apart, for nbf and
	// iat; a token ends when it says.
	skew = 5 * time.Second
	// keysTimeout is how long a login waits for keys.
	keysTimeout = 5 * time.Second
)

// Options are the keys of the configuration's section [oauth2].
type Options struct {
	Issuer                  string
	JWKSURI                 string // empty: by discovery
	ResourceServerID        string
	VerifyAudience          bool
	Audience                string // empty: ResourceServerID
	PreferredUsernameClaims []string
	AdditionalScopesKeys    []string
	ScopePrefix             string // empty: ResourceServerID and a dot
	CacheTTL                time.Duration
	Logger                  *slog.Logger
	TLS                     *tls.Config // for the issuer; nil: the usual

	retry time.Duration // shortens pauses, for tests
}

func (o *Options) check() error {
	switch {
	case o.Issuer == "" && o.JWKSURI == "":
		return errors.New("oauth2: neither issuer nor jwks_uri is set: who signs the tokens?")
	case o.VerifyAudience && o.Audience == "" && o.ResourceServerID == "":
		return errors.New("oauth2: verify_aud needs audience or resource_server_id: which audience is this broker?")
	case len(o.PreferredUsernameClaims) == 0:
		return errors.New("oauth2: preferred_username_claims names no claim")
	}
	for name, address := range map[string]string{"issuer": o.Issuer, "jwks_uri": o.JWKSURI} {
		if address != "" {
			if err := CheckURL("oauth2."+name, address); err != nil {
				return err
			}
		}
	}
	return nil
}

// CheckURL wants https, or http to this machine: who can change keys on their way
// can be anybody.
func CheckURL(what, address string) error {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return fmt.Errorf("oauth2: %s '%s' is not a URL", what, address)
	}
	ip, _ := netip.ParseAddr(u.Hostname())
	if u.Scheme == "https" || u.Scheme == "http" && (u.Hostname() == "localhost" || ip.IsLoopback()) {
		return nil
	}
	return fmt.Errorf("oauth2: %s '%s' is not https: keys that come in the clear prove nothing", what, address)
}

// Backend logs users in by tokens. It implements broker.Authenticator.
type Backend struct {
	Options
	keys   *fetcher
	parser *jwt.Parser
	now    func() time.Time

	providers providers // for single sign-on

	mu     sync.Mutex
	tokens map[[sha256.Size]byte]verified
	set    *keySet // that tokens were verified with
}

type verified struct {
	user    *access.User
	expires time.Time
}

// New makes a Backend and begins to fetch keys.
func New(o Options) (*Backend, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Backend{Options: o, keys: newFetcher(o), now: time.Now, tokens: map[[sha256.Size]byte]verified{}}
	b.parser = jwt.NewParser(jwt.WithValidMethods([]string{"RS256", "ES256", "EdDSA"}), jwt.WithoutClaimsValidation(), jwt.WithJSONNumber())
	b.keys.start()
	return b, nil
}

// Close ends the fetching.
func (b *Backend) Close() { b.keys.close() }

var errNoToken = fmt.Errorf("%w: the password is not a token", broker.ErrRefused)

// Authenticate implements broker.Authenticator: password is the token; the user's
// name is what the token says.
func (b *Backend) Authenticate(_, password []byte, _ netip.Addr) (broker.Login, error) {
	return b.login(password)
}

func (b *Backend) login(token []byte) (broker.Login, error) {
	if len(token) > tokenBytesMax || bytes.Count(token, []byte{'.'}) != 2 {
		return broker.Login{}, errNoToken
	}
	sum := sha256.Sum256(token)
	if v, ok := b.known(sum); ok {
		return b.made(v), nil
	}
	text := string(token)
	return broker.Login{Later: func() (broker.Login, error) {
		v, set, err := b.verify(text)
		if err != nil {
			return broker.Login{}, fmt.Errorf("%w: token: %w", broker.ErrRefused, err)
		}
		b.remember(sum, v, set)
		return b.made(v), nil
	}}, nil
}

func (b *Backend) made(v verified) broker.Login {
	return broker.Login{User: v.user, Expires: v.expires, Renew: b.login}
}

// known finds a token that was verified before, with the keys of today.
func (b *Backend) known(sum [sha256.Size]byte) (verified, bool) {
	set := b.keys.current()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of(set)
	v, ok := b.tokens[sum]
	if ok && !b.now().Before(v.expires) {
		delete(b.tokens, sum)
		return v, false
	}
	return v, ok
}

// of forgets tokens that were verified with other keys.
func (b *Backend) of(set *keySet) {
	if b.set != set {
		clear(b.tokens)
		b.set = set
	}
}

func (b *Backend) remember(sum [sha256.Size]byte, v verified, set *keySet) {
	current := b.keys.current()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.of(current); set != current {
		return
	}
	if len(b.tokens) >= tokensMax {
		now := b.now()
		for sum, v := range b.tokens {
			if !now.Before(v.expires) {
				delete(b.tokens, sum)
			}
		}
		if len(b.tokens) >= tokensMax {
			clear(b.tokens)
		}
	}
	b.tokens[sum] = v
}

// verify checks a token. It may wait for keys.
func (b *Backend) verify(text string) (v verified, set *keySet, err error) {
	set = b.keys.current()
	claims, err := b.signed(text, set)
	if errors.Is(err, errUnknownKey) {
		ctx, cancel := context.WithTimeout(context.Background(), keysTimeout)
		defer cancel()
		if b.keys.refresh(ctx, set) {
			set = b.keys.current()
			claims, err = b.signed(text, set)
		}
	}
	if err != nil {
		return v, set, err
	}
	if v.expires, err = b.valid(claims); err != nil {
		return v, set, err
	}
	name, ok := b.userName(claims)
	if !ok {
		return v, set, fmt.Errorf("it has none of the claims %v, which name the user", b.PreferredUsernameClaims)
	}
	r := b.rightsOf(claims)
	v.user, err = access.NewScopedUser(access.Spec{Name: name, Tags: r.tags}, r.scopes)
	return v, set, err
}

var errUnknownKey = errors.New("it is signed with a key that the issuer does not have")

// signed checks the signature and returns the claims.
func (b *Backend) signed(text string, set *keySet) (map[string]any, error) {
	claims := jwt.MapClaims{}
	_, err := b.parser.ParseWithClaims(text, claims, func(t *jwt.Token) (any, error) {
		if set == nil {
			return nil, errUnknownKey
		}
		id, _ := t.Header["kid"].(string)
		key, ok := set.find(id, t.Method.Alg())
		if !ok {
			return nil, errUnknownKey
		}
		return key, nil
	})
	if errors.Is(err, errUnknownKey) {
		return nil, errUnknownKey
	}
	return claims, err
}

// valid checks what the token says of itself; it returns when it ends.
func (b *Backend) valid(claims jwt.MapClaims) (expires time.Time, err error) {
	now := b.now()
	exp, err := claims.GetExpirationTime()
	if err != nil || exp == nil {
		return expires, errors.New("it does not say when it expires")
	}
	nbf, err := claims.GetNotBefore()
	if err != nil {
		return expires, errors.New("its nbf is not a time")
	}
	iat, err := claims.GetIssuedAt()
	if err != nil {
		return expires, errors.New("its iat is not a time")
	}
	issuer, _ := claims["iss"].(string)
	switch {
	case !now.Before(exp.Time):
		return expires, fmt.Errorf("it has expired at %s", exp.UTC().Format(time.RFC3339))
	case nbf != nil && now.Add(skew).Before(nbf.Time):
		return expires, fmt.Errorf("it is good from %s on", nbf.UTC().Format(time.RFC3339))
	case iat != nil && now.Add(skew).Before(iat.Time):
		return expires, fmt.Errorf("it was issued in the future, at %s: compare the clocks", iat.UTC().Format(time.RFC3339))
	case b.Issuer != "" && !SameIssuer(issuer, b.Issuer):
		return expires, fmt.Errorf("it is of another issuer, '%s'", issuer)
	}
	if b.VerifyAudience {
		want := b.Audience
		if want == "" {
			want = b.ResourceServerID
		}
		if got := audiences(claims); !slices.Contains(got, want) {
			return expires, fmt.Errorf("it is for %v, and not for '%s'", got, want)
		}
	}
	return exp.Time, nil
}
