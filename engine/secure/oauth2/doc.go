// Package oauth2 lets clients log in with a JSON Web Token in the place of their
// password: signed with RS256, ES256 or EdDSA by a key of the issuer, for this
// broker, and not expired. What the user may do is in the token's scopes.
//
// Keys come from the issuer (JWKS, found by OpenID Connect discovery or named) and
// are fetched on a goroutine: in time before they get old, with growing pauses
// while the issuer does not answer, and when a token names a key that is not
// known, at most every so often. Keys that were had once stay until others come.
//
// Scopes:
//
//	tag:TAG                           a tag of the user
//	PERMISSION:VHOST/NAME             configure, write or read, * for any text
//	PERMISSION:VHOST/NAME/ROUTINGKEY  likewise, in topic exchanges
//
// each after a prefix (the broker's resource server id and a dot), with
// percent-encoding in VHOST, NAME and ROUTINGKEY.
//
// For single sign-on (package sso) it finds where users log in and exchanges codes
// for tokens (provider.go).
//
// Invariants:
//
//  1. Authenticate does not block: signatures are checked, and keys waited for, in
//     Login.Later.
//  2. A token is refused unless each check is passed; what is missing in it passes
//     none.
//  3. Verified tokens are remembered, so many at most, until they expire or the
//     issuer's keys change.
//
// Threading: any goroutine. Close ends the fetching.
package oauth2
