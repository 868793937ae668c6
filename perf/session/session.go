package session

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"golang.org/x/sys/unix"
)

// Frame-max that this tool offers when the broker has no limit of its own, and
// the size of its handshake buffer; both what brokers usually propose.
const (
	FrameMaxDefault  = 128 << 10
	sessionReadBytes = 4 << 10
)

// ClientChannel is the only channel (beside 0) that this tool opens, but for
// the publishers of the confirm scenario.
const ClientChannel = 1

// closeError says that the broker closed the connection or the channel.
type closeError struct {
	scope    string // "connection" or "channel"
	code     uint16
	text     string
	methodID uint32 // what it was about; 0 when the broker did not say
}

func (e *closeError) Error() string {
	about := ""
	if e.methodID != 0 {
		about = " (" + amqp.MethodName(e.methodID) + ")"
	}
	return fmt.Sprintf("the broker closed the %s: %d %s%s", e.scope, e.code, e.text, about)
}

// ErrDisconnected is the end of the stream without connection.close.
var ErrDisconnected = errors.New("the broker closed the socket without saying why")

// Session is one connection in its set-up phase: a blocking socket on which
// methods are called one after the other. When set up, its descriptor and what
// was read beyond the last reply go to an event loop.
type Session struct {
	FD       int
	FrameMax uint32
	Channels uint16 // channel numbers go up to this
	Pending  []byte // read, not yet parsed
	out      []byte

	channelMax       uint16 // as the broker proposed it; 0: no limit
	Product, Version string // of the broker
}

// Dial connects and opens a connection and channel 1 as the URI says.
func Dial(address Address) (*Session, error) {
	endpoint, err := address.Resolve()
	if err != nil {
		return nil, unreachable(address, err)
	}
	s, err := endpoint.Connect(address, 0)
	if err != nil {
		return nil, err
	}
	if err := s.Call(ClientChannel, &amqp.ChannelOpen{}, &amqp.ChannelOpenOk{}); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", address.HostPort, err)
	}
	return s, nil
}

// Connect opens a connection without a channel. number counts the connections
// that are open at the same time.
func (e Endpoint) Connect(address Address, number int) (*Session, error) {
	fd, err := e.dial(address, number)
	if err != nil {
		return nil, unreachable(address, err)
	}
	s := &Session{FD: fd}
	if err := s.handshake(address); err != nil {
		s.Close()
		return nil, fmt.Errorf("%s: %w", address.HostPort, err)
	}
	return s, nil
}

func unreachable(address Address, err error) error {
	return fmt.Errorf("can't reach the broker at %s: %w", address.HostPort, err)
}

// RetryInterrupted repeats a system call that a signal cut short. (The Go
// runtime sends signals to its threads to preempt goroutines.)
func RetryInterrupted(call func() error) error {
	for {
		err := call()
		if err != unix.EINTR {
			return err
		}
	}
}

func (s *Session) Close() { unix.Close(s.FD) }

func (s *Session) handshake(address Address) error {
	s.out = append(s.out, amqp.ProtocolHeader...)
	var start amqp.ConnectionStart
	if err := s.await(&start); err != nil {
		return err
	}
	s.Product = tableText(start.ServerProperties, "product")
	s.Version = tableText(start.ServerProperties, "version")

	var tune amqp.ConnectionTune
	err := s.Call(0, startOk(address), &tune)
	if errors.Is(err, ErrDisconnected) {
		return fmt.Errorf("%w; likely it refused user %q", err, address.user)
	}
	if err != nil {
		return err
	}
	s.FrameMax = FrameMaxDefault
	if tune.FrameMax != 0 {
		s.FrameMax = min(tune.FrameMax, FrameMaxDefault)
	}
	if s.FrameMax < amqp.FrameMinSize {
		return fmt.Errorf("the broker proposes frame-max %d, below the minimum of %d", s.FrameMax, amqp.FrameMinSize)
	}
	s.Channels = tune.ChannelMax
	if s.Channels == 0 {
		s.Channels = math.MaxUint16
	}
	s.channelMax = tune.ChannelMax
	s.queue(0, s.tuneOk())
	return s.Call(0, connectionOpen(address), &amqp.ConnectionOpenOk{})
}

func startOk(address Address) *amqp.ConnectionStartOk {
	return &amqp.ConnectionStartOk{
		ClientProperties: clientProperties(address),
		Mechanism:        []byte("PLAIN"),
		Response:         []byte("\x00" + address.user + "\x00" + address.password),
		Locale:           []byte("en_US"),
	}
}

// tuneOk asks for no heartbeats: a measurement notices a dead peer by itself.
func (s *Session) tuneOk() *amqp.ConnectionTuneOk {
	return &amqp.ConnectionTuneOk{ChannelMax: s.channelMax, FrameMax: s.FrameMax}
}

func connectionOpen(address Address) *amqp.ConnectionOpen {
	return &amqp.ConnectionOpen{VirtualHost: []byte(address.virtualHost)}
}

func clientProperties(address Address) amqp.Table {
	var capabilities, properties amqp.TableBuilder
	for _, name := range []string{
		"authentication_failure_close", "basic.nack", "connection.blocked",
		"consumer_cancel_notify", "publisher_confirms",
	} {
		capabilities.SetBool(name, true)
	}
	properties.SetTable("capabilities", capabilities.Table())
	properties.SetString("connection_name", address.Client)
	properties.SetString("platform", "Go "+runtime.Version())
	properties.SetString("product", address.Client)
	properties.SetString("version", address.ClientVersion)
	return properties.Table()
}

func tableText(table amqp.Table, name string) string {
	value, _ := table.Lookup(name)
	text, _ := value.Bytes()
	return string(text)
}

