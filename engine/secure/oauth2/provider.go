package oauth2

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// discovery is what is read of an issuer's configuration (OpenID Connect
// Discovery 1.0, 3).
type discovery struct {
	Issuer        string   `json:"issuer"`
	JWKS          string   `json:"jwks_uri"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Challenges    []string `json:"code_challenge_methods_supported"`
	Methods       []string `json:"token_endpoint_auth_methods_supported"`
}

// discover gets the issuer's configuration.
func (f *fetcher) discover(ctx context.Context) (found discovery, header http.Header, err error) {
	data, header, err := f.get(ctx, strings.TrimSuffix(f.Issuer, "/")+"/.well-known/openid-configuration")
	if err != nil {
		return found, nil, err
	}
	if err := json.Unmarshal(data, &found); err != nil {
		return found, nil, fmt.Errorf("the issuer's configuration is not understood: %w", err)
	}
	if !SameIssuer(found.Issuer, f.Issuer) {
		return found, nil, fmt.Errorf("the issuer calls itself '%s', and not as oauth2.issuer does", Plain(found.Issuer))
	}
	return found, header, nil
}

// Provider is where an issuer logs users in.
type Provider struct {
	AuthorizationEndpoint string
	tokenEndpoint         string
	secretInBody          bool // the client's secret is not taken as Basic
}

// providers keeps one, and an error for a while: who asks again and again does not
// make us ask the issuer as often.
type providers struct {
	mu    sync.Mutex
	known *Provider
	err   error
	until time.Time
}

// Provider finds the issuer's endpoints by discovery. One that was found goes on
// being used while the issuer is away.
func (b *Backend) Provider(ctx context.Context) (*Provider, error) {
	p := &b.providers
	p.mu.Lock()
	defer p.mu.Unlock()
	if !b.now().Before(p.until) {
		found, ttl, err := b.findProvider(ctx)
		if ctx.Err() != nil {
			return nil, ctx.Err() // it is who asks that has gone
		}
		switch {
		case err == nil:
			p.known, p.err = found, nil
		case p.known == nil:
			p.err, ttl = err, b.keys.retry
		default:
			b.Logger.Warn("the issuer's configuration cannot be fetched: what it was goes on being used", "issuer", b.Issuer, "err", err)
			ttl = b.keys.retry
		}
		p.until = b.now().Add(ttl)
	}
	return p.known, p.err
}

func (b *Backend) findProvider(ctx context.Context) (*Provider, time.Duration, error) {
	found, header, err := b.keys.discover(ctx)
	if err != nil {
		return nil, 0, err
	}
	for name, address := range map[string]string{"authorization_endpoint": found.Authorization, "token_endpoint": found.Token} {
		if address == "" {
			return nil, 0, fmt.Errorf("the issuer's configuration has no %s: users cannot log in there", name)
		}
		if err := CheckURL(name+" of the issuer", address); err != nil {
			return nil, 0, err
		}
	}
	if len(found.Challenges) > 0 && !slices.Contains(found.Challenges, "S256") {
		return nil, 0, errors.New("the issuer does not take PKCE with S256: turn it on there")
	}
	p := &Provider{AuthorizationEndpoint: found.Authorization, tokenEndpoint: found.Token}
	p.secretInBody = len(found.Methods) > 0 && !slices.Contains(found.Methods, "client_secret_basic") && slices.Contains(found.Methods, "client_secret_post")
	return p, b.keys.ttl(header), nil
}

// Code is an authorization code, and what goes with it to the issuer.
type Code struct {
	ClientID, ClientSecret string // the secret may be empty
	RedirectURI            string // as it was in the authorization request
	Code, Verifier         string
}

// ErrGrant is wrapped by errors of codes that the issuer does not take.
var ErrGrant = errors.New("oauth2: the issuer refuses the code")

// Exchange gets an access token for a code (RFC 6749, 4.1.3; RFC 7636, 4.5). What
// comes is for Authenticate to look at.
func (b *Backend) Exchange(ctx context.Context, c Code) (token string, err error) {
	p, err := b.Provider(ctx)
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {c.Code}, "redirect_uri": {c.RedirectURI}, "code_verifier": {c.Verifier}}
	basic := c.ClientSecret != "" && !p.secretInBody
	if !basic {
		form.Set("client_id", c.ClientID)
	}
	if c.ClientSecret != "" && !basic {
		form.Set("client_secret", c.ClientSecret)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.tokenEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return "", err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	if basic { // each escaped (RFC 6749, 2.3.1)
		request.SetBasicAuth(url.QueryEscape(c.ClientID), url.QueryEscape(c.ClientSecret))
	}
	client := *b.keys.client
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse } // it would carry the code along
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	data, err := readAll(response.Body, p.tokenEndpoint)
	if err != nil {
		return "", err
	}
	return readToken(response.Status, response.StatusCode, data)
}

// readToken reads the answer of a token endpoint (RFC 6749, 5.1 and 5.2).
func readToken(status string, code int, data []byte) (token string, err error) {
	var answer struct {
		Token string `json:"access_token"`
		Type  string `json:"token_type"`
		Error string `json:"error"`
		Text  string `json:"error_description"`
	}
	parseErr := json.Unmarshal(data, &answer)
	switch {
	case code == http.StatusBadRequest && parseErr == nil && answer.Error == "invalid_grant":
		return "", fmt.Errorf("%w: %s %s", ErrGrant, Plain(answer.Error), Plain(answer.Text))
	case code != http.StatusOK && parseErr == nil && answer.Error != "":
		return "", fmt.Errorf("the issuer answers %s: %s %s: compare client_id, client_secret and the redirect URI with what it knows", status, Plain(answer.Error), Plain(answer.Text))
	case code != http.StatusOK:
		return "", fmt.Errorf("the issuer answers %s", status)
	case parseErr != nil:
		return "", fmt.Errorf("the issuer's answer is not understood: %w", parseErr)
	case !strings.EqualFold(answer.Type, "bearer"):
		return "", fmt.Errorf("the issuer gives a token of the type '%s', and not Bearer", Plain(answer.Type))
	case answer.Token == "" || len(answer.Token) > tokenBytesMax || strings.ContainsFunc(answer.Token, unsafe):
		return "", errors.New("the issuer gives no access token, or not one that can be used")
	}
	return answer.Token, nil
}

// unsafe says what no token in JWS's compact form has (RFC 7515, 3.1).
func unsafe(r rune) bool {
	return r != '.' && r != '-' && r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
}

// plainBytesMax bounds what is repeated of what others say.
const plainBytesMax = 200

// Plain is a text of somebody else's that can be shown: printable ASCII, and not
// too much of it.
func Plain(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text[:min(len(text), plainBytesMax)])
	return text
}

// readAll reads an answer of a bounded size.
func readAll(r io.Reader, address string) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, fetchBytesMax+1))
	if err == nil && len(data) > fetchBytesMax {
		err = fmt.Errorf("%s answers with more than %d bytes", address, fetchBytesMax)
	}
	return data, err
}
