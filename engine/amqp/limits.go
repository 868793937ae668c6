package amqp

import (
	"time"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// Limits, with their reasons.
const (
	// What the server proposes in connection.tune, as RabbitMQ does.
	channelMaxDefault = 2047
	frameMaxDefault   = 128 * 1024
	heartbeatDefault  = 60 * time.Second

	// handshakeTimeout is how long a socket may take from connecting to
	// connection.open.
	handshakeTimeout = 10 * time.Second
	// closeTimeout is how long connection.close waits for close-ok.
	closeTimeout = 5 * time.Second

	// MessageBytesMaxDefault is the largest body accepted.
	MessageBytesMaxDefault = 128 << 20

	// outBytesMax bounds a connection's output buffer.
	outBytesMax = arena.BufBytesMax
	// heldBytesMax: with so much output waiting behind a large content or an
	// unsent buffer, input stops.
	heldBytesMax = 64 << 10

	// serveBuffersMax: after so many full buffers in a row, other connections
	// of the loop get their turn.
	serveBuffersMax = 4

	// externalBytesMin is the size from which on a body is written to a file of
	// its own. Below it the hand-overs to the disk cost more than the copies they
	// save: measured with 300 KB bodies, files moved about half as many messages;
	// with 1 MiB they moved more.
	externalBytesMin = 1 << 20
	// assemblingBytesMax: while the incomplete bodies of a shard take more than
	// that, those above externalBytesLow become files, too.
	assemblingBytesMax = 32 << 20
	externalBytesLow   = 16 << 10

	// txBytesMax bounds what a transaction may hold in memory before its commit.
	txBytesMax = 64 << 20

	// carryStep is how much of a new buffer is copied behind a frame that the
	// last buffer's end had cut; it fits most frames.
	carryStep = 4096

	// repliesBytesMax bounds what waits for one reply consumer (replyto.go), but
	// for a single message: its client does not read.
	repliesBytesMax = 4 << 20

	consumersMax = 1 << 16 // per channel
)
