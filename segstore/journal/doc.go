// Package journal is the write-ahead journal that all logs of a store share: two
// files, used alternately, of groups of entries. It owns the format, the writer
// that assembles groups, and the reader that finds out after a stop which groups
// hold. It knows logs as numbers and record batches as bytes; what entries mean,
// when to write, sync and checkpoint is its owner's business (package segstore).
//
//	format.go   groups and entries as bytes     file.go     reading one file
//	journal.go  the pair of files               write.go    assembling a group
//	replay.go   visiting all that counts        kept.go     files that count for one log
//	entries.go  ... for one log, later
//
// # Files: journal/0 and journal/1
//
// A file is a sequence of groups from position 0 on. All groups of one use of a
// file carry the same generation, and each use begins at position 0 with the next
// generation, over the bytes of the one before the last. What stands behind the
// last group of the generation is left over from older ones, or zeros.
//
// Group, little-endian:
//
//	 0  8  magic "BASALJRN"
//	 8  2  version, 1
//	10  2  0
//	12  4  CRC-32C of the other 60 bytes of the header: who looks for a group
//	       need not believe a length before
//	16  8  identity of the journal, random, the same in all groups of both files:
//	       the body of a message can't pass for a group
//	24  8  generation, from 1
//	32  8  sequence number: session in the upper 24 bits, count in the lower 40.
//	       A group follows the one with the number before; the first of a later
//	       session (a life of the process) may follow any. So a group that a
//	       crash left behind a torn one is never taken for the successor of the
//	       group that is written over the torn one in the next life.
//	       For that a session's number is above those in all headers that are
//	       found, also behind torn groups, see fileScan.see.
//	40  8  position in the file below which all was synced when this was written:
//	       tells damage from a torn tail
//	48  4  length in bytes, header and padding included
//	52  4  number of entries
//	56  4  CRC-32C of everything after the header: all entries or none
//	60  4  0
//	64     entries, then zeros up to a multiple of 8 bytes
//
// Entry:
//
//	 0  1  kind
//	 1  3  0
//	 4  4  length of what follows the entry's header
//	 8  8  log; for a meta record its sequence number, for Done a generation
//	16     kind 1 batch: whole record batches with contiguous offsets, as in
//	         segments
//	       kind 2 range: first, end (8 bytes each): offsets [first, end) are settled
//	       kind 3 low: 8 bytes: all offsets below are settled
//	       kind 4 cursor: 8 bytes: the cursor
//	       kind 5 deleted: nothing. Entries before it belong to a log that is gone
//	       kind 6 meta: bytes of the owner's owner
//	       kind 7 done: nothing. Entries before it, of generations up to the one
//	         it names, mean nothing: their content is durable elsewhere
//
// Other names: <generation, 20 digits>-<log, 16 hex digits>.kept is a file taken
// out of use that counts for that log only; names with .quarantine are copies of
// damaged bytes. Those are never removed here.
//
// # What is assumed of the disk
//
//  1. A sync that returned nil made everything written to the file before durable.
//  2. A sector of 512 bytes is written wholly or not at all, and bytes written
//     again with the same value don't change. (Groups are not padded to sectors,
//     so the last sector of a durable group is written again with the next one.)
//
// # What a stop can leave, and what Open makes of it
//
//  1. A bad group at the end of a file, perhaps with sound ones behind it that
//     were not synced either: the end. The next session overwrites it; its header
//     is erased before, so that it stays bad when that is cut short.
//  2. A bad group, and a later one of the same generation that says it had been
//     synced: damage. It is reported, the bytes are copied aside, and what comes
//     after it counts.
//  3. A file whose first group is torn, over groups of the generation before
//     the last: those are done, the other file says so.
//  4. No sound group at all: a new journal.
//  5. Groups that are only in the page cache, or whose sync failed in the
//     previous life: see Refresh.
//
// # Space
//
// A steady load of small syncs must not change the file's metadata each time.
// Measured with write + fdatasync in a loop, medians in microseconds, on the ext4 of
// a cloud VM, and on XFS in a file on it, mounted by loop (4 KiB writes, then 120
// bytes; each the better of two rounds, as other work ran on the machine):
//
//	                                      ext4         XFS
//	append                             151 / 129    326 / 234
//	into space made by fallocate       125 /  82    329 / 116
//	into space written before           79 /  89    138 / 119
//	append, zeros 1 MiB ahead           89 /  96    125 / 129
//	append, zeros 4 MiB ahead          112 /  86    118 / 128
//	as written before, padded to 512         100          139
//	as written before, padded to 4096         99          119
//
// So fallocate is no help on XFS, where the first write to each block turns an
// unwritten extent into a written one; writing zeros is, the first time round.
// It costs twice the bytes for the first 256 MiB in a broker's life and nothing
// after. A step of 1 MiB is enough, 4 MiB only makes the hiccup longer.
// Padding groups to sectors or pages wins nothing and fills the file sooner, so
// there is none.
//
// # Invariants
//
//  1. A group is written at the position after the one before, and never again in
//     its generation, except as a whole and unchanged after a write that found
//     no space.
//  2. A file is only overwritten from position 0 when the other file holds a
//     durable Done entry for it (the owner's duty, see Switch).
//  3. Generations and sequence numbers only grow.
//  4. No input makes Open or Replay panic, loop, or take more memory than the
//     largest sound group has.
//
// # Threading
//
// A Journal belongs to one goroutine at a time; Entries belong to another. Open, Replay, Refresh, Keep,
// DropKept, OpenEntries, and End when it creates a file block on the disk; the rest does
// not: the owner submits the writes that End returns.
package journal
