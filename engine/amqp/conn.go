package amqp

import (
	"time"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

type connState uint8

const (
	stateHeader  connState = iota // protocol header expected
	stateStart                    // start sent, start-ok expected
	stateTune                     // tune sent, tune-ok expected
	stateOpening                  // tuned, connection.open expected
	stateOpen                     // running
	stateClosing                  // close sent, close-ok expected; all else is discarded
	stateClosed                   // close-ok sent: the socket closes when it is drained
)

// conn is one AMQP connection.
type conn struct {
	shard *shard
	sock  *loop.Conn
	vhost *broker.VHost
	id    uint64
	place int // in shard.conns

	// What is small stands together: there may be many idle connections.
	stall      uint16
	channelMax uint16 // proposed, then negotiated
	frameMax   uint32 // likewise; bounds both directions
	counted    int32  // channels counted in the user
	bodyLeft   uint32 // payload bytes still to come of the body frame being read
	state      connState
	dead       bool
	garbled    bool // where frames begin in the input is not known any more
	entered    bool // counted in its user and vhost
	opened     bool // and as one that was opened
	inBody     bool // inside a body frame, its end octet included
	waiting    bool // in shard.waiting
	unqueued   bool // a confirmation that waits for no log was added since
	freeing    bool // whenFree is about to run
	serving    bool // the serve runner is deferred
	// refusalTold: by basic.nack, the channel has confirms.
	refusalTold bool
	// Capabilities that the client announced.
	closeOnErr   bool // authentication_failure_close
	cancelNotify bool // consumer_cancel_notify
	blockNotify  bool // connection.blocked

	name        string      // client's connection_name, for logs
	client      *clientKind // what else it said of itself; nil before
	connectedAt int64       // Unix ms; 0 before
	transport   *Transport  // nil: a TCP connection as it is

	// Who logged in, and what that allows; see permit.go.
	user         *access.User // nil before
	grant        *access.Grant
	grantVersion uint64 // 0: not asked for yet; versions start at 1

	counts    *stats.Loop // of the vhost, for this loop
	acked     uint64      // acknowledgements not in counts yet
	confirmed uint64      // confirms not in counts yet
	octets    octets

	channels channelTable
	current  *channel // channel of the last frame
	owned    []*broker.Queue

	// Input.
	carry    *arena.Buf // input not yet worked off
	carryPos int
	carryEnd int
	bodyOf   *channel // its channel; nil when the content is to be skipped

	// Fast path: see fastpath.go.
	fast     *channel
	topology uint64 // vhost version under which routes were found

	// Output: see output.go.
	out     *arena.Buf
	outLen  int
	sending *arena.Buf
	held    []byte
	big     content
	barrier uint64 // definitions sequence that must be durable before output leaves
	ticket  uint64 // transaction that must be durable, likewise; 0: none

	confirming []awaiting
	commits    uint64 // of the store, when confirming was last worked off

	pacing pacing // see pace.go

	refusal *amqp.Error // a queue has refused a batch; logged once

	// External bodies: see external.go and source.go.
	flow     *bodies.Flow // nil until the first
	spool    spool
	filing   *filing
	returns  []pendingReturn
	whenFree func() // waits for a free output

	// Consumers that may have something to send.
	serveList []*consumer
	replying  []*replyConsumer
	serveRun  serveRunner

	settleQueue  *broker.Queue // acks being gathered
	settling     spaced
	ackedStreams []*consumer // of streams, whose tracked offsets may move
	settleAcked  uint64

	get *pendingGet // nil: none waits

	timer     loop.Timer // handshake, then heartbeats, then closing
	heartbeat time.Duration
	lastIn    time.Duration // by the loop's Uptime
	lastOut   time.Duration
}

// octets count what went over the socket, and by how many calls.
type octets struct {
	in, out       uint64
	reads, writes uint64
}

func newConn(sh *shard, sock *loop.Conn) *conn {
	tuning := sh.srv.tuning.Load()
	c := &conn{
		shard: sh, sock: sock, id: sh.srv.nextConn.Add(1), frameMax: tuning.FrameMax, channelMax: tuning.ChannelMax,
		lastIn: sh.loop.Uptime(),
	}
	c.serveRun.conn = c
	sh.add(c)
	c.timer.Fire = (*connTimer)(c)
	sh.loop.Arm(&c.timer, tuning.HandshakeTimeout)
	return c
}

// peer names the connection in logs.
func (c *conn) peer() string {
	s := c.sock.Remote().String() + " -> " + c.sock.Local().String()
	if c.name != "" {
		s += " (" + c.name + ")"
	}
	return s
}

// connTimer is the connection's one timer: what it is for depends on the state.
type connTimer conn

// Run implements loop.Runner.
func (t *connTimer) Run() {
	c := (*conn)(t)
	switch {
	case c.state < stateOpen:
		c.shard.srv.logger.Warn("AMQP handshake not finished in time", "peer", c.peer(), "limit", c.shard.srv.tuning.Load().HandshakeTimeout)
		c.sock.Close()
	case c.state >= stateClosing:
		c.sock.Close()
	default:
		c.beat()
	}
}

// beat sends a heartbeat when nothing else was sent lately, and gives the peer
// up after two intervals of silence (specification 4.2.7).
func (c *conn) beat() {
	now := c.shard.loop.Uptime()
	if silent := now - c.lastIn; silent > 2*c.heartbeat && !c.sock.Paused() {
		c.shard.srv.logger.Warn("missed heartbeats from client", "peer", c.peer(), "timeout", c.heartbeat)
		c.sock.Close()
		return
	}
	if now-c.lastOut >= c.heartbeat/2 && c.sending == nil {
		c.emit(amqp.HeartbeatFrame)
		c.flush()
	}
	c.shard.loop.Arm(&c.timer, c.heartbeat/2)
}

// committed is called after the store or the definitions made progress.
func (c *conn) committed() {
	if err := c.shard.srv.broker.Definitions().Err(); err != nil && c.barrier > c.shard.srv.broker.Definitions().Durable() {
		c.barrier = 0
		c.outLen = 0 // answers that cannot be kept
		c.fail(err)
	}
	c.sendConfirms()
	if c.stall&stallStore != 0 {
		c.shard.wait(c)
		if !c.shard.srv.broker.Store().Pressured() {
			c.resume(stallStore)
		}
	}
	c.flush()
	if c.sending == nil && c.hungry() {
		c.serveSoon()
	}
}
