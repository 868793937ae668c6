// Package amqp holds the AMQP 0-9-1 connection and channel state machines:
// package wire/amqp on one side, package engine/broker on the other.
//
// A connection is fed with received bytes by its loop (Input) and answers into
// one output buffer that is flushed when the input at hand has been worked off.
// It never waits. What takes time (a read from disk, a sync) is noted, and a
// posted Runner goes on with it.
//
// Publishing. The publishes of one receive buffer that go to the same queues
// are collected in a batch, which is appended to each queue's log under one
// lock. A publish whose method and header frames equal the previous one's
// bytes takes the fast path: it is recognised by comparing bytes, and not
// parsed or routed again.
//
// Delivering. A consumer takes a run of offsets from its queue and encodes
// straight from the log's bytes into the output buffer, for as long as there
// is room. Delivery tags of a run are consecutive, so what is unacknowledged
// is kept as runs, not as messages.
//
// Large messages. A body of 1 MiB or more goes to a file of its own while it
// arrives, and comes from there, piece by piece, when it is delivered, got or
// returned (external.go, source.go; package segstore/bodies). No body is ever
// in memory as a whole, but for smaller ones while they are being received.
// A connection has at most about 1 MiB on its way to the disk and two pieces
// of 256 KiB on their way from it, however many channels interleave.
//
// Invariants:
//
//  1. Everything here runs on the connection's loop, but for Consumer.Wake,
//     Consumer.Cancelled, conn.Relieved, Server.Committed, SetAlarm, Shutdown and
//     what a deleted user or vhost sets off, which only post.
//  2. Output leaves in the order in which it was produced. While the frames of
//     one large content are being written, what else is produced waits in
//     "held": nothing may come between the frames of a content on one channel.
//  3. An answer that promises durability is not sent before the promise holds:
//     the output buffer is kept back (barrier) until it does; deliveries and
//     later answers stay behind it.
//  4. Confirms of a channel are cumulative and monotone; the entry at the head
//     of the list is resolved first.
//  5. Output is bounded: a peer that does not read is not read from (stall), and
//     its consumers take nothing. Taking costs no memory: a consumer encodes
//     only what fits the connection's one output buffer (outBytesMax), however
//     large its prefetch.
//  6. A batch never outlives the Input call in which it was begun.
//  7. The record of an external body is appended after its file is named for
//     the queue, and durable if the message is to be; the name is removed after
//     the message is settled, durably if that happens in a transaction.
//  8. A publish is accepted only under the vhost version under which its exchange
//     was permitted: permissions are not looked at per message, yet a change
//     counts for the next one.
//
// Files: conn.go (what a connection is), input.go (frames come in), closing.go,
// handshake.go, sasl.go (who logs in), permit.go (what that allows), output.go,
// channel.go (life of a channel, dispatch), class_*.go (one class of methods
// each), bind.go, publish.go, content.go (headers and bodies of publishes),
// fastpath.go, batch.go, confirm.go, get.go, consumer.go (life of a consumer),
// serve.go (whose turn it is), deliver.go (encoding), unacked.go, late.go,
// replyto.go, limits.go;
// external.go and source.go for large messages; stream.go for consumers of streams;
// inspect.go, operate.go and post.go for operators, who call from goroutines that may wait.
package amqp
