package session

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// TLS (amqps://): the clients of this tool work on descriptors, so a connection
// over TLS is a socketpair; two goroutines carry its other end's bytes through
// crypto/tls. What that costs, the tool pays: compare brokers, or TLS with and
// without, on the same machine only with that in mind.
//
// The broker's certificate is not verified: this measures, and sends nothing that
// is worth anything.

const bridgeBytes = 32 << 10 // as two records

// secured makes a connected socket one over TLS; fd is its own afterwards.
func secured(fd int, host string, timeout time.Duration) (plain int, err error) {
	conn, err := takeConn(fd)
	if err != nil {
		return -1, err
	}
	t := tls.Client(conn, &tls.Config{InsecureSkipVerify: true, ServerName: host, DynamicRecordSizingDisabled: true})
	_ = conn.SetDeadline(time.Now().Add(timeout))
	if err := t.Handshake(); err != nil {
		conn.Close()
		return -1, fmt.Errorf("TLS: %w", err)
	}
	_ = conn.SetDeadline(time.Time{})
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		conn.Close()
		return -1, err
	}
	inner, err := takeConn(pair[1])
	if err != nil {
		unix.Close(pair[0])
		conn.Close()
		return -1, err
	}
	go carry(t, inner, t, inner)
	go carry(inner, t, t, inner)
	return pair[0], nil
}

// takeConn makes a net.Conn of a socket.
func takeConn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "socket")
	defer f.Close()
	return net.FileConn(f)
}

// carry copies until either side ends, and then ends both.
func carry(to, from net.Conn, both ...net.Conn) {
	buf := make([]byte, bridgeBytes)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	for _, c := range both {
		c.Close()
	}
}
