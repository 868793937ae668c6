package admin

import "time"

// Bounds, with their reasons.
const (
	// connectionsMax is how many clients of the control socket are served at once;
	// others wait to be accepted. An operator has one or two.
	connectionsMax = 16
	// httpConnectionsMax is likewise for a TCP listener: browsers hold half a dozen
	// each, and monitors a few.
	httpConnectionsMax = 256
	// headerBytesMax bounds a request's line and headers: two names of 255 bytes,
	// escaped, and little else.
	headerBytesMax = 16 << 10
	// bodyBytesMax bounds a request's body, except a definitions file or a message.
	bodyBytesMax = 1 << 20
	// publishBytesMax bounds the body of a publish: larger messages come over AMQP.
	publishBytesMax = 8 << 20
	// messageRequestsMax is how many requests may have messages in memory at once,
	// each several times what they are in JSON.
	messageRequestsMax = 4

	// Lists: RabbitMQ's default, and a bound for what a page may cost.
	pageSizeDefault = 100
	pageSizeMax     = 10000
	// patternBytesMax, patternStatesMax, columnsMax and columnsDepthMax bound what a
	// list's query string may ask for.
	patternBytesMax  = 1024
	patternStatesMax = 300
	columnsMax       = 200
	columnsDepthMax  = 8
	// listBufferBytes is how much of a list is collected before it is sent.
	listBufferBytes = 32 << 10

	// A client that does not send, or does not read, is cut off.
	headerTimeout = 5 * time.Second
	readTimeout   = time.Minute
	writeTimeout  = time.Minute
	// lingerTimeout is how long a client whose request is refused may go on sending
	// it before the connection is closed.
	lingerTimeout = time.Second
	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = time.Minute

	// durableTimeout is how long a change waits for the disk, and loopTimeout how
	// long a list waits for the loops. Both take milliseconds when all is well.
	durableTimeout = 30 * time.Second
	loopTimeout    = 10 * time.Second
	// moveTimeout ends a move in good order before writeTimeout cuts it off.
	moveTimeout = 40 * time.Second

	// stopTimeout is how long a stop waits for requests that are being served.
	stopTimeout = 2 * time.Second
)
