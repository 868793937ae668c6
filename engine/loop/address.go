package loop

import "net/netip"

// address is a netip.AddrPort without a zone in 18 bytes instead of 32.
type address struct {
	ip   [16]byte
	port uint16
}

// addressOf returns the zero address for an invalid one.
func addressOf(a netip.AddrPort) address {
	if !a.IsValid() {
		return address{}
	}
	return address{a.Addr().As16(), a.Port()}
}

// addrPort is the opposite. A socket is never connected to the unspecified
// address, so the zero address is free to mean an invalid one.
func (a address) addrPort() netip.AddrPort {
	if a == (address{}) {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(netip.AddrFrom16(a.ip).Unmap(), a.port)
}
