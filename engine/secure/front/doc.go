// Package front accepts connections that are not plain AMQP over TCP from the
// first byte: TLS, a proxy's PROXY header before anything else, unix sockets. A
// goroutine per connection does what there is to do before the protocol begins,
// within a time limit; then the socket moves to an event loop and the goroutine
// ends. Open connections have none. For servers with a goroutine for each
// connection, as HTTP's, there is ProxyListener.
//
// Invariants:
//
//  1. At most pendingMax connections are in their handshake at a time; others
//     wait in the kernel's queue of the listener.
//  2. A handshake ends within its time limit, or with Close.
//  3. A PROXY header counts only from a trusted source, which must send one. From
//     any other address it is not understood, and the connection ends.
//
// Threading: any goroutine.
package front
