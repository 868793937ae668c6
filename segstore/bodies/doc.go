// Package bodies keeps the bodies of large messages in files of their own, so
// that a message of any size passes through the broker in pieces and is never
// in memory as a whole.
//
// It owns the directories spool/, bodies/ and transient-bodies/ of a data
// directory. It knows no queue, no record and no protocol: a record elsewhere
// holds a Ref, and a queue is a Dir here.
//
// # Names
//
//	spool/<body id, 16 hex digits>                              arriving
//	bodies/<log id, 16 hex digits>/<body id, 16 hex digits>     complete, one name per queue
//	transient-bodies/<log id>/<body id>                         the same, of queues that end with the process
//	quarantine/...                                              what could not be read, or belongs to no queue
//
// A file holds the body's bytes and nothing else. All names of a body are hard
// links of one file; each is the reference of one queue, which removes it when
// it has settled the message. The file system does the counting.
//
// # Reference (24 bytes, little-endian; the body of a record)
//
//	pos  bytes
//	  0  8  body id
//	  8  8  size in bytes
//	 16  4  CRC-32C of the body
//	 20  4  0
//
// The checksum is there because bodies of messages that nobody asked to be
// durable are not synced: a record may survive a power cut that its body does
// not, and then must not deliver zeros. It also finds a decayed disk.
//
// # Life of a body
//
// Create makes an Incoming; each Write hands a buffer to the disk and returns.
// Finish waits for the writes, syncs the file, names it for each queue and
// syncs those directories; done then says that a record may refer to it. The
// owner then calls Keep, or Abort, which removes every name. Open makes an
// Outgoing, which reads ahead by one piece while the one before it is sent. Link
// gives a body further names, for records of other queues.
//
// # Invariants
//
//  1. Finish with sync calls done(nil) only when file and names are durable:
//     a record appended after it always has its body.
//  2. A body id is never given out twice: ids count up from a random number.
//     (Should two meet all the same, the name exists, and Finish fails.)
//  3. The bytes of a file never change after Finish.
//  4. Every buffer given to Write is released exactly once, when it is written
//     or when writing it has become pointless.
//  5. What is in memory is bounded: per Flow by flowBytesMax and one piece of
//     input, for all of them by writingBytesMax and one piece each; per Outgoing
//     by two reads, one when all together exceed readingBytesMax.
//  6. Nothing unreadable is deleted: it is moved to quarantine/, or left alone.
//  7. A directory of a queue that cannot be listed keeps nobody from starting, and
//     nothing in it is touched until it was listed (unread.go).
//  8. A body that the disk fails to read is neither deleted nor put aside: it may be
//     whole (suspect.go).
//
// # What a crash can leave, and what mends it
//
//  1. Files in spool/: bodies that were not complete, or not named yet. No
//     record refers to them. Open wipes the directory.
//  2. Files in transient-bodies/: Open wipes the directory.
//  3. A name without a record (between Finish and the append, or between the
//     settling and the removal): Open lists the names it found (Left), and the
//     broker removes those that no unsettled record refers to.
//  4. A record without its name (the settling was not written yet when the name
//     was removed), or with a torn body (it was never synced): Open or the last
//     Next of an Outgoing tells. The message was acknowledged, or not promised.
//  5. A directory of names without a queue (between the deletion of the queue
//     and that of its directory): the broker has it put aside (Quarantine); if
//     it is empty, Open removes it.
//
// # Threading
//
// All methods of Store may be called from any goroutine. An Incoming and an
// Outgoing belong to one goroutine each (a connection's loop). No method waits
// for the disk but Open of the package, and Close, Drain, Link, Reread and Quarantine of Store:
// what blocks runs on up to workersMax goroutines, which end when there is
// nothing to do. Callbacks (done, wake, Flow.Resume) are called without locks
// from those or from the disk's own goroutines, and must only post.
//
// Locks: each is a leaf but Incoming.mu, under which workers.mu is taken, and
// Store.dirMu, under which Store.unreadMu is.
// Nothing is submitted to the disk and no callback is called under any: a
// Disk may call Done from within Submit.
package bodies
