package admin

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// health is the answer of a check that is passed: the status alone, or with what
// was looked for.
type health struct {
	Status   string `json:"status"`
	Reason   string `json:"reason,omitempty"`
	Port     uint16 `json:"port,omitempty"`
	Protocol string `json:"protocol,omitempty"`
}

// healthFailed is that of one that is not: 503.
type healthFailed struct {
	Status    string   `json:"status"`
	Reason    string   `json:"reason"`
	Alarms    []Alarm  `json:"alarms,omitempty"`
	Missing   any      `json:"missing,omitempty"`
	Ports     []uint16 `json:"ports,omitempty"`
	Protocols []string `json:"protocols,omitempty"`
}

// Alarm is something that blocks publishers.
type Alarm struct {
	Node     string `json:"node"`
	Resource string `json:"resource"`
}

func (h *Handler) alarms() (list []Alarm) {
	if h.Status().Alarm != "" {
		list = append(list, Alarm{h.Node, "disk"})
	}
	return list
}

// fails answers a check that is not passed.
func fails(q *request, f healthFailed) (any, error) {
	f.Status = "failed"
	send(q.w, http.StatusServiceUnavailable, f)
	return nil, nil
}

func (h *Handler) healthRoutes() {
	const checks = "/api/health/checks/"
	ok := func(*request) (any, error) { return health{Status: "ok"}, nil }
	alarms := func(q *request) (any, error) {
		if list := h.alarms(); list != nil {
			return fails(q, healthFailed{Reason: "There are alarms in effect in the cluster", Alarms: list})
		}
		return ok(q)
	}
	single := func(*request) (any, error) { return health{Status: "ok", Reason: "single node cluster"}, nil }
	h.get(checks+"alarms", Management, "Whether an alarm blocks publishers", alarms)
	h.get(checks+"local-alarms", Management, "Whether an alarm of this node blocks publishers", alarms)
	h.get(checks+"certificate-expiration/{within}/{unit}", Management, "Whether no certificate expires soon", h.checkCertificates)
	h.get(checks+"port-listener/{port}", Management, "Whether something listens on a port", h.checkPort)
	h.get(checks+"protocol-listener/{protocol}", Management, "Whether something listens for a protocol", h.checkProtocol)
	h.get(checks+"virtual-hosts", Management, "Whether all virtual hosts run", ok)
	h.get(checks+"node-is-mirror-sync-critical", Management, "Whether stopping this node would lose mirrors: there are none", single)
	h.get(checks+"node-is-quorum-critical", Management, "Whether stopping this node would lose a quorum: it is alone", single)
	h.get(checks+"ready-to-serve-clients", Management, "Whether clients are served", func(q *request) (any, error) {
		if err := h.Broker.Definitions().Err(); err != nil {
			return fails(q, healthFailed{Reason: err.Error()})
		}
		return ok(q)
	})
	h.get(checks+"is-in-service", Management, "Whether the node is not under maintenance", ok)
	h.get(checks+"below-node-connection-limit", Management, "Whether connections are accepted", ok)
	h.get("/api/healthchecks/node", Management, "An older check of everything", alarms)
	h.get("/api/healthchecks/node/{node}", Management, "An older check of everything", func(q *request) (any, error) {
		if err := h.checkNode(q); err != nil {
			return nil, err
		}
		return alarms(q)
	})
}

func (h *Handler) checkPort(q *request) (any, error) {
	port, err := strconv.ParseUint(q.PathValue("port"), 10, 16)
	if err != nil {
		return nil, problemf(http.StatusBadRequest, "Invalid port")
	}
	var ports []uint16
	for _, l := range h.listeners() {
		ports = append(ports, l.Port)
	}
	if slices.Contains(ports, uint16(port)) {
		return health{Status: "ok", Port: uint16(port)}, nil
	}
	return fails(q, healthFailed{Reason: "No active listener", Missing: port, Ports: ports})
}

// protocolNames are what people call protocols, and what RabbitMQ calls them.
var protocolNames = map[string]string{
	"amqp091": "amqp", "amqp0.9.1": "amqp", "amqp0-9-1": "amqp", "amqps": "amqp/ssl", "tls": "amqp/ssl", "https": "http/ssl",
}

func (h *Handler) checkProtocol(q *request) (any, error) {
	asked := strings.ToLower(q.PathValue("protocol"))
	if name := protocolNames[asked]; name != "" {
		asked = name
	}
	var protocols []string
	for _, l := range h.listeners() {
		protocols = append(protocols, l.Protocol)
	}
	if slices.Contains(protocols, asked) {
		return health{Status: "ok", Protocol: asked}, nil
	}
	return fails(q, healthFailed{Reason: "No active listener", Missing: asked, Protocols: protocols})
}

// checkCertificates looks at what TLS listeners use.
func (h *Handler) checkCertificates(q *request) (any, error) {
	within, err := strconv.ParseUint(q.PathValue("within"), 10, 16)
	if err != nil {
		return nil, problemf(http.StatusBadRequest, "Invalid expiration value.")
	}
	days := map[string]int{"days": 1, "day": 1, "weeks": 7, "week": 7, "months": 30, "month": 30, "years": 365, "year": 365}[strings.ToLower(q.PathValue("unit"))]
	if days == 0 {
		return nil, problemf(http.StatusBadRequest, "Time unit not recognised. Supported units: days, weeks, months, years.")
	}
	limit := time.Now().AddDate(0, 0, days*int(within))
	if h.CertificateExpiry != nil {
		if first, ok := h.CertificateExpiry(); ok && first.Before(limit) {
			return fails(q, healthFailed{Reason: "Certificates expiring", Missing: first.UTC().Format(time.RFC3339)})
		}
	}
	return health{Status: "ok"}, nil
}

// Listener is something that waits for clients.
type Listener struct {
	Node     string `json:"node"`
	Protocol string `json:"protocol"`
	Address  string `json:"ip_address"`
	Port     uint16 `json:"port"`
	Options  []any  `json:"socket_opts"`
}

// listeners lists them by port.
func (h *Handler) listeners() []Listener {
	list := []Listener{}
	for protocol, address := range h.Status().Listeners {
		if a, err := netip.ParseAddrPort(address); err == nil {
			list = append(list, Listener{h.Node, protocol, a.Addr().String(), a.Port(), []any{}})
		}
	}
	slices.SortFunc(list, func(a, b Listener) int { return int(a.Port) - int(b.Port) })
	return list
}
