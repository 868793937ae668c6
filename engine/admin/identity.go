package admin

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/stats"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// Identity is who asks. The nil Identity is the broker's own operator, who came
// through the control socket and may do everything.
type Identity struct {
	user   *access.User
	broker *broker.Broker
}

type contextKey int

const (
	identityKey contextKey = iota // *Identity
	trustedKey                    // the connection is the control socket's
)

// IdentityOf returns who asks; the request is one that a Handler passes on, of
// a route whose role is not None.
func IdentityOf(r *http.Request) *Identity {
	id, _ := r.Context().Value(identityKey).(*Identity)
	return id
}

// trusted marks the connections of the control socket.
func trusted(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, trustedKey, true)
}

// Name is the user's.
func (id *Identity) Name() string {
	if id == nil {
		return amqp.OperatorName
	}
	return id.user.Name
}

// account is the user; nil: the broker's own operator.
func (id *Identity) account() *access.User {
	if id == nil {
		return nil
	}
	return id.user
}

// Tags are the user's.
func (id *Identity) Tags() []string {
	if id == nil {
		return []string{access.TagAdministrator}
	}
	return notNil(id.user.Spec().Tags)
}

// Is says whether the user has a role.
func (id *Identity) Is(role Role) bool {
	if id == nil || role == None || id.user.HasTag(access.TagAdministrator) {
		return true
	}
	switch role {
	case Management:
		return id.user.HasTag(access.TagManagement) || id.user.HasTag(access.TagPolicymaker) || id.user.HasTag(access.TagMonitoring)
	case PolicyMaker:
		return id.user.HasTag(access.TagPolicymaker)
	case Monitoring:
		return id.user.HasTag(access.TagMonitoring)
	}
	return false
}

// isLocal says whether the user is one of the broker's own, and not one of the
// same name that somebody else vouches for.
func (id *Identity) isLocal() bool {
	if id == nil {
		return false
	}
	login, err := id.broker.Identify([]byte(id.user.Name), netip.Addr{})
	return err == nil && login.User == id.user
}

// grant is what the user may do in a virtual host, nil for nothing.
func (id *Identity) grant(vh *broker.VHost) *access.Grant { return id.broker.Grant(id.user, vh) }

// Enters says whether the user may use a virtual host: it has permissions there,
// whatever they are.
func (id *Identity) Enters(vh *broker.VHost) bool { return id == nil || id.grant(vh).Granted() }

// Sees says whether the user may know of a virtual host and of what is in it.
func (id *Identity) Sees(vh *broker.VHost) bool { return id.Is(Monitoring) || id.Enters(vh) }

// In is the user as one who does something in a virtual host, which takes the
// same permissions as over AMQP. Tags do not stand in for them.
func (id *Identity) In(vh *broker.VHost) broker.Permitter { return permitter{id, vh} }

type permitter struct {
	*Identity
	vhost *broker.VHost
}

// Permit implements broker.Permitter. Codes: 403.
func (p permitter) Permit(what access.Permission, kind, name string) error {
	if p.Identity == nil {
		return nil
	}
	if kind == "exchange" && name == "" {
		name = "amq.default"
	}
	if p.grant(p.vhost).Allows(what, []byte(name)) {
		return nil
	}
	return wire.Errorf(wire.CodeAccessRefused, 0, "%s access to %s '%s' in vhost '%s' refused for user '%s'", what, kind, name, p.vhost.Name, p.Name())
}

// errLogin is answered to those who are not who they say; they do not learn why.
var errLogin = &problem{status: http.StatusUnauthorized, name: "not_authorized", text: "Login failed", challenge: true}

// errSession is the same for a browser whose login has ended: it is not to ask its
// user for a password.
var errSession = &problem{status: http.StatusUnauthorized, name: "not_authorized", text: "Login failed"}

// sameOrigin tells what pages of other sites have browsers send.
var sameOrigin = http.NewCrossOriginProtection()

// identify finds out who sends a request.
func (h *Handler) identify(r *http.Request) (*Identity, error) {
	if r.Context().Value(trustedKey) != nil {
		return nil, nil
	}
	user, password, ok := credentials(r)
	refused := errLogin
	if !ok && h.Session != nil && r.Header.Get("Authorization") == "" {
		// What a page of another site has a browser do is not its user's doing.
		if password, ok = h.Session(r); ok && sameOrigin.Check(r) != nil {
			return nil, problemf(http.StatusForbidden, "a page of another site sends this request")
		}
		refused = errSession
	}
	if !ok {
		return nil, errLogin
	}
	remote := remoteOf(r)
	login, err := h.Authenticator.Authenticate(user, password, remote)
	if err == nil {
		login, err = login.Finish()
	}
	name := string(user)
	if err == nil {
		name = login.User.Name
	}
	h.Attempts.Count(stats.HTTP, remote, name, err == nil)
	if err != nil {
		if !errors.Is(err, broker.ErrRefused) {
			return nil, err
		}
		h.Logger.Warn("a login to the HTTP API is refused", "user", string(user), "peer", r.RemoteAddr, "reason", err)
		return nil, refused
	}
	return &Identity{login.User, h.Broker}, nil
}

// credentials reads Basic and Bearer. A token comes without a user's name.
func credentials(r *http.Request) (user, password []byte, ok bool) {
	if name, text, ok := r.BasicAuth(); ok {
		return []byte(name), []byte(text), true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if token = strings.TrimSpace(token); strings.EqualFold(scheme, "Bearer") && token != "" {
		return nil, []byte(token), true
	}
	return nil, nil, false
}

func remoteOf(r *http.Request) netip.Addr {
	address, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.IPv6Unspecified() // unknown is not local
	}
	return address.Addr()
}
