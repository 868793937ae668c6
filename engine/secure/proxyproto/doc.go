// Package proxyproto reads the header by which a proxy says whom it connects:
// the PROXY protocol, versions 1 (a line of text) and 2 (binary).
//
// It is pure: bytes to values. Who may send a header is for the caller to say
// (Sources).
package proxyproto
