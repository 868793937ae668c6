package perf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"runtime"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"golang.org/x/sys/unix"
)

// Frame-max that this tool offers when the broker has no limit of its own, and
// the size of its handshake buffer; both what brokers usually propose.
const (
	frameMaxDefault  = 128 << 10
	sessionReadBytes = 16 << 10
)

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

// errDisconnected is the end of the stream without connection.close.
var errDisconnected = errors.New("the broker closed the socket without saying why")

// session is one connection in its set-up phase: a blocking socket on which
// methods are called one after the other. When set up, its descriptor and what
// was read beyond the last reply go to an event loop.
type session struct {
	fd       int
	frameMax uint32
	channels uint16 // channel numbers go up to this
	pending  []byte // read, not yet parsed
	out      []byte

	product, version string // of the broker
}

// dialSession connects and opens a connection and channel 1 as the URI says.
func dialSession(address brokerAddress) (*session, error) {
	fd, err := dialSocket(address)
	if err != nil {
		return nil, fmt.Errorf("can't reach the broker at %s: %w", address.hostPort, err)
	}
	s := &session{fd: fd}
	if err := s.handshake(address); err != nil {
		s.close()
		return nil, fmt.Errorf("%s: %w", address.hostPort, err)
	}
	return s, nil
}

// dialSocket opens a blocking TCP socket whose reads and writes time out.
func dialSocket(address brokerAddress) (fd int, err error) {
	resolved, err := net.ResolveTCPAddr("tcp", address.hostPort)
	if err != nil {
		return -1, err
	}
	var target unix.Sockaddr
	family := unix.AF_INET6
	if ip4 := resolved.IP.To4(); ip4 != nil {
		family = unix.AF_INET
		target = &unix.SockaddrInet4{Port: resolved.Port, Addr: [4]byte(ip4)}
	} else {
		target = &unix.SockaddrInet6{Port: resolved.Port, Addr: [16]byte(resolved.IP.To16())}
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	limit := unix.NsecToTimeval(int64(address.handshakeTimeoutSpan))
	for _, step := range []func() error{
		func() error { return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit) },
		func() error { return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit) },
		func() error { return unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) },
		func() error { return retryInterrupted(func() error { return unix.Connect(fd, target) }) },
	} {
		if err := step(); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// retryInterrupted repeats a system call that a signal cut short. (The Go
// runtime sends signals to its threads to preempt goroutines.)
func retryInterrupted(call func() error) error {
	for {
		err := call()
		if err != unix.EINTR {
			return err
		}
	}
}

func (s *session) close() { unix.Close(s.fd) }

func (s *session) handshake(address brokerAddress) error {
	s.out = append(s.out, amqp.ProtocolHeader...)
	var start amqp.ConnectionStart
	if err := s.await(&start); err != nil {
		return err
	}
	s.product = tableText(start.ServerProperties, "product")
	s.version = tableText(start.ServerProperties, "version")

	var tune amqp.ConnectionTune
	err := s.call(0, &amqp.ConnectionStartOk{
		ClientProperties: clientProperties(),
		Mechanism:        []byte("PLAIN"),
		Response:         []byte("\x00" + address.user + "\x00" + address.password),
		Locale:           []byte("en_US"),
	}, &tune)
	if errors.Is(err, errDisconnected) {
		return fmt.Errorf("%w; likely it refused user %q", err, address.user)
	}
	if err != nil {
		return err
	}
	s.frameMax = frameMaxDefault
	if tune.FrameMax != 0 {
		s.frameMax = min(tune.FrameMax, frameMaxDefault)
	}
	if s.frameMax < amqp.FrameMinSize {
		return fmt.Errorf("the broker proposes frame-max %d, below the minimum of %d", s.frameMax, amqp.FrameMinSize)
	}
	s.channels = tune.ChannelMax
	if s.channels == 0 {
		s.channels = math.MaxUint16
	}
	// No heartbeats: a measurement notices a dead peer by itself.
	s.queue(0, &amqp.ConnectionTuneOk{ChannelMax: tune.ChannelMax, FrameMax: s.frameMax})
	if err := s.call(0, &amqp.ConnectionOpen{VirtualHost: []byte(address.virtualHost)}, &amqp.ConnectionOpenOk{}); err != nil {
		return err
	}
	return s.call(clientChannel, &amqp.ChannelOpen{}, &amqp.ChannelOpenOk{})
}

func clientProperties() amqp.Table {
	var capabilities, properties amqp.TableBuilder
	for _, name := range []string{
		"authentication_failure_close", "basic.nack", "connection.blocked",
		"consumer_cancel_notify", "publisher_confirms",
	} {
		capabilities.SetBool(name, true)
	}
	properties.SetTable("capabilities", capabilities.Table())
	properties.SetString("connection_name", program)
	properties.SetString("platform", "Go "+runtime.Version())
	properties.SetString("product", program)
	properties.SetString("version", toolVersion())
	return properties.Table()
}

func tableText(table amqp.Table, name string) string {
	value, _ := table.Lookup(name)
	text, _ := value.Bytes()
	return string(text)
}

// queue encodes a method to be sent with the next call.
func (s *session) queue(channel uint16, method amqp.Method) {
	s.out = amqp.AppendMethodFrame(s.out, channel, method)
}

// call sends a method and waits for its reply, which is decoded into reply;
// byte fields of reply are valid until the next call.
func (s *session) call(channel uint16, method, reply amqp.Method) error {
	s.queue(channel, method)
	return s.await(reply)
}

// callsInFlight bounds how many calls callAll has unanswered, so that neither
// side has to hold more than fits into a socket.
const callsInFlight = 64

// callAll makes count calls without waiting for each. method returns call
// number i; all are answered by a method like reply.
func (s *session) callAll(count int, method func(i int) (channel uint16, method amqp.Method), reply amqp.Method) error {
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

// await sends what is queued and reads until the wanted method.
func (s *session) await(reply amqp.Method) error {
	for len(s.out) > 0 {
		n, err := unix.Write(s.fd, s.out)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return socketError(err)
		}
		s.out = s.out[n:]
	}
	for {
		frame, n, err := amqp.ParseFrame(s.pending, 0)
		if err != nil {
			return fmt.Errorf("the broker's answer is not AMQP 0-9-1: %w", err)
		}
		if n == 0 {
			if err := s.fill(); err != nil {
				return err
			}
			continue
		}
		s.pending = s.pending[n:]
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
		if err := closedBy(id, arguments); err != nil {
			return err
		}
	}
}

// fill reads more. A new buffer each time, because replies may still point
// into the old one; set-up is not a hot path.
func (s *session) fill() error {
	buffer := make([]byte, len(s.pending)+sessionReadBytes)
	have := copy(buffer, s.pending)
	var n int
	err := retryInterrupted(func() (err error) {
		n, err = unix.Read(s.fd, buffer[have:])
		return err
	})
	if err != nil {
		return socketError(err)
	}
	if n == 0 {
		return errDisconnected
	}
	s.pending = buffer[:have+n]
	if string(s.pending[:min(4, len(s.pending))]) == "AMQP" {
		return fmt.Errorf("the broker does not speak AMQP 0-9-1: it answered %q", s.pending[:min(8, len(s.pending))])
	}
	return nil
}

func socketError(err error) error {
	switch err {
	case unix.EAGAIN:
		return errors.New("the broker does not answer")
	case unix.ECONNRESET, unix.EPIPE:
		return errDisconnected
	}
	return err
}

// closedBy returns the error that a method stands for, or nil.
func closedBy(id uint32, arguments []byte) error {
	switch id {
	case amqp.ConnectionCloseID:
		var method amqp.ConnectionClose
		if err := method.Decode(arguments); err != nil {
			return err
		}
		return &closeError{"connection", method.ReplyCode, string(method.ReplyText), methodID(method.ClassID, method.MethodID)}
	case amqp.ChannelCloseID:
		var method amqp.ChannelClose
		if err := method.Decode(arguments); err != nil {
			return err
		}
		return &closeError{"channel", method.ReplyCode, string(method.ReplyText), methodID(method.ClassID, method.MethodID)}
	case amqp.BasicCancelID:
		return errors.New("the broker cancelled a consumer: its queue is gone or has moved")
	}
	return nil
}

func methodID(class, method uint16) uint32 {
	return binary.BigEndian.Uint32([]byte{byte(class >> 8), byte(class), byte(method >> 8), byte(method)})
}
