// Package client is the measuring side of AMQP: publishers, consumers and
// callers on event loops that cost as little per message as they can.
//
//	loop.go         event loop (epoll, edge-triggered), one locked OS thread;
//	                loops.go several of them
//	socket.go       what the clients on a loop have in common
//	publisher.go    how much may be sent, and sending it; publish.go encodes
//	pacer.go        open-loop schedule of a rate
//	confirm.go      which publishes are unconfirmed
//	confirmpublisher.go one connection with many confirming channels
//	channelconfirms.go  which of them may publish, and their latency
//	consumer.go     reads deliveries, acknowledges
//	stream.go       reads messages that only went through a relay
//	caller.go       makes calls, some operations at a time
//	connector.go    opens connections and closes them
//	walker.go       frame walker: counts without decoding
//	shape.go        its short cut for runs of equal deliveries
//	body.go         body content: patterns; inspector.go checks it
//	histogram.go    latency histograms and the clock
//	slice.go        being woken in time
//	sys.go          raw system calls; the only file with unsafe
//
// # How it stays out of the way
//
// A publish on the wire is three frames. All publishes of a publisher have the
// same size, so a buffer filled once with whole publishes is sent again and
// again, and the number published is bytes written divided by that size:
//
//	offset  bytes             field
//	0       1+2+4             method frame header (type 1, channel 1, payload size)
//	7       2+2               class 60, method 40
//	11      2                 reserved
//	13      1+len(exchange)   exchange
//	        1+len(key)        routing key
//	        1                 bits (mandatory, immediate): 0
//	        1                 0xCE
//	        1+2+4             content header frame header (type 2)
//	        2+2+8             class 60, weight 0, body size
//	        2+n               property flags and list (delivery mode always there)
//	        1                 0xCE
//	        7+len+1 each      body frames of at most frame-max bytes
//
// With exchange "", key "perf-test", no further property and 16 bytes of body
// that makes 73 bytes ([PublishEncoding.Size]).
//
// A consumer does not decode deliveries either: it jumps from frame header to
// frame header, and counts a message when its body is complete.
//
// # Body content
//
// Without options the body is a fixed pattern. With timestamps and with
// verification it begins with fields stamped in place, little-endian:
//
//	bytes  field                                                    present
//	8      intended send time, ns of CLOCK_MONOTONIC                Timestamp
//	8      publisher number (16 bit) and its message number (48)    Verify, if it fits
//	rest   pattern derived from the field above                     always
//
// # Invariants
//
//  1. A publisher never has more than the confirm window unconfirmed, never
//     more than the transaction size uncommitted, and never sends a message
//     before its intended time.
//  2. Latency is measured from the intended send time, so a stalled broker
//     is charged for the messages that had to wait (no coordinated omission).
//     Confirming channels are a closed loop: there it runs from the write that
//     sends a message to the read that brings its confirm.
//  3. published counts a message when its last byte was accepted by the
//     socket; consumed counts it when its last byte was read.
//  4. Nothing on a message's path allocates, calls through an interface, takes
//     the time or looks into a map; those happen once per read or write.
//
// # Threading
//
// A loop's sockets, publishers, consumers and walkers belong to its thread.
// Counters are written by the loop with atomic adds once per read or write and
// read by anyone; a loop's histogram is guarded by its own mutex, taken once
// per read.
package client
