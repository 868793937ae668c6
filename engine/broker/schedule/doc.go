// Package schedule keeps the times at which the messages of a log are due, in
// little memory however many there are, and gives them out in order.
//
// It owns a second log, the index, of which it writes and settles all records.
// The messages belong to the caller: the package asks their log what is
// unsettled and durable, and reads it when it has to find times again.
//
// An entry is a time and an offset of the messages; entries are ordered by time,
// then offset. New ones come to a heap in memory (fresh). When there are freshMax
// of them they are sorted and written to the index as a run of level 0. When
// there are fanIn runs of a level they are merged into one of the next. A run is
// read from its head, a block at a time, and only when that block's first entry
// is due. So memory holds the fresh ones, a block for each run that is being
// read, and 16 bytes for each block on disk:
//
//	 add            freshMax               fanIn
//	-----> fresh -----------> runs of 0 ----------> runs of 1 -> ...
//	         |                   |                      |
//	         +---------+---------+----------------------+
//	                   | the least of all heads, when due
//	                   v
//	                 taken ---- released by the caller ----> Done
//
// # Block: one record of the index
//
//	1        1: last block of its run, else 0
//	uvarint  number of the run
//	uvarint  its level
//	uvarint  number of the block in its run
//	uvarint  covered: this run and those before it have all messages below
//	uvarint  entries; for each
//	         uvarint time in Unix ms, of others than the first less the one before
//	         varint  offset less the one before
//
// # Invariants
//
//  1. Every unsettled message is fresh, taken, or in exactly one run. Those below
//     covered that are fresh were taken before, or are being found again.
//  2. Runs hold only messages that were durable when they were written: the
//     index never knows more than a crash leaves of the messages.
//  3. A block is settled in the transaction that settles the last of its messages,
//     or that has its entries in another run: after a crash, each unsettled
//     message is from covered on, or in a whole run. A run counts as whole when it
//     has its last block; one without is what a crash left of a merge.
//  4. A start counts: unless the runs have exactly the unsettled messages below
//     covered, the index is thrown away and made again from the messages. So no
//     damage to it can lose one.
//  5. An entry whose message is settled means nothing: it is passed over. A merge
//     may lag behind what is taken meanwhile from the runs that it reads.
//
// A start reads the index, and the messages that were fresh: at most freshMax, or
// freshBytesMax of them, and what came since the last commit.
//
// Threading: Add may be called from any goroutine. Everything else belongs to one
// goroutine at a time. Open waits for the disk, and so does finding times again
// after damage; nothing else does.
package schedule
