package amqp

import (
	"log/slog"
	"net/netip"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/bodies"
)

// Options configure a Server. Zero values mean the defaults.
type Options struct {
	Broker *broker.Broker
	// Mechanisms are what clients may log in with, in the order of preference;
	// nil: passwords of the broker's users.
	Mechanisms []Mechanism
	Loops      []*loop.Loop
	Logger     *slog.Logger
	Version    string
	Node       string          // for traces
	Attempts   *stats.Attempts // logins are counted there; nil: nowhere

	Tuning Tuning
	// SetTimestamp gives messages that come without a timestamp property one.
	SetTimestamp bool
}

// Server is what all AMQP connections share.
type Server struct {
	broker       *broker.Broker
	mechanisms   []Mechanism
	attempts     *stats.Attempts
	logger       *slog.Logger
	version      string
	node         string
	tuning       atomic.Pointer[Tuning]
	setTimestamp bool
	bodies       *bodies.Store // nil: large bodies stay in memory
	shards       []*shard
	nextConn     atomic.Uint64
	replies      replies                // see replyto.go
	alarm        atomic.Pointer[string] // why publishers are blocked; nil: they are not
	clients      clientKinds
}

// shard is a Server's part on one loop.
type shard struct {
	srv    *Server
	number int // among the server's
	loop   *loop.Loop
	pool   *arena.Pool

	conns    []*conn                 // in no order; see conn.place
	attempts map[*conn]*loginAttempt // logins of several messages; see sasl.go
	limited  map[*conn]*limited      // logins that end; see secret.go
	// greetings are frames of connection.start, by the set of mechanisms offered.
	greetings map[uint64][]byte
	waiting   []*conn // for a commit: confirms, a barrier, or relief of the store
	looking   []*conn // those being looked at
	// wanted is set while waiting is not empty; read by the store's goroutine.
	wanted atomic.Bool
	posted atomic.Bool

	latency    latencies
	tracer     tracer
	batch      batch
	tally      tally              // of published messages
	positions  segstore.Positions // of records that consumers pass over
	tx         *segstore.Tx       // while a transaction is being applied
	scratch    []byte             // frames under construction
	spareGet   *pendingGet        // for the next basic.get; nil: none
	refBytes   [bodies.RefBytes]byte
	assembling int      // bytes of buffers that hold incomplete bodies
	doomed     []doomed // see external.go
	closing    bool
	alarm      string // why publishers are blocked; see alarm.go
}

func (sh *shard) add(c *conn) {
	c.place = len(sh.conns)
	sh.conns = append(sh.conns, c)
}

// remove puts the last connection into the place of c.
func (sh *shard) remove(c *conn) {
	end := len(sh.conns) - 1
	last := sh.conns[end]
	sh.conns[c.place], last.place = last, c.place
	sh.conns[end] = nil
	if sh.conns = sh.conns[:end]; end == 0 {
		sh.conns = nil
	}
}

// NewServer makes a Server.
func NewServer(o Options) *Server {
	s := &Server{
		broker: o.Broker, mechanisms: o.Mechanisms, attempts: o.Attempts, logger: o.Logger, version: o.Version, node: o.Node,
		bodies: o.Broker.Bodies(), setTimestamp: o.SetTimestamp,
	}
	if s.mechanisms == nil {
		s.mechanisms = []Mechanism{Plain(o.Broker), AMQPlain(o.Broker)}
	}
	s.Tune(o.Tuning)
	for i, l := range o.Loops {
		sh := &shard{srv: s, number: i, loop: l, pool: l.Arena()}
		sh.batch.builder = segstore.NewBatch(l.Arena())
		s.shards = append(s.shards, sh)
	}
	o.Broker.OnRevoked(s.revoked)
	return s
}

// Accept takes a connected socket over, on the loop with the fewest
// connections. An address that is not valid is asked of the socket. Any goroutine.
func (s *Server) Accept(fd int, remote, local netip.AddrPort) {
	best := s.leastBusy()
	best.loop.AdoptLink(fd, loop.Link{Remote: remote, Local: local}, best.begin)
}

// begin makes the handler of a socket that the shard's loop has taken over.
func (sh *shard) begin(c *loop.Conn) loop.Handler { return newConn(sh, c) }

func (s *Server) leastBusy() *shard {
	best := s.shards[0]
	for _, sh := range s.shards[1:] {
		if sh.loop.Conns() < best.loop.Conns() {
			best = sh
		}
	}
	return best
}

// Committed must be called when the store or the definitions made progress.
// Any goroutine.
func (s *Server) Committed() {
	for _, sh := range s.shards {
		if sh.wanted.Load() && sh.posted.CompareAndSwap(false, true) {
			sh.loop.Post(sh)
		}
	}
}

// Run looks at the connections that wait for a commit.
func (sh *shard) Run() {
	sh.posted.Store(false)
	sh.waiting, sh.looking = sh.looking[:0], sh.waiting
	sh.wanted.Store(false)
	for i, c := range sh.looking {
		sh.looking[i] = nil
		c.waiting = false
		if !c.dead {
			c.committed()
		}
	}
	sh.execute()
}

// wait puts c on the list of those to look at after the next commit.
func (sh *shard) wait(c *conn) {
	if !c.waiting {
		c.waiting = true
		sh.waiting = append(sh.waiting, c)
		sh.wanted.Store(true)
	}
}

// Shutdown tells every client that the broker goes (connection.close 320) and
// lets their sockets close; wait reports how many are left. Any goroutine.
func (s *Server) Shutdown() {
	for _, sh := range s.shards {
		sh.loop.Post(loop.RunnerFunc(func() {
			sh.closing = true
			for _, c := range sh.conns {
				c.shutdown()
			}
		}))
	}
}

// Conns returns the number of open connections. Any goroutine.
func (s *Server) Conns() int {
	n := 0
	for _, sh := range s.shards {
		n += sh.loop.Conns()
	}
	return n
}
