// Package admin is the broker's administration: an HTTP handler with JSON, the
// TCP listener that serves it to those who log in, and the unix socket in the data
// directory that serves it to basaltmqctl without asking. Paths, field names and
// statuses are those of RabbitMQ's management API; docs/http-api.md says what
// differs.
//
// The socket is for the user that runs the broker alone (mode 0600); who can
// connect may do everything. Everybody else has a name and a password, or what
// else an Authenticator takes, and the roles that his tags name.
//
// Where things are: route.go finds routes (and is what other packages mount theirs
// with), identity.go says who asks and what he may, request.go is what handlers are
// made of, page.go lists; then a file for each kind of thing.
//
// Invariants:
//
//  1. A change is answered when it is durable, or not at all.
//  2. Nothing a client sends, or fails to read, takes more than a bounded amount
//     of memory and time (limits.go).
//  3. Lists take no lock for longer than one object needs, and look at what they
//     show only; loops are asked for what only they know, a few connections at a
//     time (package amqp).
//  4. A route says which role it needs, and is not entered without it. What is in
//     a virtual host is reached through Handler.host, enter or hosts, which answer
//     whether it may be seen; what is done there asks Identity.In for the same
//     permissions as over AMQP.
//
// Threading: a goroutine accepts, and each connection has one of its own while it
// is open; there are none besides while nobody asks.
package admin
