package proxyproto

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

const (
	// HeaderBytesMax bounds a header: version 1 has 107 bytes at most, version 2
	// up to 64 KiB of attributes, of which no proxy sends that many.
	HeaderBytesMax = 4096
	lineBytesMax   = 107
	fixedBytes     = 16 // of version 2
)

const (
	line      = "PROXY "
	signature = "\r\n\r\n\x00\r\nQUIT\n"
)

// ErrHeader is wrapped by errors about bytes that are no header.
var ErrHeader = errors.New("proxyproto: not a PROXY header")

// Header is what a proxy says.
type Header struct {
	// Local: the proxy speaks for itself (a health check), or does not know for
	// whom. There are no addresses then.
	Local               bool
	Source, Destination netip.AddrPort
	TLS                 *TLS // how the client reached the proxy; nil: unknown
}

// TLS is what version 2 says of the client's own TLS connection.
type TLS struct {
	Version, Cipher string
	// Verified says that the client had a certificate and the proxy verified it;
	// CommonName is whose it is.
	Verified   bool
	CommonName string
}

// Starts says whether data may begin with a header: how it begins tells.
func Starts(data []byte) bool {
	for _, prefix := range []string{line, signature} {
		n := min(len(data), len(prefix))
		if n > 0 && string(data[:n]) == prefix[:n] {
			return true
		}
	}
	return false
}

// Parse reads a header at the beginning of data and returns its length; 0 while
// it is incomplete. Errors wrap ErrHeader.
func Parse(data []byte) (h Header, n int, err error) {
	switch {
	case len(data) > 0 && !Starts(data):
		return h, 0, fmt.Errorf("%w: the connection begins with other bytes", ErrHeader)
	case bytes.HasPrefix(data, []byte(line)):
		return parseLine(data)
	case len(data) >= fixedBytes:
		return parseBinary(data)
	}
	return h, 0, nil
}

func parseLine(data []byte) (h Header, n int, err error) {
	bad := func(what string) (Header, int, error) {
		return Header{}, 0, fmt.Errorf("%w: version 1: %s", ErrHeader, what)
	}
	end := bytes.Index(data[:min(len(data), lineBytesMax)], []byte("\r\n"))
	if end < 0 {
		if len(data) >= lineBytesMax {
			return bad("the line does not end")
		}
		return h, 0, nil
	}
	n = end + 2
	fields := strings.Split(string(data[len(line):end]), " ")
	if fields[0] == "UNKNOWN" {
		return Header{Local: true}, n, nil
	}
	if len(fields) != 5 || fields[0] != "TCP4" && fields[0] != "TCP6" {
		return bad("not TCP4 or TCP6 with two addresses and two ports")
	}
	var ends [2]netip.AddrPort
	for i := range ends {
		addr, err := netip.ParseAddr(fields[1+i])
		if err != nil || addr.Zone() != "" || addr.Is4() != (fields[0] == "TCP4") {
			return bad("an address is not of its family")
		}
		port, err := strconv.ParseUint(fields[3+i], 10, 16)
		if err != nil || strconv.FormatUint(port, 10) != fields[3+i] {
			return bad("a port is not a number")
		}
		ends[i] = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	}
	return Header{Source: ends[0], Destination: ends[1]}, n, nil
}

// Version 2, after the signature (12 bytes): version and command, family and
// transport, length of the rest (2), addresses, then attributes.
func parseBinary(data []byte) (h Header, n int, err error) {
	bad := func(what string) (Header, int, error) {
		return Header{}, 0, fmt.Errorf("%w: version 2: %s", ErrHeader, what)
	}
	version, command := data[12]>>4, data[12]&15
	if version != 2 || command > 1 {
		return bad("unknown version or command")
	}
	n = fixedBytes + int(binary.BigEndian.Uint16(data[14:]))
	if n > HeaderBytesMax {
		return bad("the header is too long")
	}
	if len(data) < n {
		return h, 0, nil
	}
	rest := data[fixedBytes:n]
	if command == 0 {
		return Header{Local: true}, n, nil
	}
	size := 0
	switch data[13] {
	case 0x11: // TCP over IPv4
		size = 4
	case 0x21: // TCP over IPv6
		size = 16
	case 0x31: // unix stream: paths of 108 bytes, which say nothing here
		if len(rest) < 216 {
			return bad("shorter than its addresses")
		}
		return Header{Local: true}, n, nil
	case 0x00:
		return Header{Local: true}, n, nil
	default:
		return bad("not a stream")
	}
	if len(rest) < 2*size+4 {
		return bad("shorter than its addresses")
	}
	for i, end := range []*netip.AddrPort{&h.Source, &h.Destination} {
		addr, _ := netip.AddrFromSlice(rest[i*size : (i+1)*size])
		*end = netip.AddrPortFrom(addr.Unmap(), binary.BigEndian.Uint16(rest[2*size+2*i:]))
	}
	err = attributes(rest[2*size+4:], func(kind byte, value []byte) error {
		if kind != 0x20 {
			return nil
		}
		h.TLS, err = parseTLS(value)
		return err
	})
	if err != nil {
		return Header{}, 0, err
	}
	return h, n, nil
}

// attributes visits type-length-value triples.
func attributes(data []byte, visit func(kind byte, value []byte) error) error {
	for len(data) > 0 {
		if len(data) < 3 || len(data) < 3+int(binary.BigEndian.Uint16(data[1:])) {
			return fmt.Errorf("%w: version 2: an attribute is cut short", ErrHeader)
		}
		n := 3 + int(binary.BigEndian.Uint16(data[1:]))
		if err := visit(data[0], data[3:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// parseTLS reads PP2_TYPE_SSL: flags, the result of verifying (0: good), and
// attributes of its own.
func parseTLS(value []byte) (*TLS, error) {
	if len(value) < 5 {
		return nil, fmt.Errorf("%w: version 2: the TLS attribute is cut short", ErrHeader)
	}
	const byTLS, certificate, certificateOfSession = 1, 2, 4
	flags, verify := value[0], binary.BigEndian.Uint32(value[1:])
	if flags&byTLS == 0 {
		return nil, nil
	}
	t := &TLS{Verified: flags&(certificate|certificateOfSession) != 0 && verify == 0}
	err := attributes(value[5:], func(kind byte, value []byte) error {
		switch kind {
		case 0x21:
			t.Version = string(value)
		case 0x22:
			t.CommonName = string(value)
		case 0x23:
			t.Cipher = string(value)
		}
		return nil
	})
	return t, err
}

// Sources are the proxies whose headers count.
type Sources []netip.Prefix

// NewSources takes addresses and networks in any form: IPv4 within IPv6 is IPv4.
func NewSources(list []netip.Prefix) Sources {
	var s Sources
	for _, p := range list {
		if p.Addr().Is4In6() && p.Bits() >= 96 {
			p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
		}
		s = append(s, p.Masked())
	}
	return s
}

// Trust says whether headers from an address count.
func (s Sources) Trust(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	for _, p := range s {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}
