package admin

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/definitions"
	"github.com/basaltmq/basaltmq/engine/metrics"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// Connection is a connection.
type Connection struct {
	amqp.ConnectionInfo
	Node         string          `json:"node"`
	Host         string          `json:"host"`
	Port         uint16          `json:"port"`
	Type         string          `json:"type"`
	UserProvided string          `json:"user_provided_name,omitempty"`
	PerformedBy  string          `json:"user_who_performed_action"`
	Properties   json.RawMessage `json:"client_properties"`
	SendPending  int             `json:"send_pend"`
	*metrics.Octets

	// Null without TLS, in place of ConnectionInfo's.
	TLSProtocol      *string `json:"ssl_protocol"`
	TLSKeyExchange   *string `json:"ssl_key_exchange"`
	TLSCipher        *string `json:"ssl_cipher"`
	TLSHash          *string `json:"ssl_hash"`
	PeerCertSubject  *string `json:"peer_cert_subject"`
	PeerCertIssuer   *string `json:"peer_cert_issuer"`
	PeerCertValidity *string `json:"peer_cert_validity"`
}

func (h *Handler) connection(c amqp.ConnectionInfo, v *view) any {
	out := Connection{ConnectionInfo: c, Node: h.Node, Type: "network", UserProvided: c.ClientName, PerformedBy: c.User}
	out.TLSProtocol, out.TLSKeyExchange, out.TLSCipher, out.TLSHash = nameOrNull(c.TLSProtocol), nameOrNull(c.TLSKeyExchange), nameOrNull(c.TLSCipher), nameOrNull(c.TLSHash)
	out.PeerCertSubject, out.PeerCertIssuer, out.PeerCertValidity = nameOrNull(c.PeerCertSubject), nameOrNull(c.PeerCertIssuer), nameOrNull(c.PeerCertValidity)
	_, local := endpoints(c.Name)
	out.Host, out.Port = local.Addr().String(), local.Port()
	properties := c.Properties
	if c.ClientName != "" {
		var b wire.TableBuilder
		b.SetString("connection_name", c.ClientName)
		properties = append(append(wire.Table(nil), properties...), b.Table()...)
	}
	out.Properties = definitions.TableJSON(properties)
	if h.Stats != nil && v.detail == detailFull {
		octets := h.Stats.Connection(&c, v.spans)
		out.Octets = &octets
	}
	return out
}

// endpoints reads the two addresses that a connection's name consists of.
func endpoints(name string) (remote, local netip.AddrPort) {
	from, to, _ := strings.Cut(name, " -> ")
	remote, _ = netip.ParseAddrPort(from)
	local, _ = netip.ParseAddrPort(to)
	return remote, local
}

// connections returns what the one who asks may see: of others' in the virtual
// hosts that he may use; with the monitoring tag, everything.
func (h *Handler) connections(q *request, keep func(c *amqp.ConnectionInfo) bool) ([]amqp.ConnectionInfo, error) {
	visible, err := h.visible(q)
	if err != nil {
		return nil, err
	}
	ctx, cancel := loops(q)
	defer cancel()
	all, err := h.AMQP.Connections(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(c amqp.ConnectionInfo) bool {
		return !visible(c.VHost) || !q.id.Is(Monitoring) && c.User != q.id.Name() || keep != nil && !keep(&c)
	})
	return all, nil
}

func (h *Handler) connectionRoutes() {
	send := func(q *request, keep func(c *amqp.ConnectionInfo) bool) (any, error) {
		all, err := h.connections(q, keep)
		if err != nil {
			return nil, err
		}
		return sendList(q, listing[amqp.ConnectionInfo]{
			all:  all,
			name: func(c amqp.ConnectionInfo) string { return c.Name },
			show: h.connection,
		})
	}
	list := func(q *request) (any, error) { return send(q, nil) }
	byUser := func(q *request) func(c *amqp.ConnectionInfo) bool {
		return func(c *amqp.ConnectionInfo) bool { return c.User == q.PathValue("user") }
	}
	h.get("/api/connections", Management, "Connections", list)
	h.get("/api/vhosts/{vhost}/connections", Management, "Connections to a virtual host", list)
	h.get("/api/connections/username/{user}", Management, "Connections of a user", func(q *request) (any, error) { return send(q, byUser(q)) })
	h.get("/api/connections/{name}", Management, "A connection", func(q *request) (any, error) {
		c, err := h.findConnection(q)
		if err != nil {
			return nil, err
		}
		return h.connection(c, &view{spans: metrics.SpansOf(q.URL.Query())}), nil
	})
	h.get("/api/connections/{name}/channels", Management, "The channels of a connection", func(q *request) (any, error) {
		c, err := h.findConnection(q)
		if err != nil {
			return nil, err
		}
		return h.sendChannels(q, func(ch *amqp.ChannelInfo) bool { return ch.Connection == c.Name })
	})
	h.change("DELETE /api/connections/{name}", Management, "Close a connection; the header X-Reason says why", func(q *request) (uint64, error) {
		c, err := h.findConnection(q)
		if err != nil {
			return 0, err
		}
		n, err := h.closeConnections(q, amqp.Select{Name: c.Name})
		if err == nil && n == 0 {
			err = noConnection(c.Name)
		}
		return 0, err
	})
	h.change("DELETE /api/connections/username/{user}", Management, "Close the connections of a user; the header X-Reason says why", func(q *request) (uint64, error) {
		if user := q.PathValue("user"); user != q.id.Name() && !q.id.Is(Administrator) {
			return 0, problemf(http.StatusUnauthorized, "connections of other users are for administrators to close")
		}
		_, err := h.closeConnections(q, amqp.Select{User: q.PathValue("user")})
		return 0, err
	})
	h.answer("DELETE /api/connections", Administrator, "Close all connections, or those of ?user= or ?vhost=; the header X-Reason says why", func(q *request) (any, error) {
		n, err := h.closeConnections(q, amqp.Select{User: q.query("user"), VHost: q.query("vhost")})
		return map[string]int{"closed": n}, err
	})
}

func noConnection(name string) error {
	return problemf(http.StatusNotFound, "there is no connection '%s'", name)
}

func (h *Handler) findConnection(q *request) (c amqp.ConnectionInfo, err error) {
	name := q.PathValue("name")
	found, err := h.connections(q, func(c *amqp.ConnectionInfo) bool { return c.Name == name })
	if err == nil && len(found) == 0 {
		err = noConnection(name)
	}
	if err != nil {
		return c, err
	}
	return found[0], nil
}

func (h *Handler) closeConnections(q *request, sel amqp.Select) (int, error) {
	ctx, cancel := loops(q)
	defer cancel()
	reason := q.Header.Get("X-Reason")
	if reason == "" {
		reason = "Closed via management plugin" // clients and their tests know these words
	}
	return h.AMQP.CloseConnections(ctx, sel, reason)
}
