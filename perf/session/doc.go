// Package session is a blocking AMQP 0-9-1 client: one socket, one goroutine,
// calls one after the other or pipelined. It is how everything that is not
// measured by itself gets done: handshake, declarations, counts. A session that
// is set up can be handed to an event loop (package client), which takes over
// its descriptor and what was read beyond the last reply.
//
// address.go reads AMQP URIs, endpoint.go makes sockets, session.go connects and
// calls.
//
// A session belongs to one goroutine at a time. It does not heartbeat: a
// measurement notices a dead peer by itself, reads and writes time out.
package session
