package broker

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/basaltmq/basaltmq/engine/access"
)

// ErrRefused is returned for unknown users, wrong passwords and users that may
// not come from where they come; the caller's peer does not learn which.
var ErrRefused = errors.New("broker: login refused")

// Authenticator decides who may connect, by name and password. The broker's own
// users are one (Broker); others may take the password for a token.
type Authenticator interface {
	// Authenticate checks a user name and password given from remote (invalid
	// for unix sockets, which count as local). It does not block: see Login.
	// Errors wrap ErrRefused; their text is for the log.
	Authenticate(user, password []byte, remote netip.Addr) (Login, error)
}

// Login is a login that was not refused.
type Login struct {
	User *access.User
	// Expires is when the login ends; zero: never.
	Expires time.Time
	// Renew takes a new secret for the same user (connection.update-secret); nil:
	// the login does not depend on one any more.
	Renew func(secret []byte) (Login, error)
	// Later, if not nil, has to be called for the login, and nothing else here
	// counts: it may take long, or block, and is not for a loop. The login it
	// returns has no Later. Errors wrap ErrRefused.
	Later func() (Login, error)
}

// Finish is Later, where there is one.
func (l Login) Finish() (Login, error) {
	if l.Later == nil {
		return l, nil
	}
	return l.Later()
}

// Authenticate implements Authenticator with the users of the definitions.
func (b *Broker) Authenticate(user, password []byte, remote netip.Addr) (Login, error) {
	u, slow, ok := b.users.Authenticate(user, password)
	if !ok {
		return Login{}, fmt.Errorf("%w: unknown user, no password, or the wrong one", ErrRefused)
	}
	if err := b.checkOrigin(u, remote); err != nil {
		return Login{}, err
	}
	if slow == nil {
		return Login{User: u}, nil
	}
	return Login{Later: func() (Login, error) {
		if slow() {
			return Login{User: u}, nil
		}
		return Login{}, fmt.Errorf("%w: wrong password", ErrRefused)
	}}, nil
}

// Identify finds a user that something else has authenticated: a certificate, or
// the operating system.
func (b *Broker) Identify(user []byte, remote netip.Addr) (Login, error) {
	u := b.users.User(user)
	if u == nil {
		return Login{}, fmt.Errorf("%w: unknown user", ErrRefused)
	}
	return Login{User: u}, b.checkOrigin(u, remote)
}

// checkOrigin keeps loopback users to the loopback interface.
func (b *Broker) checkOrigin(u *access.User, remote netip.Addr) error {
	local := !remote.IsValid() || remote.Unmap().IsLoopback()
	if !local && slices.Contains(b.loopback, u.Name) {
		return fmt.Errorf("%w: user '%s' can only connect via localhost", ErrRefused, u.Name)
	}
	return nil
}

// AccessVersion is another number after every change of users or permissions.
func (b *Broker) AccessVersion() uint64 { return b.users.Version() }

// Grant returns what a user may do in a virtual host. To be asked for again when
// AccessVersion, read before, has changed.
func (b *Broker) Grant(u *access.User, vh *VHost) *access.Grant { return b.users.Grant(u, vh.Name) }

// Permitted voids what clients of a virtual host have been permitted: the
// permissions of one of them have changed elsewhere.
func (b *Broker) Permitted(vh *VHost) { vh.version.Add(1) }

// OnRevoked sets what is called, from any goroutine, after a user or virtual
// host has been deleted: connections that see User.Deleted or VHost.Deleted are
// to be closed.
func (b *Broker) OnRevoked(f func()) { b.revoked.Store(&f) }

func (b *Broker) revoke() {
	if f := b.revoked.Load(); f != nil {
		(*f)()
	}
}
