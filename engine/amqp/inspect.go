package amqp

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// What operators see of connections. State machines live on their loops, so each
// loop is asked to look at its own, a few connections at a time: what waits in
// its mailbox meanwhile waits for a few microseconds.

// connsPerLook is how many connections a loop looks at in one go.
const connsPerLook = 64

// ConnectionInfo is a connection as operators see it.
type ConnectionInfo struct {
	Name        string     `json:"name"` // both addresses
	ClientName  string     `json:"client_name"`
	User        string     `json:"user"`
	VHost       string     `json:"vhost"`
	PeerHost    string     `json:"peer_host"`
	PeerPort    uint16     `json:"peer_port"`
	State       string     `json:"state"`
	Channels    int        `json:"channels"`
	ChannelMax  uint16     `json:"channel_max"`
	FrameMax    uint32     `json:"frame_max"`
	Timeout     int        `json:"timeout"` // heartbeat, seconds
	Protocol    string     `json:"protocol"`
	Loop        int        `json:"loop"`
	ConnectedAt int64      `json:"connected_at"` // Unix ms
	Mechanism   string     `json:"auth_mechanism"`
	Properties  amqp.Table `json:"-"` // that the client told, but for its name
	// ID tells connections apart that had the same name one after the other.
	ID        uint64 `json:"-"`
	OctetsIn  uint64 `json:"recv_oct"`
	OctetsOut uint64 `json:"send_oct"`
	Reads     uint64 `json:"recv_cnt"` // of the socket
	Writes    uint64 `json:"send_cnt"`

	TLS              bool   `json:"ssl"`
	TLSProtocol      string `json:"ssl_protocol"`
	TLSKeyExchange   string `json:"ssl_key_exchange"`
	TLSCipher        string `json:"ssl_cipher"`
	TLSHash          string `json:"ssl_hash"`
	PeerCertSubject  string `json:"peer_cert_subject"`
	PeerCertIssuer   string `json:"peer_cert_issuer"`
	PeerCertValidity string `json:"peer_cert_validity"`
}

// ChannelInfo is a channel as operators see it.
type ChannelInfo struct {
	Connection     string `json:"connection"`
	Number         uint16 `json:"number"`
	User           string `json:"user"`
	VHost          string `json:"vhost"`
	Consumers      int    `json:"consumer_count"`
	Prefetch       uint64 `json:"prefetch_count"`
	GlobalPrefetch uint64 `json:"global_prefetch_count"`
	Unacknowledged uint64 `json:"messages_unacknowledged"`
	Unconfirmed    uint64 `json:"messages_unconfirmed"`
	Confirm        bool   `json:"confirm"`
	Transactional  bool   `json:"transactional"`

	ConnectionID uint64       `json:"-"`
	Counts       stats.Counts `json:"-"`
}

// ConsumerInfo is a consumer as operators see it.
type ConsumerInfo struct {
	VHost       string `json:"vhost"`
	Queue       string `json:"queue"`
	Connection  string `json:"connection"`
	Channel     uint16 `json:"channel"`
	User        string `json:"user"`
	Single      bool   `json:"single_active"` // of a queue that serves one consumer only
	Active      bool   `json:"active"`
	Tag         string `json:"consumer_tag"`
	AckRequired bool   `json:"ack_required"`
	Exclusive   bool   `json:"exclusive"`
	Prefetch    uint64 `json:"prefetch_count"`
	Unacked     uint64 `json:"messages_unacknowledged"`

	Arguments amqp.Table `json:"-"`
}

// connName is how operators and logs name a connection.
func connName(remote, local netip.AddrPort) string { return remote.String() + " -> " + local.String() }

// survey has a loop visit its connections, in pieces.
type survey struct {
	sh    *shard
	left  []*conn
	began bool
	visit func(c *conn)
	done  chan<- struct{} // has room
}

// Run implements loop.Runner.
func (s *survey) Run() {
	if !s.began {
		s.began = true
		s.left = slices.Clone(s.sh.conns)
	}
	n := min(len(s.left), connsPerLook)
	for _, c := range s.left[:n] {
		if !c.dead {
			s.visit(c)
		}
	}
	if s.left = s.left[n:]; len(s.left) > 0 {
		s.sh.loop.Post(s)
		return
	}
	s.done <- struct{}{}
}

// survey calls visit for each connection, on its loop: at most one call at a
// time on each of them. It returns when all have been seen, or with the context.
func (s *Server) survey(ctx context.Context, visit func(sh int) func(c *conn)) error {
	done := make(chan struct{}, len(s.shards))
	for i, sh := range s.shards {
		sh.loop.Post(&survey{sh: sh, visit: visit(i), done: done})
	}
	for range s.shards {
		select {
		case <-done:
		case <-ctx.Done():
			return fmt.Errorf("amqp: the connections could not be looked at: %w", ctx.Err())
		}
	}
	return nil
}

// collect gathers what see says of each connection, each loop on its own.
func collect[T any](ctx context.Context, s *Server, see func(c *conn, list []T) []T) ([]T, error) {
	lists := make([][]T, len(s.shards))
	err := s.survey(ctx, func(sh int) func(c *conn) {
		return func(c *conn) { lists[sh] = see(c, lists[sh]) }
	})
	if err != nil {
		return nil, err // a loop may still be writing
	}
	return slices.Concat(lists...), nil
}

func (c *conn) operatorName() string { return connName(c.sock.Remote(), c.sock.Local()) }

func (c *conn) whose() (user, vhost string) {
	if c.user != nil {
		user = c.user.Name
	}
	if c.vhost != nil {
		vhost = c.vhost.Name
	}
	return user, vhost
}

