package identity

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"

	"github.com/basaltmq/basaltmq/engine/broker"
)

// Chain asks several sources of users, in their order: the first that does not
// refuse decides.
type Chain []broker.Authenticator

// Authenticate implements broker.Authenticator.
func (c Chain) Authenticate(user, password []byte, remote netip.Addr) (broker.Login, error) {
	return c.from(0, nil, user, password, remote)
}

// from asks those from the i-th on; refused are the answers of those before.
func (c Chain) from(i int, refused error, user, password []byte, remote netip.Addr) (broker.Login, error) {
	for ; i < len(c); i++ {
		login, err := c[i].Authenticate(user, password, remote)
		switch {
		case err == nil && login.Later == nil, err != nil && !errors.Is(err, broker.ErrRefused):
			return login, err
		case err != nil:
			refused = join(refused, err)
			continue
		}
		if i == len(c)-1 && refused == nil {
			return login, nil
		}
		// What the caller lent is not there any more when this runs.
		user, password := bytes.Clone(user), bytes.Clone(password)
		return broker.Login{Later: func() (broker.Login, error) {
			login, err := login.Later()
			if err == nil || !errors.Is(err, broker.ErrRefused) {
				return login, err
			}
			if login, err = c.from(i+1, join(refused, err), user, password, remote); err != nil {
				return broker.Login{}, err
			}
			return login.Finish()
		}}, nil
	}
	if refused == nil {
		refused = fmt.Errorf("%w: nobody is asked for users", broker.ErrRefused)
	}
	return broker.Login{}, refused
}

// join puts the answers of several into one line.
func join(before, err error) error {
	if before == nil {
		return err
	}
	return fmt.Errorf("%w; %w", before, err)
}
