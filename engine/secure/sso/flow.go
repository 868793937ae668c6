package sso

import (
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/secure/oauth2"
	"github.com/basaltmq/basaltmq/engine/stats"
)

func (s *SSO) redirectURI() string { return s.BaseURL + "/oauth/callback" }

// authorize begins a login. Browsers that go there are sent on; programs, which ask
// for JSON, are told the address.
func (s *SSO) authorize(w http.ResponseWriter, r *http.Request) error {
	if s == nil {
		return errOff
	}
	provider, err := s.Backend.Provider(r.Context())
	if err != nil {
		s.Logger.Warn("single sign-on: the issuer's configuration cannot be had", "err", err)
		return refusef(http.StatusBadGateway, "the issuer cannot be reached, or what it answers is not understood; the broker's log says more")
	}
	login, cookie := s.seal.begin(s.now())
	target, err := url.Parse(provider.AuthorizationEndpoint)
	if err != nil {
		return err // it was checked
	}
	query := target.Query()
	for name, value := range map[string]string{
		"response_type": "code", "client_id": s.ClientID, "redirect_uri": s.redirectURI(), "scope": strings.Join(s.Scopes, " "),
		"state": login.state, "code_challenge": login.challenge(), "code_challenge_method": "S256",
	} {
		query.Set(name, value)
	}
	target.RawQuery = query.Encode()
	// Lax: the callback is a navigation that another site begins.
	s.setCookie(w, s.stateName(), cookie, http.SameSiteLaxMode, stateTime)
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		w.Header().Set("Location", target.String())
		w.WriteHeader(http.StatusSeeOther)
		return nil
	}
	admin.Answer(w, Authorize{target.String()})
	return nil
}

// callback ends a login.
func (s *SSO) callback(w http.ResponseWriter, r *http.Request) error {
	if s == nil {
		return errOff
	}
	remote := remoteOf(r)
	if s.Lockout.Locked(remote) {
		return refusef(http.StatusTooManyRequests, "too many failed logins came from this address: it is locked for a while")
	}
	query := r.URL.Query()
	login, err := s.returned(r, query)
	s.setCookie(w, s.stateName(), "", http.SameSiteLaxMode, 0) // it has had its use
	if err != nil {
		return err
	}
	token, user, err := s.exchange(r, login, query.Get("code"))
	if err != nil {
		var denied *denial
		if !errors.As(err, &denied) {
			return err
		}
		s.Attempts.Count(stats.HTTP, remote, user, false)
		s.Lockout.Failed(remote, []byte(user), []byte(login.state))
		s.Logger.Warn("a single sign-on is refused", "user", user, "peer", r.RemoteAddr, "reason", denied.reason)
		return refusef(http.StatusUnauthorized, "Login failed")
	}
	if err := s.setToken(w, token.text, token.life); err != nil {
		s.Logger.Warn("a single sign-on is refused", "user", user, "peer", r.RemoteAddr, "reason", err)
		return refusef(http.StatusBadGateway, "%v", err)
	}
	s.Attempts.Count(stats.HTTP, remote, user, true)
	s.Logger.Info("logged in by single sign-on", "user", user, "peer", r.RemoteAddr, "for", token.life.Round(time.Second))
	s.home(w)
	return nil
}

