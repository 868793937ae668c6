package perf

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// fakeBroker is just enough of a broker for the load generator: it declares
// anything, keeps the messages of queues in memory, delivers them to consumers
// in turn, confirms and commits. One goroutine reads per connection, one
// writes. Knobs make it misbehave.
type fakeBroker struct {
	listener net.Listener
	wait     sync.WaitGroup

	// Knobs, set before the first connection.
	frameMax      uint32
	corruptEvery  int                            // flip a body byte of every Nth delivery
	swapOrder     bool                           // deliver messages in pairs, the second first
	closeAfter    int                            // connection.close 404 after so many publishes
	confirmSingly bool                           // one ack per publish, in reverse within a read
	nackEvery     int                            // with confirmSingly: nack every Nth
	holdConfirms  bool                           // never confirm
	refuseLogin   bool                           // connection.close 403
	greeting      string                         // written instead of connection.start
	loseEvery     int                            // lose every Nth message, but count it as waiting
	doubleEvery   int                            // keep every Nth message twice
	forget        bool                           // keep no message, as if all were consumed at once
	refuseBind    bool                           // channel.close 404 for every binding
	atCall        func(method string, count int) // called for each method before it is answered
	stallAt       int                            // stop reading for stallFor after so many publishes
	stallFor      time.Duration
	dropAt        int // when that many connections are open, drop the second

	mu        sync.Mutex
	queues    map[string]*fakeQueue
	conns     map[*fakeConn]bool
	published int
	bodies    int // of those, bytes
	acked     int
	ackFrames int
	commits   int
	deliverN  int
	deletes   int
	calls     map[string]int // methods received, by name
	opened    []*fakeConn
	fanouts   map[string][]string // exchanges declared as such: the queues bound
	lost      int
	unacked   int                              // most publishes received while confirms are held
	sources   map[string]map[*fakeChannel]bool // confirming channels that published to each queue
	changed   *sync.Cond
}

// fakeChannelMax is the channel-max it proposes.
const fakeChannelMax = 200

type fakeQueue struct {
	messages  []fakeMessage
	consumers []*fakeConn
	next      int
}

type fakeMessage struct{ properties, body []byte }

// fakeConn is one connection to the fake broker.
type fakeConn struct {
	broker *fakeBroker
	net.Conn
	mu       sync.Mutex
	cond     *sync.Cond
	out      []byte
	finished bool
	tag      uint64
	lastAck  uint64
	exchange string                  // of the publish being read
	channels map[uint16]*fakeChannel // confirming ones
}

// fakeChannel is what a channel in confirm mode has to answer.
type fakeChannel struct {
	publishTag uint64
	unanswered []uint64
}

func startFakeBroker(t *testing.T, adjust func(*fakeBroker)) (uri string, b *fakeBroker) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b = &fakeBroker{listener: listener, frameMax: 131072, queues: map[string]*fakeQueue{}, conns: map[*fakeConn]bool{}, calls: map[string]int{}, fanouts: map[string][]string{}, sources: map[string]map[*fakeChannel]bool{}}
	b.changed = sync.NewCond(&b.mu)
	if adjust != nil {
		adjust(b)
	}
	b.wait.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			c := &fakeConn{broker: b, Conn: conn, channels: map[uint16]*fakeChannel{}}
			c.cond = sync.NewCond(&c.mu)
			b.mu.Lock()
			b.conns[c] = true
			b.mu.Unlock()
			b.wait.Go(c.read)
			b.wait.Go(c.write)
		}
	})
	t.Cleanup(func() {
		listener.Close()
		b.mu.Lock()
		for c := range b.conns {
			c.Close()
		}
		b.mu.Unlock()
		b.wait.Wait()
	})
	return "amqp://guest:guest@" + listener.Addr().String() + "/", b
}

// write sends what the others put into out.
func (c *fakeConn) write() {
	for {
		c.mu.Lock()
		for len(c.out) == 0 && !c.finished {
			c.cond.Wait()
		}
		chunk, finished := c.out, c.finished
		c.out = nil
		c.mu.Unlock()
		if len(chunk) == 0 && finished {
			c.Close()
			return
		}
		if _, err := c.Write(chunk); err != nil {
			return
		}
	}
}

func (c *fakeConn) finish() {
	c.mu.Lock()
	c.finished = true
	c.mu.Unlock()
	c.cond.Signal()
}

