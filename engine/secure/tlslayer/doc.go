// Package tlslayer runs the records of a TLS connection on an event loop. The
// handshake, which computes for up to a millisecond and waits for the peer, is
// made by an ordinary goroutine over an ordinary socket; then the connection
// moves to its loop, where records are opened and sealed between the socket and
// the protocol's state machine (loop.Layer).
//
// Rejected: a pair of goroutines per connection and a socketpair to the loop. It
// costs two stacks, two buffers and four system calls where this costs none of
// them, and each piece of input crosses threads twice. A record of 16 KiB takes
// some microseconds to open with the processor's AES instructions: about as much
// as the system call that brought it.
//
// What this relies on, of crypto/tls: a read that fails with a temporary
// net.Error changes nothing, so the connection can be fed as bytes come
// (TestLayer_ByteByByte); and all it writes is one Write of the transport per
// record, which here never fails for lack of room.
//
// Invariants:
//
//  1. After Detach the tls.Conn is touched by its loop only, and no call blocks.
//  2. What a peer can make the layer say by itself (alerts, key updates) is
//     bounded: beyond controlBytesMax unsent bytes the connection ends.
//
// Threading: Transport before Detach as net.Conn; a Layer on its loop only.
package tlslayer
