// Package sso logs browsers in at the management API by the issuer of OAuth2
// tokens: the authorization code flow (RFC 6749, 4.1) with PKCE (RFC 7636). The
// issuer is package oauth2's business; here is what the browser sees.
//
//	/oauth/authorize  state and verifier into a cookie; off to the issuer
//	/oauth/callback   back with a code: it is exchanged for a token, the token is
//	                  verified and put into a cookie
//	/oauth/logout     the cookie goes
//	/oauth/enabled    whether there is any of this
//
// The token's cookie stands for a Bearer: package admin asks Token for it where a
// request has no Authorization. It is HttpOnly and SameSite=Strict, Secure where
// the broker is reached by https (then with the prefix __Host-), and in several
// pieces if it is too long for one. The broker keeps nothing of a login.
//
// Invariants:
//
//  1. A callback counts once, within stateTime, and only in the browser that was
//     sent away: the cookie, sealed with a key of this process, has the state that
//     the callback must bring.
//  2. Nobody is sent anywhere but to the issuer's endpoint and the configured
//     address of the broker, whatever a request says.
//  3. Codes, verifiers, tokens and the client's secret are in no log and no answer.
//  4. What strangers can make the broker ask of the issuer is bounded: so many
//     exchanges at a time, and none for addresses that are locked out.
//
// Threading: any goroutine.
package sso
