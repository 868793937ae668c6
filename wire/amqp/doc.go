// Package amqp is the codec of AMQP 0-9-1: bytes <-> values, nothing else.
//
// It owns the frame format, the methods (generated from the table in
// internal/gen), field tables, content headers, the reply codes, and two
// prebuilt forms for the hot paths: DeliverTemplate (encode) and
// PublishTemplate (decode). It never does I/O, never reads a clock, takes no
// lock, starts no goroutine, and imports the standard library only.
//
// # Frame (specification 4.2.3; all integers big-endian)
//
//	pos  bytes  field
//	0    1      type: 1 method, 2 content header, 3 content body, 8 heartbeat
//	1    2      channel: 0 is the connection itself
//	3    4      payload size, without these 7 bytes and the end octet
//	7    size   payload
//	7+n  1      end octet 0xCE: a cheap check that both ends agree on sizes
//
// # Method payload (4.2.4)
//
//	0    2      class id
//	2    2      method id; both together are the ID of this package: class << 16 | method
//	4    rest   arguments in order; neighbouring bits share an octet, lowest bit first
//
// # Content header payload (4.2.6.1)
//
//	0    2      class id, 60 (basic)
//	2    2      weight, unused
//	4    8      body size
//	12   2      property flags, highest bit = first property; the two lowest are zero
//	14   rest   the properties whose flag is set, in order
//
// # Field table content (4.2.5.5)
//
//	repeated: 1 length byte and the name, 1 kind byte, the value (see kinds.go)
//
// # Invariants
//
//  1. Any input gives a value or an *Error with the reply code that belongs on
//     the wire (501, as RabbitMQ answers for frames and for what is inside); never a panic.
//  2. Decoding allocates nothing but the error of a failed decode.
//  3. Decoded byte slices, tables and arrays are views into the input: valid
//     while the input is, and capped so that append can't overwrite it.
//  4. A Table or Array that came out of Decode is syntactically valid, at most
//     TableDepthMax deep. One made by hand and broken ends iteration early; it
//     never panics.
//  5. PublishTemplate.Match accepts only what the ordinary parse accepts, with
//     the same result.
//
// # Threading
//
// Functions and values may be used from any goroutine, one goroutine at a time
// per value; templates belong to their loop.
package amqp

//go:generate go run ./internal/gen/cmd
