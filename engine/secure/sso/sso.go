package sso

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/secure/identity"
	"github.com/basaltmq/basaltmq/engine/secure/oauth2"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// Bounds, with their reasons.
const (
	// stateTime is how long a user may take at the issuer.
	stateTime = 5 * time.Minute
	// loginTimeMax ends a login of a token that lasts for longer.
	loginTimeMax = 8 * time.Hour
	// exchangesMax is how many codes are exchanged at a time: each holds a
	// connection to the issuer.
	exchangesMax = 8
	// usedMax is how many callbacks are remembered: those of the last stateTime.
	usedMax = 1024
	// codeBytesMax bounds what is passed on to the issuer.
	codeBytesMax = 4096
)

// Options say who the broker is to the issuer.
type Options struct {
	ClientID     string
	ClientSecret string // empty: a public client, by PKCE alone
	// BaseURL is where browsers find the management API, as the issuer knows it:
	// the redirect URI is this and /oauth/callback.
	BaseURL string
	Scopes  []string // that are asked for

	Backend  *oauth2.Backend
	Lockout  *identity.Lockout // nil: none
	Attempts *stats.Attempts   // nil: logins are not counted
	Logger   *slog.Logger
}

func (o *Options) check() error {
	switch {
	case o.Backend == nil:
		return errors.New("sso: single sign-on needs tokens: name oauth2 in auth.backends")
	case o.Backend.Issuer == "":
		return errors.New("sso: single sign-on needs oauth2.issuer, whose configuration says where users log in")
	case o.BaseURL == "":
		return errors.New("sso: single sign-on needs oauth2.mgmt_base_url: where do browsers find the API?")
	}
	if err := oauth2.CheckURL("oauth2.mgmt_base_url", o.BaseURL); err != nil {
		return err
	}
	if u, err := url.Parse(o.BaseURL); err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("sso: oauth2.mgmt_base_url '%s' has more than a host, a port and a path", o.BaseURL)
	}
	return nil
}

// SSO logs browsers in. The nil SSO says that there is no single sign-on.
type SSO struct {
	Options
	secure    bool // the browsers come by https
	seal      *sealer
	used      usedStates
	exchanges chan struct{}
	now       func() time.Time
}

// New makes one.
func New(o Options) (*SSO, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.BaseURL = strings.TrimSuffix(o.BaseURL, "/")
	s := &SSO{Options: o, secure: strings.HasPrefix(o.BaseURL, "https:"), seal: newSealer(), exchanges: make(chan struct{}, exchangesMax), now: time.Now}
	return s, nil
}

// Enabled is the answer to whether there is single sign-on.
type Enabled struct {
	Enabled bool `json:"enabled"`
}

// Authorize tells programs where to send their user.
type Authorize struct {
	URL string `json:"authorize_url"`
}

// Routes are the endpoints, for everybody.
func (s *SSO) Routes() []admin.Route {
	route := func(path, summary string, answer any, f func(w http.ResponseWriter, r *http.Request) error, query ...string) admin.Route {
		return admin.Route{Pattern: "GET " + path, Role: admin.None, Summary: summary, Answer: answer, Query: query,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				header := w.Header()
				header.Set("Cache-Control", "no-store")
				header.Set("Referrer-Policy", "no-referrer") // addresses have codes in them
				if err := f(w, r); err != nil {
					refuse(w, err)
				}
			})}
	}
	return []admin.Route{
		route("/oauth/enabled", "Whether browsers can log in by single sign-on", Enabled{}, s.enabled),
		route("/oauth/authorize", "Begin to log in: leads browsers to the issuer, and tells programs where it is", Authorize{}, s.authorize),
		route("/oauth/callback", "Where the issuer sends browsers back to", nil, s.callback, "code", "state", "iss", "error", "error_description"),
		route("/oauth/logout", "Forget the login of this browser", nil, s.logout),
	}
}

// Settings are what /api/auth tells; nil: there is no single sign-on.
func (s *SSO) Settings(local bool) *admin.SingleSignOn {
	if s == nil {
		return nil
	}
	return &admin.SingleSignOn{
		ClientID: s.ClientID, Issuer: s.Backend.Issuer, Scopes: strings.Join(s.Scopes, " "),
		ResourceID: s.Backend.ResourceServerID, Local: local, Cookie: s.tokenName(),
	}
}

// refusal is an answer other than the one that was asked for.
type refusal struct {
	status int
	text   string
}

func (e *refusal) Error() string { return e.text }

func refusef(status int, format string, args ...any) error {
	return &refusal{status, fmt.Sprintf(format, args...)}
}

func refuse(w http.ResponseWriter, err error) {
	var r *refusal
	if !errors.As(err, &r) {
		r = &refusal{http.StatusInternalServerError, err.Error()}
	}
	admin.Refuse(w, r.status, r.text)
}

var errOff = &refusal{http.StatusServiceUnavailable, "there is no single sign-on: oauth2.client_id and oauth2.mgmt_base_url turn it on"}

func (s *SSO) enabled(w http.ResponseWriter, _ *http.Request) error {
	admin.Answer(w, Enabled{s != nil})
	return nil
}
