package amqp

// Limits of the codec, with their reasons.
const (
	// FrameMinSize is the frame size, in bytes, that both peers must accept
	// before tuning (specification 4.2.3 and connection.tune).
	FrameMinSize = 4096
	// FrameOverhead is what a frame costs beyond its payload: 7 header bytes and the end octet.
	FrameOverhead = frameHeaderSize + 1
	// ShortStringMax is the length, in bytes, that fits the one length byte of a short string.
	ShortStringMax = 255
	// TableDepthMax is how deep tables and arrays may nest. Clients nest two or
	// three levels (x-death is an array of tables); without a bound a 128 KiB
	// frame nests 20,000 levels and the recursion eats stack.
	TableDepthMax = 64

	frameHeaderSize   = 7
	methodHeaderSize  = 4
	contentHeaderSize = 14 // class, weight, body size, property flags
)
