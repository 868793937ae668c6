// Package segstore is the log with cursors that every queue of the broker is
// built on: an append-only sequence of records with dense 64-bit offsets, kept
// in memory as long as possible and in segment files as long as necessary.
//
// It owns the record batch, the tail, the segments, the settled offsets and the
// flusher that moves bytes from one to the other, through the journal
// (package journal) that makes small amounts of all logs durable together. It never looks into a
// record, knows no queue and no protocol, reads no configuration, and touches
// the file system only through package disk.
//
// # Where to look
//
//	batch.go        building a batch             format.go       checking one
//	log.go          Append, Settle, ...          tail.go         chunks in memory
//	every.go        settling every k-th offset   positions.go    reading every k-th record
//	reader.go       walking records              back.go         reads behind the tail: cache
//	fetch.go        ... the workers              load.go         ... one block from a file
//	flusher.go      the cycle (start here)       enter.go        what goes to the journal
//	commit.go       ... a round as one group     checkpoint.go   making the older file superfluous
//	plan.go         what is done to a log's files
//	choose.go       ... what goes to segments    persist.go      ... how it gets there
//	reap.go         ... and is removed           wave.go         one wave of logs
//	filer.go        waves beside the flusher
//	spill.go        bounding memory              space.go        a full disk
//	punch.go        space of settled records     puncher.go      ... at work
//	survey.go       ... where it is              hole.go         ... its mark in the file
//	tx.go           transactions, meta records   iogroup.go      one submission, many jobs
//	segment.go      the segment file             settledfile.go  the settled file
//	open.go         start, stop, deletion        recover.go      reading back after a stop
//	replay.go       ... and from the journal     assemble.go     ... putting offsets together
//	replayspill.go  ... in bounded memory
//	intervals.go    sets of offsets              files.go        bounded open files
//	retained.go     logs that keep records       filter.go       passing over batches
//	scan.go         walking a segment file       quarantine.go   what is put aside
//	cutend.go       ... and cutting off its end
//	reopen.go       lifting a fence              remake.go       ... by new files
//	remakefile.go   ... one of them              rename.go       ... in place of the old
//	unread.go       logs that cannot be read at a start, and later can
//
// # Life of a record
//
// A Batch collects records and their templates. Append copies it to the open
// chunk of the log's tail and gives it offsets; nothing else happens. If its
// records are settled before the next but one flush tick, it is never written
// and leaves a hole in the offsets. Otherwise the flusher computes its checksum and
// puts it into the journal, with its neighbours and those of all other logs, as
// one group: one write, and one sync if somebody waits. It stays in memory until
// it is settled, or written to the log's last segment: when memory for such
// records gets short, or at the checkpoint that frees the journal's older file;
// a few records of a quiet log are only carried from file to file. A log
// with 256 KiB or more to write goes by the journal, straight to its segment.
// Chunks in a segment are released, but for the first 2 MiB of a log whose
// consumers read there; who comes later reads blocks back from the segment.
// When all records of a segment are settled its file is removed; when most are,
// the blocks of settled batches go back to the file system (punch.go). A record
// that stays unsettled for long keeps its batch, 64 KiB at most unless it is
// larger itself, and a block or two beside it.
//
// # Record batch (the same bytes in memory and on disk, little-endian)
//
//	pos  bytes
//	  0  2  magic 5A BA
//	  2  1  version, 1
//	  3  1  flags: 16 no batch but the mark of a hole, see below; 32 a filter ends
//	        the batch (filter.go). Reserved: 1 producer id, epoch and sequence
//	        follow the header; 2 compressed; 4 encrypted; 8 continuation of a large
//	        record. A reader refuses flags it doesn't know.
//	  4  4  length of the batch in bytes, header included
//	  8  4  CRC-32C of all other bytes of the batch (0-7, then 12 to the end; so
//	        flags and length are covered too); only valid on disk, see invariant 4
//	 12  8  base offset: the offset of the first record
//	 20  4  record count, at least 1
//	 24  2  template count
//	 26  2  0
//	 28  8  base timestamp, Unix milliseconds
//	 36  4  length of the template area
//	 40     templates: for each exchange, routing key and encoded properties,
//	        as uvarint length and bytes
//	        records: uvarint template number << 1 | has timestamp delta,
//	        [uvarint delta to the base timestamp in ms], uvarint body length, body
//	        with flag 32: n bytes of filter, 1 byte n (1 to 255)
//
// A 16-byte message costs 18 bytes in a busy batch. Offsets are dense inside a
// batch; between batches on disk there may be holes.
//
// # Segment file: logs/<log id, 16 hex digits>/<base offset, 20 digits>.seg
//
//	 0  8  magic "BASALSEG"
//	 8  2  version: 1; 2 for retained logs, whose batches may have filters
//	10  2  0
//	12  4  CRC-32C of the other 60 bytes
//	16  8  log id
//	24  8  base offset: no batch in the file begins below it
//	32  8  created, Unix milliseconds
//	40 24  0
//	64     batches in ascending order of offsets
//
// Once it is sealed, the header of a batch may be replaced by the mark of a hole,
// which stands for this batch and those after it up to the hole's end. It lies in
// one sector of 512 bytes:
//
//	 0  8  as in a batch, flags 16; the length is that of the hole
//	 8  4  CRC-32C of the other 44 bytes
//	12  8  base offset of the first batch
//	20  8  0
//	28  8  base timestamp of the first batch
//	36  4  0
//	40  8  next offset: all from the base offset up to it are settled
//	48     up to the length: nothing; zeros or old bytes
//
// A segment ends, once sealed, with
//
//	i  4  index magic "BIDX"
//	    4  entry count n
//	    4  hole count m; 2^32-1 if there are more than 4096, which aren't listed
//	    4  length f of the filters; 0: there are none
//	  24n  entries: offset, position, timestamp (8 bytes each) of the first batch
//	       that begins at least 64 KiB after the one of the entry before; one that
//	       is in a hole now stays in the index
//	  16m  holes: offsets [first, end) (8 bytes each) that were settled before
//	       they had to be written
//	(1+f)n flags and filter of each entry, if f is not 0; see filter.go
//	t  8  trailer magic "BASALEND"; t is 52 bytes before the end of the file
//	    8  i, where the batches end
//	    8  number of records
//	    8  next offset: after the last batch
//	    4  entry count n
//	    4  hole count m
//	    4  CRC-32C of the index from i to t
//	    2  version: 1; 2 if there are filters
//	    2  length f of the filters
//	    4  CRC-32C of the trailer's first 48 bytes
//
// # Settled file: logs/<log id>/settled
//
//	 0  8  magic "BASALACK"
//	 8  2  version, 1
//	10  2  0
//	12  4  CRC-32C of the other 28 bytes
//	16  8  log id
//	24  8  created, Unix milliseconds
//	32     records of 24 bytes:
//	       1 kind, 3 zeros, 4 CRC-32C of the other 20, 8 a, 8 b
//	       kind 1: all below a is settled; kind 2: [a, b) is settled;
//	       kind 3: the cursor is a; kind 4: in the segment with base offset a,
//	       b bytes of settled batches were found or given up, see punch.go
//
// It is written under another name, synced, and renamed: when a log with many
// settled ranges is checkpointed, when its last segment goes, and by Close. Records
// of kind 1 and 2 only add to what is settled, so they hold in any order and any
// of them may be missing: then messages come again. The last cursor counts. What
// the journal says comes after it.
//
// # Journal: journal/0, journal/1
//
// See package journal. Entries name logs and offsets, and offsets are never given
// twice, so replaying them is harmless, as often as one likes.
//
// Other names: transient/ (logs that don't survive a restart) and trash/
// (deleted logs on their way out) are wiped by Open; quarantine/ and files with
// .quarantine in their name are what could not be read; nobody but the operator
// removes them.
//
// # Invariants
//
//  1. Offsets are dense at Append and never given twice, as long as anything on
//     disk or in memory can name them.
//  2. low <= Durable <= Next after a flush; low and Durable never fall. An
//     offset below low is settled.
//  3. A chunk holds whole batches with contiguous offsets, chunks are sorted and
//     disjoint. There are gaps where chunks were evicted or wholly settled. In a
//     chunk flushed <= saved <= used: below flushed batches are in a segment, below
//     saved in the journal or a segment, or settled before, or on their way there.
//  4. The bytes of a batch never change once Append has published it under the
//     log's mutex, except for its checksum, which the flusher writes before the
//     batch goes to disk and which nobody reads in memory. So Readers read and
//     the flusher writes without a lock.
//  5. A Reader holds a reference on the buffer it stands in; a write in flight
//     holds one too. Releasing a chunk never invalidates bytes in use.
//  6. Everything unsettled is in a resident chunk or below the readable size of a
//     segment, or both: a chunk is evicted only after its writes to a segment
//     returned. Being in the journal is not enough: nobody reads there.
//  7. Batches get their place in a segment in the order of their offsets, by the
//     flusher alone; a batch passed over as settled is never written later. Only
//     the last segment grows. (The journal has them in any order.)
//  8. A failed write or sync of a log's files fences the log: it takes no more
//     records, Durable stays, Err says why. What was appended can still be read
//     and settled. Nothing is ever written to its files again: Reopen lifts the
//     fence when others took their place (reopen.go). A failed write or
//     sync of the journal fences all durable logs until the next start. A write that finds no space
//     fences nothing: it is done again, whole, until there is some.
//  9. A trailer is written only when all batches before it are synced: who finds
//     a valid trailer needs not look at the data.
//  10. The last segment of an empty log is removed only after the settled file,
//     which then alone remembers Next, is synced.
//  11. What cannot be read is renamed or copied aside and reported, not deleted.
//  12. A file of the journal is overwritten only when a Done entry for it is synced
//     in the other one. That is written only when, for every log with entries in
//     the file, the segments are synced, and what neither they nor the settled
//     file has is carried over. For a fenced log the file is put aside instead, and
//     so it is for an unread one (invariant 15).
//  13. All of a transaction is in one group of the journal. Its batches go to
//     segments, and segments that it settled are removed, only when that group
//     is synced.
//  14. A mark of a hole is written only in a sealed segment whose footer is synced,
//     and only when the settling of all offsets in it is on stable storage: the
//     round of the journal is synced. Blocks are punched only when the mark is
//     synced, whole ones, between the mark and the end of the hole. So an
//     unsealed tail has no holes, footers and unsettled batches are never touched,
//     and whoever walks a segment from its start meets batches and marks, or
//     damage. A failure here fences nothing.
//  15. A log that cannot be read when it is opened keeps no other from it. It is
//     fenced, shows no offsets and gives none; nothing is written to its files, and
//     what the journal has of it, in its two files or in kept ones, stays until
//     the log is read and all of it is in segments, or it is deleted (unread.go).
//
// # What a crash can leave, and what mends it
//
//  1. A segment without trailer: it is scanned. The index is built again.
//  2. Bad bytes at its end (a torn write, zeros, a torn footer): cut off; a copy
//     is kept as .quarantine unless they are zeros or a footer, or the disk is
//     full. None of it was durable without the journal, or it was damaged later.
//  3. Bad bytes between good batches (writes that arrived out of order, a bad
//     sector), and holes: what the journal has for them becomes a stray chunk,
//     see replay.go; else they are passed over, reported, and the offsets count
//     as settled.
//  4. A segment of zero bytes (created, not yet written): removed.
//  5. A segment with a bad header: set aside; the offsets in it are not reused.
//  6. Gaps between batches and between segments: settled offsets.
//  7. A torn record at the end of the settled file: cut. settled.tmp, and segments
//     named .seg.tmp (reopen.go): removed.
//  8. Settled offsets that were not written yet: the records come again.
//  9. Batches in the journal that the segments lack: they become chunks again.
//  10. Batches in the journal and an unsealed segment: skipped, but the segment's
//     bytes are written again, because the sync of the dead process may have failed
//     and the kernel may take them for written.
//  11. A checkpoint that did not get to its Done entry: both files are replayed, and
//     it begins anew.
//  12. A torn group, damaged groups: see package journal.
//  13. A deletion in the journal whose directory is still there: the directory is
//     nobody's log; the owner has it set aside (ListLogs, Quarantine). What only
//     the journal has goes with it, batches without a place in a segment as .stray.
//  14. Logs in the journal that the owner does not open: they stay, are
//     listed by ListLogs, and checkpointed like others.
//  15. A mark whose blocks were not punched, or not all, or a run of settled batches
//     whose mark did not arrive: both are as good as a hole. The space comes back
//     when the segment is looked at again.
//
// What may be a leftover of a crash is reported as a warning; it is an error after
// a clean stop (Options.AfterCleanStop), and where no bytes are missing. So is an
// index or a trailer with bad bytes, though no record is lost by it.
//
// Nothing of this waits for space: on a full disk copies are not made, and what
// should be set aside stays until the next Open.
//
// A corrupt batch in a sealed segment is found by the reader that gets there:
// reported once, counted in Stats, and its offsets are ErrMissing from then on.
//
// # Threading and locks
//
// All methods of Store and Log may be called from any goroutine, also from event
// loops: none waits for the disk, except Open, OpenLog, Log.Reopen, Log.Reread, ListLogs,
// Quarantine, Close and Crash. A Batch and a Reader belong to one goroutine at a time.
//
// Lock order: gate.mu, then Log.mu, then one of Store.mu, Store.chunkMu, fetcher.mu,
// puncher.mu, filer.mu or a lock of the arena; these six are leaves. Never two Log.mu. fileCache.mu is taken
// with no other lock held, because files are opened under it (OpenLog, whose
// log nobody knows yet, is the exception). Callbacks (OnCommit, wake) run with
// no lock held.
//
// The lists of logs to visit change under Store.mu. The flags in a log that mirror
// them are set under it, and under the log's mutex; the flusher clears them under
// neither, before it visits the log. A log that a batch wants durable (Batch.WantDurable)
// is on the urgent list only: its visit lists it for what is left. Of a log's disk side (segments, acks) the flusher is the only writer, under
// the log's mutex where others read it: it reads them without. Between Log.filing
// being set, by the flusher, and being cleared, by the filer, the filer is that, or
// with journaled.reopening a call of Reopen or Reread. (The puncher makes
// holes in sealed segments, which the flusher does not write to any more.) The fields of a
// segment that only it uses (created, entrySynced, unsynced, bare, full,
// footerDirty), and the journal, need no lock at all.
//
// # Costs
//
// An idle log is about 500 bytes, no chunk, no goroutine, no open file. A log
// with one small record adds a chunk of 4 KiB; busy ones get 16, 64, then 256
// KiB chunks. Records in segments stay resident up to 2 MiB per log and 8 MiB for
// all logs, blocks read from disk likewise; those that only the journal has up to
// 8 MiB (Options.HeldBytes), 8 MiB more while the filer is behind; more than 128
// logs with open chunks keep half as much resident, and hold the rest instead
// (spill.go); all else is unwritten tail, bounded by Pressured. A
// group of the journal is assembled in a buffer of its size, at most 4 MiB unless
// a transaction is in it; one up to 2 MiB is kept while there is such work. After a power cut strays (replay.go) come on top.
// A steady small record is written twice, to the journal and to its segment, if
// it lives that long; a by-passed one once. Idle readers should be closed: one that stands in a chunk pins it.
// The arena's pages go back to the kernel when its owner calls Trim.
package segstore