// returned finds the login that a callback belongs to.
func (s *SSO) returned(r *http.Request, query url.Values) (pending, error) {
	const again = ": begin anew at /oauth/authorize"
	cookie, err := r.Cookie(s.stateName())
	if err != nil {
		return pending{}, refusef(http.StatusBadRequest, "this browser has not begun to log in, or it took longer than %v"+again, stateTime)
	}
	login, ok := s.seal.open(cookie.Value, s.now())
	if !ok || subtle.ConstantTimeCompare([]byte(login.state), []byte(query.Get("state"))) != 1 {
		return pending{}, refusef(http.StatusBadRequest, "the state is not the one that this browser was sent away with, or is older than %v"+again, stateTime)
	}
	switch fresh, full := s.used.use(login.state, s.now()); {
	case full:
		return pending{}, refusef(http.StatusServiceUnavailable, "too many logins at a time: try again in a while")
	case !fresh:
		return pending{}, refusef(http.StatusBadRequest, "this login has ended already"+again)
	}
	// Who answers says so (RFC 9207), if the issuer is one that does.
	if iss := query.Get("iss"); iss != "" && !oauth2.SameIssuer(iss, s.Backend.Issuer) {
		return pending{}, refusef(http.StatusBadRequest, "the answer is another issuer's"+again)
	}
	if code := query.Get("error"); code != "" {
		s.Logger.Warn("single sign-on: the issuer refuses", "peer", r.RemoteAddr, "error", oauth2.Plain(code), "description", oauth2.Plain(query.Get("error_description")))
		return pending{}, refusef(http.StatusUnauthorized, "the issuer refuses: %s", oauth2.Plain(code))
	}
	if n := len(query.Get("code")); n == 0 || n > codeBytesMax {
		return pending{}, refusef(http.StatusBadRequest, "the issuer has sent no code, or one that is too long")
	}
	return login, nil
}

// denial is why somebody is not let in; he does not learn it.
type denial struct{ reason string }

func (d *denial) Error() string { return d.reason }

// accepted is a token that was looked at.
type accepted struct {
	text string
	life time.Duration
}

// exchange gets a token for a code, and looks at it as at any other.
func (s *SSO) exchange(r *http.Request, login pending, code string) (token accepted, user string, err error) {
	select {
	case s.exchanges <- struct{}{}:
		defer func() { <-s.exchanges }()
	default:
		return token, "", refusef(http.StatusServiceUnavailable, "too many logins at a time: try again in a while")
	}
	text, err := s.Backend.Exchange(r.Context(), oauth2.Code{
		ClientID: s.ClientID, ClientSecret: s.ClientSecret, RedirectURI: s.redirectURI(), Code: code, Verifier: login.verifier,
	})
	switch {
	case errors.Is(err, oauth2.ErrGrant):
		return token, "", &denial{err.Error()}
	case err != nil:
		s.Logger.Warn("single sign-on: the issuer gives no token", "err", err)
		return token, "", refusef(http.StatusBadGateway, "the issuer gives no token; the broker's log says more")
	}
	verified, err := s.Backend.Authenticate(nil, []byte(text), remoteOf(r))
	if err == nil {
		verified, err = verified.Finish()
	}
	switch {
	case errors.Is(err, broker.ErrRefused):
		return token, "", &denial{err.Error()}
	case err != nil:
		return token, "", err
	}
	user = verified.User.Name
	if !administers(verified.User) {
		return token, user, &denial{"the token gives none of the tags management, policymaker, monitoring, administrator"}
	}
	return accepted{text, min(verified.Expires.Sub(s.now()), loginTimeMax)}, user, nil
}

// administers says whether a user may use the API at all.
func administers(u *access.User) bool {
	for _, tag := range []string{access.TagAdministrator, access.TagMonitoring, access.TagPolicymaker, access.TagManagement} {
		if u.HasTag(tag) {
			return true
		}
	}
	return false
}

// logout has the browser forget its token.
func (s *SSO) logout(w http.ResponseWriter, _ *http.Request) error {
	if s == nil {
		return errOff
	}
	_ = s.setToken(w, "", 0) // an empty one is not too long
	s.home(w)
	return nil
}

// home leads to where the broker is.
func (s *SSO) home(w http.ResponseWriter) {
	w.Header().Set("Location", s.BaseURL+"/")
	w.WriteHeader(http.StatusSeeOther)
}

func remoteOf(r *http.Request) netip.Addr {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.IPv6Unspecified() // unknown is not local
	}
	return address.Addr()
}