// queue encodes a method to be sent with the next call.
func (s *Session) queue(channel uint16, method amqp.Method) {
	s.out = amqp.AppendMethodFrame(s.out, channel, method)
}

// Call sends a method and waits for its reply, which is decoded into reply;
// byte fields of reply are valid until the next call.
func (s *Session) Call(channel uint16, method, reply amqp.Method) error {
	s.queue(channel, method)
	return s.await(reply)
}

// callsInFlight bounds how many calls callAll has unanswered, so that neither
// side has to hold more than fits into a socket.
const callsInFlight = 64

// CallAll makes count calls without waiting for each. method returns call
// number i; all are answered by a method like reply.
func (s *Session) CallAll(count int, method func(i int) (channel uint16, method amqp.Method), reply amqp.Method) error {
	for done, queued := 0, 0; done < count; done++ {
		if done == queued {
			for ; queued < min(count, done+callsInFlight); queued++ {
				channel, method := method(queued)
				s.queue(channel, method)
			}
		}
		if err := s.await(reply); err != nil {
			return err
		}
	}
	return nil
}

// publishBytes bounds how much PublishAll sends before it waits for confirms.
const publishBytes = 64 << 10

// PublishAll publishes count messages on channel 1, which must be in confirm
// mode, and waits until the broker has confirmed them all. appendMessage
// appends the frames of message i to dst. before is how many were published on
// the channel before.
func (s *Session) PublishAll(before uint64, count int, appendMessage func(dst []byte, i int) []byte) error {
	for published, confirmed := 0, 0; confirmed < count; {
		for ; published < count && (len(s.out) < publishBytes); published++ {
			s.out = appendMessage(s.out, published)
		}
		if err := s.awaitConfirms(before+uint64(confirmed), published-confirmed); err != nil {
			return err
		}
		confirmed = published
	}
	return nil
}

// awaitConfirms waits until the count messages behind delivery tag base are
// acknowledged, in whatever order.
func (s *Session) awaitConfirms(base uint64, count int) error {
	singly := make(map[uint64]bool)
	watermark := base
	for watermark < base+uint64(count) {
		var ack amqp.BasicAck
		if err := s.await(&ack); err != nil {
			return err
		}
		if tag := ack.DeliveryTag; ack.Multiple && tag > watermark {
			watermark = tag
		} else if !ack.Multiple {
			singly[tag] = true
		}
		for singly[watermark+1] {
			delete(singly, watermark+1)
			watermark++
		}
	}
	return nil
}

// await sends what is queued and reads until the wanted method.
func (s *Session) await(reply amqp.Method) error {
	for len(s.out) > 0 {
		n, err := unix.Write(s.FD, s.out)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return SocketError(err)
		}
		s.out = s.out[n:]
	}
	for {
		frame, n, err := amqp.ParseFrame(s.Pending, 0)
		if err != nil {
			return fmt.Errorf("the broker's answer is not AMQP 0-9-1: %w", err)
		}
		if n == 0 {
			if err := s.fill(); err != nil {
				return err
			}
			continue
		}
		s.Pending = s.Pending[n:]
		if frame.Type != amqp.FrameMethod {
			continue // heartbeat; contents can't come before consume
		}
		id, arguments, err := amqp.SplitMethod(frame.Payload)
		if err != nil {
			return err
		}
		if id == reply.ID() {
			return reply.Decode(arguments)
		}
		if err := ClosedBy(id, arguments); err != nil {
			return err
		}
	}
}

// fill reads more. A new buffer each time, because replies may still point
// into the old one; set-up is not a hot path.
func (s *Session) fill() error {
	buffer := make([]byte, len(s.Pending)+sessionReadBytes)
	have := copy(buffer, s.Pending)
	var n int
	err := RetryInterrupted(func() (err error) {
		n, err = unix.Read(s.FD, buffer[have:])
		return err
	})
	if err != nil {
		return SocketError(err)
	}
	if n == 0 {
		return ErrDisconnected
	}
	s.Pending = buffer[:have+n]
	if string(s.Pending[:min(4, len(s.Pending))]) == "AMQP" {
		return fmt.Errorf("the broker does not speak AMQP 0-9-1: it answered %q", s.Pending[:min(8, len(s.Pending))])
	}
	return nil
}

func SocketError(err error) error {
	switch err {
	case unix.EAGAIN:
		return errors.New("the broker does not answer")
	case unix.ECONNRESET, unix.EPIPE:
		return ErrDisconnected
	}
	return err
}

// ClosedBy returns the error that a method stands for, or nil.
func ClosedBy(id uint32, arguments []byte) error {
	switch id {
	case amqp.ConnectionCloseID:
		var method amqp.ConnectionClose
		if err := method.Decode(arguments); err != nil {
			return err
		}
		return &closeError{"connection", method.ReplyCode, string(method.ReplyText), MethodID(method.ClassID, method.MethodID)}
	case amqp.ChannelCloseID:
		var method amqp.ChannelClose
		if err := method.Decode(arguments); err != nil {
			return err
		}
		return &closeError{"channel", method.ReplyCode, string(method.ReplyText), MethodID(method.ClassID, method.MethodID)}
	case amqp.BasicNackID:
		return errors.New("the broker refused a message (basic.nack)")
	case amqp.BasicCancelID:
		return errors.New("the broker cancelled a consumer: its queue is gone or has moved")
	}
	return nil
}

func MethodID(class, method uint16) uint32 {
	return binary.BigEndian.Uint32([]byte{byte(class >> 8), byte(class), byte(method >> 8), byte(method)})
}