func (c *fakeConn) send(channel uint16, method amqp.Method) {
	c.mu.Lock()
	c.out = amqp.AppendMethodFrame(c.out, channel, method)
	c.mu.Unlock()
	c.cond.Signal()
}

func (c *fakeConn) sendContent(method amqp.Method, message fakeMessage) {
	c.mu.Lock()
	c.out = amqp.AppendMethodFrame(c.out, session.ClientChannel, method)
	c.out = amqp.AppendHeaderFrame(c.out, session.ClientChannel, uint64(len(message.body)), message.properties)
	c.out = amqp.AppendBodyFrames(c.out, session.ClientChannel, message.body, c.broker.frameMax)
	c.mu.Unlock()
	c.cond.Signal()
}

// read serves one connection.
func (c *fakeConn) read() {
	defer c.finish()
	header := make([]byte, len(amqp.ProtocolHeader))
	if _, err := readFull(c, header); err != nil {
		return
	}
	if c.broker.greeting != "" {
		c.mu.Lock()
		c.out = append(c.out, c.broker.greeting...)
		c.mu.Unlock()
		return
	}
	var properties amqp.TableBuilder
	properties.SetString("product", "FakeMQ")
	properties.SetString("version", "1.2.3")
	c.send(0, &amqp.ConnectionStart{VersionMinor: 9, ServerProperties: properties.Table(), Mechanisms: []byte("PLAIN"), Locales: []byte("en_US")})

	var buffer []byte
	chunk := make([]byte, 64<<10)
	var publish *amqp.BasicPublish
	var queue string
	var message fakeMessage
	var left uint64
	for {
		n, err := c.Read(chunk)
		if err != nil {
			return
		}
		buffer = append(buffer, chunk[:n]...)
		for {
			frame, n, err := amqp.ParseFrame(buffer, c.broker.frameMax)
			if err != nil {
				panic(err) // the load generator must not send such a thing
			}
			if n == 0 {
				break
			}
			switch frame.Type {
			case amqp.FrameMethod:
				id, arguments, _ := amqp.SplitMethod(frame.Payload)
				method := amqp.NewMethod(id)
				if err := method.Decode(arguments); err != nil {
					panic(err)
				}
				var isPublish bool
				if publish, isPublish = method.(*amqp.BasicPublish); isPublish {
					queue, c.exchange = string(publish.RoutingKey), string(publish.Exchange)
				} else if !c.handle(frame.Channel, method) {
					return
				}
			case amqp.FrameHeader:
				header, err := amqp.DecodeContentHeader(frame.Payload)
				if err != nil || publish == nil {
					panic("content header without publish")
				}
				message = fakeMessage{properties: append([]byte(nil), header.Properties...)}
				if left = header.BodySize; left == 0 && !c.publish(frame.Channel, queue, message) {
					return
				}
			case amqp.FrameBody:
				message.body = append(message.body, frame.Payload...)
				if left -= uint64(len(frame.Payload)); left == 0 && !c.publish(frame.Channel, queue, message) {
					return
				}
			}
			buffer = buffer[n:]
		}
		c.confirm()
	}
}

func readFull(c net.Conn, into []byte) (n int, err error) {
	for n < len(into) && err == nil {
		var m int
		m, err = c.Read(into[n:])
		n += m
	}
	return n, err
}

