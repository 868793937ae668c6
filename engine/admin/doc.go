// Package admin is the broker's administration: an HTTP handler with JSON, and
// the unix socket in the data directory that serves it to basaltmqctl. Paths and
// field names are those of the management API that RabbitMQ and LavinMQ have, as
// far as they go; what differs is in docs/ctl.md.
//
// The socket is for the user that runs the broker alone (mode 0600); who can
// connect may do everything. It knows nothing of users, so an HTTP API for others
// has to ask who they are before it calls the handler.
//
// Invariants:
//
//  1. A change is answered when it is durable, or not at all.
//  2. Nothing a client sends, or fails to read, takes more than a bounded amount
//     of memory and time (limits.go).
//  3. Lists take no lock for longer than one object needs; loops are asked for
//     what only they know, a few connections at a time (package amqp).
//
// Threading: a goroutine accepts, and each connection has one of its own while it
// is open; there are none while nobody asks.
package admin
