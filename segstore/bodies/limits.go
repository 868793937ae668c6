package bodies

import "github.com/basaltmq/basaltmq/segstore/arena"

// Limits, with their reasons.
const (
	// workersMax bounds the goroutines that block: enough for the syncs of many
	// publishers to share the file system's commits.
	workersMax = 16

	// flowBytesMax is what one connection may have on its way to the disk before
	// it is not read from any more; below flowBytesLow it goes on.
	flowBytesMax = 1 << 20
	flowBytesLow = flowBytesMax / 2
	// writingBytesMax is the same for all connections together: beyond it each
	// may have one piece of input on its way.
	writingBytesMax = 8 << 20

	// readingBytesMax of buffers in all Outgoings end reading ahead, and make
	// reads small.
	readingBytesMax = 8 << 20
	readBytes       = arena.BufBytesMax
	readBytesSmall  = 64 * arena.KiB
)
