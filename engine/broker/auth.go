package broker

import (
	"crypto/subtle"
	"errors"
	"net/netip"
)

// ErrRefused is returned for unknown users, wrong passwords and users that may
// not come from where they come; the caller does not learn which.
var ErrRefused = errors.New("broker: login refused")

// Authenticator decides who may connect. Later backends (hashed users, tokens)
// implement it too.
type Authenticator interface {
	// Authenticate checks a user name and password given from remote (invalid
	// for unix sockets, which count as local).
	Authenticate(user, password []byte, remote netip.Addr) error
}

// StaticUser is the one built-in user. It may only come from the loopback
// interface, as the default user of other brokers.
type StaticUser struct{ Name, Password string }

// Authenticate implements Authenticator.
func (u StaticUser) Authenticate(user, password []byte, remote netip.Addr) error {
	name := subtle.ConstantTimeCompare(user, []byte(u.Name))
	pass := subtle.ConstantTimeCompare(password, []byte(u.Password))
	local := !remote.IsValid() || remote.Unmap().IsLoopback()
	if name&pass != 1 || !local {
		return ErrRefused
	}
	return nil
}
