// Package websocket carries AMQP over WebSocket (RFC 6455), the server's side.
// Handler answers the upgrade request, which an ordinary HTTP server has read;
// then the connection moves to an event loop, where a Layer takes frames apart and
// makes them, around TLS or without it.
//
// Input: binary messages; where one ends means nothing, their payloads are the
// protocol's bytes. Output: a binary message for each piece that is sent.
//
// Invariants:
//
//  1. Payloads are unmasked where they lie; nothing is collected. A frame may be
//     as long as it likes.
//  2. At most one ping waits for its answer: the latest.
//  3. A page of another site, in a browser on this machine, does not count as this
//     machine: it could use the default user otherwise.
//
// Threading: Handler any goroutine, a Layer on its loop only.
package websocket
