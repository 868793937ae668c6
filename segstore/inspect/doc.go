// Package inspect checks and reads the files of a store that nobody has open.
//
// It owns the survey of a data directory, the verification of everything
// segstore puts there, and the walk over one log's records for people to look
// at. It never writes: it sees the directory as an fs.FS, which cannot. It knows
// no queue names and no AMQP; who does (basaltmqctl) adds the definitions file.
//
//	layout.go   the survey: which files there are, and which should not be there
//	verify.go   Verify: workers, progress, the report
//	segment.go  one segment         batch.go    one batch, whatever its size
//	bodies.go   the bodies of large messages
//	settled.go  one settled file    window.go   buffered reads at positions
//	journal.go      the journal's files, and which of them count
//	journalscan.go  their groups and entries, with the rules of segstore/journal
//	journallogs.go  what they say of logs; counting what no segment has
//	records.go      Records: one log for reading
//	journalrecords.go  the part of it that only the journal has
//	report.go   findings and their levels
//
// # Levels of findings
//
//	damage      bytes that were written are not what they were, or contradict
//	            each other. Something is lost, or would be without a repair.
//	unreadable  the file could not be opened for lack of permission: not checked.
//	unfinished  what a crash or a power cut may leave (the numbered list in
//	            segstore's package comment). The next start mends it; only what
//	            was never promised is gone. After a clean stop there is nothing
//	            unfinished: whoever judges a report should look at CleanStop.
//	note        names that the broker ignores or sets aside.
//
// A torn write and a flipped bit both make the end of the last segment fail its
// checksum. It is called unfinished only where bytes are missing: the batch goes
// beyond the end of the file, or a whole sector of it is zeros. The same holds for
// what lies before good batches in a segment without a footer. Everything else
// is damage: better one alarm too many after a power cut than silence about a
// dying disk.
//
// # What is checked
//
//   - segment: header; every batch's checksum and structure; offsets ascending,
//     not below the segment's base, not beyond the next segment's; index
//     entries naming batches with their offset and time; holes; the trailer's
//     totals. After a bad batch it goes on at the next good one.
//   - settled file: header, checksums, kinds, offsets below segstore.OffsetMax,
//     ranges not empty. What is settled may lie beyond the last batch (records
//     settled before they were written), so the segments are no bound for it.
//   - journal: header, checksum, entries and batches of each group; sequence
//     numbers and generations; that its files belong together. Files are
//     overwritten in place, so what is behind the last group of a generation is
//     whatever was there before, or a torn group. It is damage only if a later
//     group of the generation says that it was on stable storage; otherwise,
//     if it can be told from older bytes at all, unfinished. Files that do not
//     count any more may hold anything. The rules are those of segstore/journal,
//     written down a second time because that package opens files for writing;
//     FuzzReadJournal compares the two.
//   - bodies of large messages: for each message that is not settled, the file
//     that it refers to: its length, its checksum. Files that no such message
//     refers to are a note. A body that is missing or torn is what a crash may
//     leave, as long as the broker was not stopped in good order.
//   - names: everything that the broker did not make, or would remove or rename.
//
// # Invariants
//
//  1. Memory is bounded: per worker one window of windowBytes, an index, and one
//     log's settled set, whatever the sizes of files, batches and records. A
//     batch larger than the window is checked by streaming. Findings beyond
//     findingsPerFileMax of a file are counted, not kept. Of logs that the journal
//     names, the settled set and the offsets covered by segments are kept to the
//     end, and so is each reference to a large body, and the name of its file.
//     Records alone holds one whole batch, and for each batch of its log that
//     the journal has and no sealed segment, where it is.
//  2. No input makes it panic, loop for ever or allocate more than the file is
//     long.
//  3. The report does not depend on the number of workers.
//
// # Threading
//
// Verify and Records may be called from any goroutine and return when all they
// started has ended. A Progress may be read from any goroutine meanwhile.
package inspect
