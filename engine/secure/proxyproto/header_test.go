package proxyproto

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"net/netip"
	"strings"
	"testing"

	peer "github.com/pires/go-proxyproto"
)

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// rows are headers made by hand, from the specification's text.
var rows = []struct {
	name string
	data string
	want Header
	err  string // part of it
}{
	{name: "1 TCP4", data: "PROXY TCP4 192.0.2.1 198.51.100.7 56324 5672\r\n", want: Header{Source: ap("192.0.2.1:56324"), Destination: ap("198.51.100.7:5672")}},
	{name: "1 TCP6", data: "PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n", want: Header{Source: ap("[2001:db8::1]:1"), Destination: ap("[2001:db8::2]:65535")}},
	{name: "1 UNKNOWN", data: "PROXY UNKNOWN\r\n", want: Header{Local: true}},
	{name: "1 UNKNOWN with a rest", data: "PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n", want: Header{Local: true}},
	{name: "1 wrong family", data: "PROXY TCP4 ::1 ::1 1 1\r\n", err: "family"},
	{name: "1 too few", data: "PROXY TCP4 1.2.3.4 1.2.3.4 1\r\n", err: "two ports"},
	{name: "1 two spaces", data: "PROXY TCP4  1.2.3.4 1.2.3.4 1 1\r\n", err: "two ports"},
	{name: "1 port 65536", data: "PROXY TCP4 1.2.3.4 1.2.3.4 1 65536\r\n", err: "port"},
	{name: "1 port 01", data: "PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n", err: "port"},
	{name: "1 zone", data: "PROXY TCP6 fe80::1%eth0 ::1 1 1\r\n", err: "family"},
	{name: "1 without end", data: "PROXY UNKNOWN" + strings.Repeat(" x", 60), err: "does not end"},
	{name: "2 IPv4", data: signature + "\x21\x11\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x02\x03", want: Header{Source: ap("1.2.3.4:1"), Destination: ap("5.6.7.8:515")}},
	{name: "2 local", data: signature + "\x20\x00\x00\x00", want: Header{Local: true}},
	{name: "2 local with addresses", data: signature + "\x20\x11\x00\x01x", want: Header{Local: true}},
	{name: "2 unspecified", data: signature + "\x21\x00\x00\x00", want: Header{Local: true}},
	{name: "2 UDP", data: signature + "\x21\x12\x00\x0c\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x02\x03", err: "not a stream"},
	{name: "2 short", data: signature + "\x21\x11\x00\x0b\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x02", err: "shorter"},
	{name: "2 short unix", data: signature + "\x21\x31\x00\x01x", err: "shorter"},
	{name: "2 version 3", data: signature + "\x31\x11\x00\x00", err: "version"},
	{name: "2 command 2", data: signature + "\x22\x11\x00\x00", err: "version"},
	{name: "2 too long", data: signature + "\x21\x11\xff\xff", err: "too long"},
	{name: "2 attribute cut short", data: signature + "\x21\x11\x00\x0f\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x02\x03\x01\x00\x01", err: "cut short"},
	{name: "2 TLS", data: signature + "\x21\x11\x00\x28\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x02\x03" +
		"\x04\x00\x00" + "\x20\x00\x16\x03\x00\x00\x00\x00\x21\x00\x07TLSv1.3\x22\x00\x04joey",
		want: Header{Source: ap("1.2.3.4:1"), Destination: ap("5.6.7.8:515"), TLS: &TLS{Version: "TLSv1.3", Verified: true, CommonName: "joey"}}},
	{name: "2 TLS not verified", data: signature + "\x21\x11\x00\x1b\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x02\x03" +
		"\x20\x00\x0c\x03\x00\x00\x00\x01\x22\x00\x04joey",
		want: Header{Source: ap("1.2.3.4:1"), Destination: ap("5.6.7.8:515"), TLS: &TLS{CommonName: "joey"}}},
	{name: "2 no TLS", data: signature + "\x21\x11\x00\x14\x01\x02\x03\x04\x05\x06\x07\x08\x00\x01\x02\x03" + "\x20\x00\x05\x00\x00\x00\x00\x00",
		want: Header{Source: ap("1.2.3.4:1"), Destination: ap("5.6.7.8:515")}},
	{name: "AMQP", data: "AMQP\x00\x00\x09\x01", err: "other bytes"},
	{name: "lower case", data: "proxy TCP4", err: "other bytes"},
}