// operatorState words the state the way RabbitMQ's tools do.
func (c *conn) operatorState() string {
	switch c.state {
	case stateOpen:
		switch {
		case c.stall&stallAlarm != 0:
			return "blocked"
		case c.stall&(stallStore|stallQueue|stallSpool) != 0:
			return "flow"
		}
		return "running"
	case stateClosing, stateClosed:
		return "closing"
	}
	return "starting"
}

// Connections lists all connections by name. Any goroutine but a loop's.
func (s *Server) Connections(ctx context.Context) ([]ConnectionInfo, error) {
	list, err := collect(ctx, s, func(c *conn, list []ConnectionInfo) []ConnectionInfo {
		user, vhost := c.whose()
		info := ConnectionInfo{
			Name: c.operatorName(), ClientName: c.name, User: user, VHost: vhost,
			PeerHost: c.sock.Remote().Addr().String(), PeerPort: c.sock.Remote().Port(),
			State: c.operatorState(), Channels: len(c.channels), ChannelMax: c.channelMax, FrameMax: c.frameMax,
			Timeout: int(c.heartbeat.Seconds()), Loop: c.shard.number, ID: c.id,
			OctetsIn: c.octets.in, OctetsOut: c.octets.out, Reads: c.octets.reads, Writes: c.octets.writes,
		}
		c.describeClient(&info)
		c.describeTransport(&info)
		return append(list, info)
	})
	slices.SortFunc(list, func(a, b ConnectionInfo) int { return strings.Compare(a.Name, b.Name) })
	return list, err
}

// Channels lists all channels by connection and number. Any goroutine but a
// loop's.
func (s *Server) Channels(ctx context.Context) ([]ChannelInfo, error) {
	list, err := collect(ctx, s, func(c *conn, list []ChannelInfo) []ChannelInfo {
		user, vhost := c.whose()
		for _, ch := range c.channels {
			unacked := uint64(0)
			for _, r := range ch.unacked.live() {
				unacked += r.count
			}
			info := ChannelInfo{
				ConnectionID: c.id,
				Connection:   c.operatorName(), Number: ch.id, User: user, VHost: vhost, Consumers: len(ch.consumers),
				Prefetch: uint64(ch.prefetch), GlobalPrefetch: uint64(ch.globalLimit), Unacknowledged: unacked,
				Unconfirmed: ch.seq - ch.acked, Confirm: ch.confirm, Transactional: ch.tx != nil,
			}
			if ch.counts != nil {
				info.Counts = ch.counts.Counts
			}
			list = append(list, info)
		}
		return list
	})
	slices.SortStableFunc(list, func(a, b ChannelInfo) int { return strings.Compare(a.Connection, b.Connection) })
	return list, err
}

// Consumers lists all consumers by virtual host, queue and tag. Any goroutine
// but a loop's.
func (s *Server) Consumers(ctx context.Context) ([]ConsumerInfo, error) {
	list, err := collect(ctx, s, func(c *conn, list []ConsumerInfo) []ConsumerInfo {
		user, vhost := c.whose()
		for _, ch := range c.channels {
			for _, cs := range ch.consumers {
				list = append(list, ConsumerInfo{
					VHost: vhost, Queue: cs.Queue.Name, Connection: c.operatorName(), Channel: ch.id, Tag: cs.Tag,
					User: user, Single: cs.Queue.SingleActive(), Active: cs.Queue.Active(&cs.Consumer),
					AckRequired: !cs.NoAck, Exclusive: cs.Exclusive, Prefetch: cs.prefetch, Unacked: cs.unacked,
					Arguments: amqp.Table(cs.argued),
				})
			}
		}
		return list
	})
	slices.SortFunc(list, func(a, b ConsumerInfo) int {
		return slices.Compare([]string{a.VHost, a.Queue, a.Tag, a.Connection}, []string{b.VHost, b.Queue, b.Tag, b.Connection})
	})
	return list, err
}

// Select says which connections CloseConnections is about; what is empty says
// nothing.
type Select struct{ Name, User, VHost string }

func (sel *Select) matches(c *conn) bool {
	user, vhost := c.whose()
	return (sel.Name == "" || sel.Name == c.operatorName()) && (sel.User == "" || sel.User == user) && (sel.VHost == "" || sel.VHost == vhost)
}

// CloseConnections closes those selected; clients and the log are told the
// reason (320). It returns how many there were. Any goroutine but a loop's.
func (s *Server) CloseConnections(ctx context.Context, sel Select, reason string) (int, error) {
	counts := make([]int, len(s.shards))
	err := s.survey(ctx, func(sh int) func(c *conn) {
		return func(c *conn) {
			if c.state < stateClosing && sel.matches(c) {
				counts[sh]++
				c.forceClose(reason)
			}
		}
	})
	if err != nil {
		return 0, err
	}
	n := 0
	for _, m := range counts {
		n += m
	}
	return n, nil
}

// reasonBytesMax leaves room for the code's name in a reply text, which is a
// short string.
const reasonBytesMax = 200

// forceClose ends the connection because somebody wants it to end. Codes: 320.
func (c *conn) forceClose(reason string) {
	if c.state != stateOpen {
		c.shard.srv.logger.Warn("closing AMQP connection", "peer", c.peer(), "code", amqp.CodeConnectionForced, "reason", reason)
		c.closeSocket()
		return
	}
	c.fail(amqp.Errorf(amqp.CodeConnectionForced, 0, "%s", strings.ToValidUTF8(reason[:min(len(reason), reasonBytesMax)], "")))
	c.flush()
}
