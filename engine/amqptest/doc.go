// Package amqptest is a small raw AMQP 0-9-1 client for tests: it sends
// whatever bytes a test wants, and reads answers as events. It owns no
// goroutine and does nothing by itself: no heartbeats, no close-ok, no acks.
//
// Conn returns errors and may be used from any one goroutine; Client wraps it
// for the test's own goroutine and ends the test on the first surprise.
//
// Invariants:
//
//  1. What arrives must be valid AMQP: every frame within the negotiated
//     frame max, every method decodable, contents complete and not interleaved
//     with other frames of their channel. Next reports anything else.
//  2. Every wait has a deadline; that it passes is an error.
//
// Only tests import it.
package amqptest
