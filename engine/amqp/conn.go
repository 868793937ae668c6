package amqp

import (
	"errors"
	"io"
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

// Reasons to stop processing input; bits of conn.stall.
const (
	stallOutput uint16 = 1 << iota // the peer does not read
	stallGet                       // a basic.get waits for the disk
	stallStore                     // the store has more unwritten data than it likes
	stallQueue                     // a queue's consumers are behind
	stallAlarm                     // publishers are blocked
	stallSpool                     // too much of large bodies is on its way to the disk
	stallBody                      // a large body is being filed, or returned
	stallLogin                     // a password is being checked
	stallBind                      // a binding waits for the history it is to bring
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

	counts *stats.Shared // of the vhost, for this loop
	acked  uint64        // acknowledgements not in counts yet
	octets octets

	channels channelTable
	current  *channel // channel of the last frame
	owned    []*broker.Queue

	// Input.
	carry    *arena.Buf // input not yet worked off
	carryPos int
	carryEnd int
	bodyOf   *channel // its channel; nil when the content is to be skipped

	// Fast path: see publish.go.
	fast     *channel
	template amqp.PublishTemplate
	topology uint64 // vhost version under which routes were found

	// Output: see output.go.
	out     *arena.Buf
	outLen  int
	sending *arena.Buf
	held    []byte
	big     content
	barrier uint64 // definitions sequence that must be durable before output leaves
	ticket  uint64 // transaction that must be durable, likewise; 0: none

	confirming []*channel
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
	ackedStreams []*consumer   // of streams, whose tracked offsets may move
	settleFirst  uint64
	settleCount  uint64
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

// Input implements loop.Handler.
func (c *conn) Input(data []byte) {
	c.lastIn = c.shard.loop.Uptime()
	c.octets.in += uint64(len(data))
	c.octets.reads++
	c.receive(data)
	c.endOfInput()
}

// receive works data off behind what an earlier call left over.
func (c *conn) receive(data []byte) {
	for {
		old := c.carryEnd - c.carryPos
		if old == 0 {
			n := c.process(data)
			c.save(data[n:])
			return
		}
		if c.stall != 0 {
			c.save(data)
			return
		}
		k := min(len(data), max(carryStep, old))
		c.save(data[:k])
		n := c.process(c.carry.Bytes()[c.carryPos:c.carryEnd])
		if n >= old {
			// The cut frame is complete; go on without copying.
			c.dropCarry()
			data = data[n-old:]
			continue
		}
		c.carryPos += n
		if data = data[k:]; len(data) == 0 {
			return
		}
	}
}

// save appends to the carry buffer.
func (c *conn) save(data []byte) {
	if len(data) == 0 || c.state == stateClosed {
		return
	}
	old := c.carryEnd - c.carryPos
	if c.carry == nil || c.carryEnd+len(data) > c.carry.Len() {
		grown := c.shard.pool.Get(old + len(data))
		if c.carry != nil {
			copy(grown.Bytes(), c.carry.Bytes()[c.carryPos:c.carryEnd])
			c.carry.Release()
		}
		c.carry, c.carryPos, c.carryEnd = grown, 0, old
	}
	copy(c.carry.Bytes()[c.carryEnd:], data)
	c.carryEnd += len(data)
}

func (c *conn) dropCarry() {
	if c.carry != nil {
		c.carry.Release()
		c.carry = nil
	}
	c.carryPos, c.carryEnd = 0, 0
}

// resume goes on with saved input after a stall has ended.
func (c *conn) resume(reason uint16) {
	if c.stall&reason == 0 {
		return
	}
	c.stall &^= reason
	if c.stall != 0 || c.dead {
		return
	}
	if n := c.carryEnd - c.carryPos; n > 0 {
		buf, pos := c.carry, c.carryPos
		c.carry, c.carryPos, c.carryEnd = nil, 0, 0
		used := c.process(buf.Bytes()[pos : pos+n])
		c.save(buf.Bytes()[pos+used : pos+n])
		buf.Release()
		c.endOfInput()
	}
	if c.stall == 0 {
		c.sock.ResumeRead()
	}
}

// endOfInput completes what one piece of input began.
func (c *conn) endOfInput() {
	c.commitBatch()
	c.flushSettled()
	c.sendConfirms()
	if e := c.refusal; e != nil && !c.refusalTold {
		// A publisher without confirms would never know.
		c.fail(e)
	}
	c.holdBack()
	c.pace()
	c.heedFlow()
	if c.shard.alarm != "" {
		c.heedAlarm()
	}
	if c.stall != 0 {
		c.sock.PauseRead()
	}
	c.flush()
}

// holdBack stops reading from a publisher while the store has more unwritten
// data than it likes.
func (c *conn) holdBack() {
	store := c.shard.srv.broker.Store()
	if !store.Pressured() || c.state != stateOpen || !c.publishes() {
		return
	}
	c.stall |= stallStore
	c.shard.wait(c)
	if !store.Pressured() { // relieved meanwhile
		c.stall &^= stallStore
	}
}

// publishes says whether this connection has published at all: only such are
// held back when the store is under pressure.
func (c *conn) publishes() bool {
	for _, ch := range c.channels {
		if ch.pub.used {
			return true
		}
	}
	return false
}

// process works off whole frames (and parts of body frames) and returns how
// many bytes it used. It stops at the first incomplete frame or when stalled.
func (c *conn) process(buf []byte) int {
	pos := 0
	for c.stall == 0 && c.state != stateClosed {
		if c.state == stateHeader {
			n := c.protocolHeader(buf[pos:])
			if n == 0 {
				return pos
			}
			pos += n
			continue
		}
		if c.inBody {
			n := c.bodyPart(buf[pos:])
			pos += n
			if c.inBody {
				return pos
			}
			continue
		}
		if c.fast != nil {
			// Asked for each run, not for each buffer: the frame before may have
			// bound or unbound something.
			if c.vhost.Version() != c.topology {
				c.fast = nil
			} else {
				pos += c.fastPublishes(buf[pos:])
			}
		}
		for c.recall(buf[pos:]) {
			pos += c.fastPublishes(buf[pos:])
		}
		n, err := c.frame(buf[pos:])
		if err != nil {
			c.fail(err)
			if c.garbled {
				c.closeSocket() // close-ok could not be told from the rest
			}
		}
		if n == 0 {
			return pos
		}
		pos += n
	}
	if c.state == stateClosed {
		return len(buf)
	}
	return pos
}

// frame handles one frame; 0 when it is incomplete. Of a body frame only the
// header need be there.
func (c *conn) frame(buf []byte) (int, error) {
	typ, number, size, ok, err := amqp.ParseFrameHeader(buf, c.frameMax)
	if err != nil {
		c.garbled = true
		return len(buf), err
	}
	if !ok {
		return 0, nil
	}
	if typ == amqp.FrameBody {
		return 7, c.bodyFrame(number, size)
	}
	f, n, err := amqp.ParseFrame(buf, c.frameMax)
	if err != nil || n == 0 {
		if err != nil {
			c.garbled = true
			n = len(buf)
		}
		return n, err
	}
	switch typ {
	case amqp.FrameHeartbeat:
		if number != 0 {
			return n, amqp.Errorf(amqp.CodeUnexpectedFrame, 0, "heartbeat on channel %d", number)
		}
		if len(f.Payload) > 0 {
			return n, amqp.Errorf(amqp.CodeFrameError, 0, "heartbeat with a payload of %d bytes", len(f.Payload))
		}
		return n, nil
	case amqp.FrameHeader:
		return n, c.headerFrame(number, f.Payload, buf[:n])
	}
	id, args, err := amqp.SplitMethod(f.Payload)
	if err != nil {
		return n, err
	}
	if number == 0 {
		return n, c.method0(id, args)
	}
	return n, c.channelMethod(number, id, args, buf[:n])
}

// fail ends the connection with an error: connection.close with its code where
// the protocol allows it, a closed socket elsewhere.
func (c *conn) fail(err error) {
	if c.state >= stateClosing {
		return
	}
	e := asError(err)
	c.shard.srv.logger.Warn("closing AMQP connection", "peer", c.peer(), "code", e.Code, "reason", e.Text)
	if c.state == stateHeader {
		c.closeSocket()
		return
	}
	c.beginClose(e)
}

// asError gives any error an AMQP code.
func asError(err error) *amqp.Error {
	var e *amqp.Error
	if errors.As(err, &e) {
		return e
	}
	return amqp.Errorf(amqp.CodeInternalError, 0, "%v", err)
}

// beginClose sends connection.close and waits for close-ok.
func (c *conn) beginClose(e *amqp.Error) {
	c.abandonChannels()
	c.emitMethod(0, &amqp.ConnectionClose{ReplyCode: e.Code, ReplyText: []byte(e.Text), ClassID: uint16(e.MethodID >> 16), MethodID: uint16(e.MethodID)})
	c.state = stateClosing
	c.shard.loop.Arm(&c.timer, closeTimeout)
	c.resume(c.stall) // close-ok must be heard
}

// shutdown says good-bye to the client because the broker stops.
func (c *conn) shutdown() {
	switch {
	case c.state >= stateClosing:
	case c.state != stateOpen:
		c.closeSocket()
	default:
		c.beginClose(amqp.Errorf(amqp.CodeConnectionForced, 0, "broker forced connection closure with reason 'shutdown'"))
		c.flush()
	}
}

// abandonChannels gives back everything the connection held: partial
// publishes, taken messages, consumers, exclusive queues.
func (c *conn) abandonChannels() {
	c.commitBatch()
	c.flushSettled()
	c.fast = nil
	c.bodyOf = nil // the rest of a body frame is passed over
	c.dropBig()
	c.dropGet()
	c.whenFree = nil
	c.stall &^= stallGet
	for _, ch := range c.channels {
		ch.abandon()
		c.vhost.Churn().Count(stats.ChannelClosed)
	}
	c.spoolFlush()
	c.channels = nil
	c.leave()
	c.current = nil
	c.serveList, c.replying = nil, nil
	c.confirming = nil
	if c.vhost != nil {
		c.vhost.DeleteOwned(c, c.owned)
	}
	c.owned = nil
}

// closeSocket closes once everything written so far has left.
func (c *conn) closeSocket() {
	c.state = stateClosed
	c.dropCarry()
	c.flush() // closes when nothing is left to send
}

// Closed implements loop.Handler.
func (c *conn) Closed(err error) {
	if c.state >= stateStart && c.state < stateClosing {
		reason := "connection closed by the client without connection.close"
		if !errors.Is(err, io.EOF) {
			reason = err.Error()
		}
		c.shard.srv.logger.Info("AMQP connection lost", "peer", c.peer(), "reason", reason)
	}
	c.dead = true
	c.sending = nil // released by the loop
	c.abandonChannels()
	c.state = stateClosed
	c.barrier, c.ticket = 0, 0
	c.dropCarry()
	if c.out != nil {
		c.out.Release()
		c.out = nil
	}
	c.held = nil
	c.shard.loop.Disarm(&c.timer)
	if q := c.pacing.queue; q != nil {
		c.shard.loop.Disarm(&c.pacing.timer)
		q.Forget(c)
	}
	c.unlimitLogin()
	c.shard.srv.clients.release(c.client)
	c.client = nil
	c.shard.remove(c)
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