func same(a, b Header) bool {
	if (a.TLS == nil) != (b.TLS == nil) || a.TLS != nil && *a.TLS != *b.TLS {
		return false
	}
	a.TLS, b.TLS = nil, nil
	return a == b
}

func TestParse(t *testing.T) {
	for _, r := range rows {
		h, n, err := Parse([]byte(r.data + "AMQP"))
		switch {
		case r.err != "":
			if !errors.Is(err, ErrHeader) || !strings.Contains(err.Error(), r.err) || n != 0 {
				t.Errorf("%s: %d, %v, want %q", r.name, n, err, r.err)
			}
		case err != nil || n != len(r.data) || !same(h, r.want):
			t.Errorf("%s: %+v, %d, %v", r.name, h, n, err)
		default:
			for k := range len(r.data) {
				if _, n, err := Parse([]byte(r.data[:k])); n != 0 || err != nil {
					t.Errorf("%s: the first %d bytes: %d, %v", r.name, k, n, err)
				}
			}
		}
	}
}

// TestParse_MadeByPeer reads what another implementation writes.
func TestParse_MadeByPeer(t *testing.T) {
	for _, version := range []byte{1, 2} {
		for _, ends := range [][2]string{{"192.0.2.1:7", "198.51.100.7:5672"}, {"[2001:db8::1]:65535", "[::1]:1"}} {
			source, destination := net.TCPAddrFromAddrPort(ap(ends[0])), net.TCPAddrFromAddrPort(ap(ends[1]))
			made := peer.HeaderProxyFromAddrs(version, source, destination)
			if version == 2 {
				if err := made.SetTLVs([]peer.TLV{{Type: peer.PP2_TYPE_AUTHORITY, Value: []byte("a.example")}}); err != nil {
					t.Fatal(err)
				}
			}
			data, err := made.Format()
			if err != nil {
				t.Fatal(err)
			}
			h, n, err := Parse(data)
			if err != nil || n != len(data) || h.Source != ap(ends[0]) || h.Destination != ap(ends[1]) {
				t.Errorf("version %d: %+v, %d, %v", version, h, n, err)
			}
		}
	}
}

func TestSources(t *testing.T) {
	var list []netip.Prefix
	for _, text := range []string{"10.0.0.0/8", "192.0.2.1/32", "2001:db8::/32", "::ffff:172.16.0.0/108"} {
		list = append(list, netip.MustParsePrefix(text))
	}
	s := NewSources(list)
	for addr, want := range map[string]bool{
		"10.1.2.3": true, "11.1.2.3": false, "192.0.2.1": true, "192.0.2.2": false, "::ffff:10.1.2.3": true,
		"2001:db8:1::": true, "2001:db9::": false, "172.16.9.9": true, "172.32.0.1": false,
	} {
		if got := s.Trust(netip.MustParseAddr(addr)); got != want {
			t.Errorf("%s: %v", addr, got)
		}
	}
	if Sources(nil).Trust(netip.MustParseAddr("127.0.0.1")) {
		t.Error("nobody is trusted, and yet")
	}
}

// FuzzParse compares with another implementation: what both take means the same.
func FuzzParse(f *testing.F) {
	for _, r := range rows {
		f.Add([]byte(r.data))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		h, n, err := Parse(data)
		if n < 0 || n > min(len(data), HeaderBytesMax) || err != nil && n != 0 {
			t.Fatalf("%d of %d, %v", n, len(data), err)
		}
		if n == 0 {
			return
		}
		if !Starts(data) {
			t.Fatal("does not start like a header")
		}
		if _, again, err := Parse(data[:n]); again != n || err != nil {
			t.Fatalf("without what follows: %d, %v", again, err)
		}
		theirs, err := peer.Read(bufio.NewReader(bytes.NewReader(data)))
		if err != nil || theirs.Command.IsLocal() || h.Local {
			return
		}
		source, ok := theirs.SourceAddr.(*net.TCPAddr)
		if !ok {
			return
		}
		got := source.AddrPort()
		if got = netip.AddrPortFrom(got.Addr().Unmap(), got.Port()); got != h.Source {
			t.Fatalf("source %v, theirs %v", h.Source, got)
		}
	})
}
