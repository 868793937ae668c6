package admin

import "time"

// Bounds, with their reasons.
const (
	// connectionsMax is how many clients are served at once; others wait to be
	// accepted. An operator has one or two.
	connectionsMax = 16
	// headerBytesMax bounds a request's line and headers: two names of 255 bytes,
	// escaped, and little else.
	headerBytesMax = 16 << 10
	// bodyBytesMax bounds a request's body, except a definitions file.
	bodyBytesMax = 1 << 20

	// A client that does not send, or does not read, is cut off.
	headerTimeout = 5 * time.Second
	readTimeout   = time.Minute
	writeTimeout  = time.Minute

	// durableTimeout is how long a change waits for the disk, and loopTimeout how
	// long a list waits for the loops. Both take milliseconds when all is well.
	durableTimeout = 30 * time.Second
	loopTimeout    = 10 * time.Second

	// stopTimeout is how long a stop waits for requests that are being served.
	stopTimeout = 2 * time.Second
)
