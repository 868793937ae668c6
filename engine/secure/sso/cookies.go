package sso

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	stateCookie = "oauth_state"
	tokenCookie = "oauth_token"
	// hostPrefix has browsers take a cookie from this very host alone, by https
	// (RFC 6265bis, 4.1.3.2).
	hostPrefix = "__Host-"

	// Browsers keep 4,096 bytes of a cookie, its name and attributes included; three
	// of them are what a request's header has room for.
	pieceBytesMax = 3800
	piecesMax     = 3
)

func (s *SSO) stateName() string { return s.prefixed(stateCookie) }

func (s *SSO) tokenName() string { return s.prefixed(tokenCookie) }

func (s *SSO) prefixed(name string) string {
	if s.secure {
		return hostPrefix + name
	}
	return name
}

// setCookie sets one for the whole host, out of reach of scripts. Without a value
// it goes.
func (s *SSO) setCookie(w http.ResponseWriter, name, value string, site http.SameSite, life time.Duration) {
	c := &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: s.secure, SameSite: site, MaxAge: int(life / time.Second)}
	if value == "" || c.MaxAge <= 0 {
		c.Value, c.MaxAge = "", -1
	}
	http.SetCookie(w, c)
}

func (s *SSO) pieceName(i int) string {
	if i == 0 {
		return s.tokenName()
	}
	return s.tokenName() + "_" + strconv.Itoa(i)
}

// setToken gives the browser a token, in as many pieces as it takes; an empty one
// takes the last away.
func (s *SSO) setToken(w http.ResponseWriter, token string, life time.Duration) error {
	if len(token) > piecesMax*pieceBytesMax {
		return fmt.Errorf("the token has %d bytes, and cookies take %d: have the issuer put less into it", len(token), piecesMax*pieceBytesMax)
	}
	for i := range piecesMax {
		n := min(len(token), pieceBytesMax)
		s.setCookie(w, s.pieceName(i), token[:n], http.SameSiteStrictMode, life)
		token = token[n:]
	}
	return nil
}

// Token is the one that a browser brings.
func (s *SSO) Token(r *http.Request) (token []byte, ok bool) {
	if s == nil || r.Header.Get("Cookie") == "" {
		return nil, false
	}
	var text strings.Builder
	for i := range piecesMax {
		c, err := r.Cookie(s.pieceName(i))
		if err != nil {
			break
		}
		text.WriteString(c.Value)
	}
	return []byte(text.String()), text.Len() > 0
}
