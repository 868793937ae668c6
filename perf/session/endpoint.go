package session

import (
	"errors"
	"net"

	"github.com/basaltmq/basaltmq/wire/amqp"
	"golang.org/x/sys/unix"
)

// Endpoint is where a broker listens, resolved. Any goroutine may use it.
type Endpoint struct {
	ip     net.IP
	port   int
	secure bool
}

// target is the address for one connect: package unix encodes it in place, so
// it can't be shared.
func (e Endpoint) target() unix.Sockaddr {
	if ip4 := e.ip.To4(); ip4 != nil {
		return &unix.SockaddrInet4{Port: e.port, Addr: [4]byte(ip4)}
	}
	return &unix.SockaddrInet6{Port: e.port, Addr: [16]byte(e.ip.To16())}
}

// PortsPerSource is how many connections leave from one source address: a bit
// less than the ephemeral ports Linux has by default (32768 to 60999). Beyond
// that, connections over the loopback interface take another of its addresses.
const PortsPerSource = 20000

// Resolve looks up the broker's address.
func (a Address) Resolve() (Endpoint, error) {
	resolved, err := net.ResolveTCPAddr("tcp", a.HostPort)
	if err != nil {
		return Endpoint{}, err
	}
	return Endpoint{ip: resolved.IP, port: resolved.Port, secure: a.Secure}, nil
}

// socket makes a socket for the connection of that number, bound to a source
// address where the ports of the usual one would not do.
func (e Endpoint) socket(flags, number int) (fd int, err error) {
	family, loopback := unix.AF_INET6, false
	if ip4 := e.ip.To4(); ip4 != nil {
		family, loopback = unix.AF_INET, ip4.IsLoopback() // all of 127.0.0.0/8 can be a source
	}
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags, 0)
	if err != nil {
		return -1, err
	}
	source := number / PortsPerSource
	if err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err == nil && loopback && source > 0 {
		// The port is chosen when the connection is made, when both ends are known.
		if err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1); err == nil {
			err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, byte(source >> 8), byte(source) + 1}})
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// StartConnect makes a non-blocking socket and starts to connect it. number
// counts the connections that may be open, or were a moment ago.
func (e Endpoint) StartConnect(number int) (fd int, err error) {
	if e.secure {
		return -1, errors.New("this scenario connects without TLS only: use amqp://")
	}
	if fd, err = e.socket(unix.SOCK_NONBLOCK, number); err != nil {
		return -1, err
	}
	err = RetryInterrupted(func() error { return unix.Connect(fd, e.target()) })
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// dial connects a blocking socket whose reads and writes time out.
func (e Endpoint) dial(address Address, number int) (fd int, err error) {
	if fd, err = e.socket(0, number); err != nil {
		return -1, err
	}
	if e.secure {
		if err := RetryInterrupted(func() error { return unix.Connect(fd, e.target()) }); err != nil {
			unix.Close(fd)
			return -1, err
		}
		if fd, err = secured(fd, e.ip.String(), address.Timeout); err != nil {
			return -1, err
		}
	}
	limit := unix.NsecToTimeval(int64(address.Timeout))
	for _, step := range []func() error{
		func() error { return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit) },
		func() error { return unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit) },
		func() error {
			if e.secure {
				return nil // connected already
			}
			return RetryInterrupted(func() error { return unix.Connect(fd, e.target()) })
		},
	} {
		if err := step(); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// DialSocket opens a blocking TCP socket whose reads and writes time out.
func DialSocket(address Address) (fd int, err error) {
	endpoint, err := address.Resolve()
	if err != nil {
		return -1, err
	}
	return endpoint.dial(address, 0)
}

// Step is one step of a connection's life: what the client sends, and the
// method that it then waits for.
type Step struct {
	Send  []byte
	Reply uint32
}

// Steps returns a whole life, from the protocol header to connection.close-ok,
// with one channel, for connections like this one.
func (s *Session) Steps(address Address) []Step {
	tuned := amqp.AppendMethodFrame(nil, 0, s.tuneOk())
	return []Step{
		{[]byte(amqp.ProtocolHeader), amqp.ConnectionStartID},
		{amqp.AppendMethodFrame(nil, 0, startOk(address)), amqp.ConnectionTuneID},
		{amqp.AppendMethodFrame(tuned, 0, connectionOpen(address)), amqp.ConnectionOpenOkID},
		{amqp.AppendMethodFrame(nil, ClientChannel, &amqp.ChannelOpen{}), amqp.ChannelOpenOkID},
		{amqp.AppendMethodFrame(nil, 0, &amqp.ConnectionClose{ReplyCode: amqp.CodeSuccess}), amqp.ConnectionCloseOkID},
	}
}