// handle answers a method; false ends the connection.
func (c *fakeConn) handle(channel uint16, method amqp.Method) bool {
	b := c.broker
	b.mu.Lock()
	name := amqp.MethodName(method.ID())
	b.calls[name]++
	if b.atCall != nil {
		b.atCall(name, b.calls[name])
	}
	b.changed.Broadcast()
	b.mu.Unlock()
	switch m := method.(type) {
	case *amqp.ConnectionStartOk:
		if b.refuseLogin {
			c.send(0, &amqp.ConnectionClose{ReplyCode: 403, ReplyText: []byte("ACCESS_REFUSED - no")})
			return false
		}
		c.send(0, &amqp.ConnectionTune{ChannelMax: fakeChannelMax, FrameMax: b.frameMax, Heartbeat: 60})
	case *amqp.ConnectionOpen:
		b.mu.Lock()
		if b.opened = append(b.opened, c); len(b.opened) == b.dropAt {
			b.opened[1].Close()
		}
		b.mu.Unlock()
		c.send(0, &amqp.ConnectionOpenOk{})
	case *amqp.ConnectionClose:
		c.send(0, &amqp.ConnectionCloseOk{})
		return false
	case *amqp.ChannelOpen:
		c.send(channel, &amqp.ChannelOpenOk{})
	case *amqp.QueueDeclare:
		name := string(m.Queue)
		if name == "" {
			name = "amq.gen-" + strings.ReplaceAll(c.RemoteAddr().String(), ":", "-")
		}
		b.mu.Lock()
		count := len(b.lockedQueue(name).messages) + b.lost // which it would deny having
		b.mu.Unlock()
		c.send(session.ClientChannel, &amqp.QueueDeclareOk{Queue: []byte(name), MessageCount: uint32(count)})
	case *amqp.QueueBind:
		if b.refuseBind {
			c.send(session.ClientChannel, &amqp.ChannelClose{ReplyCode: 404, ReplyText: []byte("NOT_FOUND - no exchange"), ClassID: 50, MethodID: 20})
			break
		}
		b.mu.Lock()
		if bound, fanout := b.fanouts[string(m.Exchange)]; fanout {
			b.fanouts[string(m.Exchange)] = append(bound, string(m.Queue))
		}
		b.mu.Unlock()
		c.send(session.ClientChannel, &amqp.QueueBindOk{})
	case *amqp.ExchangeDeclare:
		b.mu.Lock()
		b.fanouts[string(m.Exchange)] = nil
		b.mu.Unlock()
		c.send(session.ClientChannel, &amqp.ExchangeDeclareOk{})
	case *amqp.ExchangeDelete:
		b.mu.Lock()
		delete(b.fanouts, string(m.Exchange))
		b.mu.Unlock()
		c.send(session.ClientChannel, &amqp.ExchangeDeleteOk{})
	case *amqp.QueueUnbind:
		c.send(session.ClientChannel, &amqp.QueueUnbindOk{})
	case *amqp.BasicCancel:
		c.send(session.ClientChannel, &amqp.BasicCancelOk{ConsumerTag: m.ConsumerTag})
	case *amqp.ChannelClose:
		c.send(channel, &amqp.ChannelCloseOk{})
	case *amqp.QueueDelete:
		b.mu.Lock()
		b.deletes++
		delete(b.queues, string(m.Queue))
		b.mu.Unlock()
		c.send(session.ClientChannel, &amqp.QueueDeleteOk{})
	case *amqp.QueuePurge:
		b.mu.Lock()
		b.lockedQueue(string(m.Queue)).messages = nil
		b.mu.Unlock()
		c.send(session.ClientChannel, &amqp.QueuePurgeOk{})
	case *amqp.BasicQos:
		c.send(session.ClientChannel, &amqp.BasicQosOk{})
	case *amqp.ConfirmSelect:
		c.channels[channel] = &fakeChannel{}
		c.send(channel, &amqp.ConfirmSelectOk{})
	case *amqp.TxSelect:
		c.send(session.ClientChannel, &amqp.TxSelectOk{})
	case *amqp.TxCommit:
		b.mu.Lock()
		b.commits++
		b.mu.Unlock()
		c.send(session.ClientChannel, &amqp.TxCommitOk{})
	case *amqp.BasicConsume:
		c.send(session.ClientChannel, &amqp.BasicConsumeOk{ConsumerTag: []byte("ctag")})
		b.mu.Lock()
		q := b.lockedQueue(string(m.Queue))
		q.consumers = append(q.consumers, c)
		b.pump(q)
		b.mu.Unlock()
	case *amqp.BasicGet:
		b.mu.Lock()
		q := b.lockedQueue(string(m.Queue))
		if len(q.messages) == 0 {
			c.send(session.ClientChannel, &amqp.BasicGetEmpty{})
		} else {
			c.tag++
			c.sendContent(&amqp.BasicGetOk{DeliveryTag: c.tag}, q.messages[0])
			q.messages = q.messages[1:]
		}
		b.mu.Unlock()
	case *amqp.BasicAck:
		b.mu.Lock()
		if m.Multiple {
			b.acked += int(m.DeliveryTag - c.lastAck)
			c.lastAck = m.DeliveryTag
		} else {
			b.acked++
		}
		b.ackFrames++
		b.mu.Unlock()
	}
	return true
}
