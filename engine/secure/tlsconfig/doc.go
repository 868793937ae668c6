// Package tlsconfig makes configurations of crypto/tls from files: certificate
// chains and keys, client authorities, and a choice among several certificates
// by the name that a client asks for (SNI).
//
// A Contexts stays where it is while what it stands for is replaced: Reload reads
// everything anew and swaps it in one step, or changes nothing. Connections that
// are open keep what they began with.
//
// Key exchange is left to crypto/tls, which prefers hybrids with ML-KEM.
//
// Threading: any goroutine.
package tlsconfig
