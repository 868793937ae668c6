package schedule

const (
	// freshMax entries in memory, of 16 bytes, are written to the index.
	freshMax = 8192
	// freshBytesMax of messages are, too, however few: a start reads them all.
	freshBytesMax = 64 << 20
	// blockEntries are decoded at once. With the levels that a hundred million
	// messages make, 40 runs have 320 KiB of them in memory.
	blockEntries = 512
	// blockBytesMax is the size of a block of two large numbers for each entry.
	blockBytesMax = 1 + 5*10 + blockEntries*20
	// fanIn runs of one level become one of the next: each entry is written once
	// for each power of fanIn.
	fanIn = 8
	// mergeEntries are merged at one go, so that others wait for about a
	// millisecond at most.
	mergeEntries = 4096
	// TakenMax bounds what is taken and not yet done.
	TakenMax = 16384
	// closeEntries are worth writing when the broker stops, instead of reading
	// their messages again at the next start.
	closeEntries = blockEntries
	closeBytes   = 1 << 20

	_ = uint(freshMax - closeEntries)
	_ = uint(mergeEntries - blockEntries)
)
