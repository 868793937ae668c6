// Package histories proves the store by random lives: it runs a segstore.Store
// on the simulated disk (segstore/disk/sim) through thousands of short histories
// of appends, confirms, reads, acks, requeues, purges, deletions, transactions,
// holes in segments, full disks, failing disks, flipped bits, clean stops, kills and power cuts, and
// compares what it says and what it reads back with a plain in-memory model.
//
// The package's library part is that model and nothing else; all
// that drives a store is in its tests. Nothing is linked into the broker.
//
// # Where to look
//
//	model.go           what a log must be, in life and after a stop
//	transactions.go    what must stay together
//	meta.go            what must stay in order
//	program_test.go    a history: configuration and operations from one seed
//	world_test.go      the store under test, its disk, its logs
//	life_test.go       opening and stopping it
//	ops_test.go        the operations
//	journal_test.go    ... transactions and meta records
//	retained_test.go   ... of logs that keep their records (streams)
//	reopen_test.go     ... opening fenced logs again
//	unread_test.go     ... logs that cannot be read at a start
//	faults_test.go     the operations that damage or starve the disk
//	check_test.go      comparing store and model
//	histories_test.go  running many histories, shrinking the one that fails
//
// # What is promised (the numbers are cited where they are asserted)
//
//  1. In life a log is the model: Next, Low, Unsettled, Cursor and the runs of
//     NextUnsettled are exactly those of a list of records with a flag each;
//     offsets are dense, every unsettled record reads back with its bytes,
//     template and timestamp, and bytes stay put as long as a Reader stands on
//     them.
//  2. Durable never falls, never passes Next, and stands still once the log is
//     fenced.
//  3. A record that was unsettled when Durable passed it survives everything
//     but its own settling and damage to its own bytes.
//  4. A clean stop loses nothing: unsettled records, settled ones and the
//     cursor are what they were. Closing twice and cutting the power after it
//     changes nothing.
//  5. A kill loses no record older than a few flush intervals; a power cut
//     neither records nor settlements older than a few sync intervals.
//  6. After any stop an offset below Next has a record or is settled. What is
//     readable is what was appended at that offset and nothing else.
//     Next is never above what it once was.
//  7. A new record is never hidden by what was settled at its offset before: an
//     offset that was on disk is not given again, unless the log was emptied and
//     nothing on disk names it any more: then it may begin at 0. A retained log
//     leaves out as many offsets after a crash as it is told to, and none that is left.
//  8. A log fails alone: when only one log's files fail, the others go on. A
//     fenced log takes no appends. A full disk fences nothing: when there is
//     space again, everything waiting becomes durable.
//  9. A flipped bit in a segment costs the records of the batch it is in at
//     most, and the loss is reported.
//  10. A transaction is there or it is not, in all its logs.
//  11. Meta records come back in order, all up to MetaDurable, none invented.
//  12. A deleted log stays deleted once that had time to reach the disk.
//  13. Nothing is leaked: no buffer of the arena, no goroutine.
//  14. A fenced log can be opened again on a disk that works, unless the journal
//     failed. Nothing in it changes by that, and all of it is durable then, also
//     what was settled.
//  15. A log whose files cannot be read when the store is opened keeps nothing else
//     from being opened. It shows nothing, and changes nothing, however many lives
//     that lasts. When it can be read, in this life or a later one, all other
//     promises hold of it as if it had not been opened since.
//
// After a kill promise 3 counts anew for what was appended in the new life. A
// record that was only in the page cache when the process died was never
// confirmed to anybody, and nobody is left who waits for it; it becomes durable
// by promise 5.
//
// # Running
//
//	go test ./segstore/histories                                        10,000 histories
//	go test ./segstore/histories -run TestHistories -seed=N             one of them, told step by step
//	BASALTMQ_SOAK=1h go test ./segstore/histories -run TestHistories -timeout 0   new ones, for an hour
//
// A failing history is shrunk to the few operations that matter before it is
// printed.
//
// # Time and order
//
// Each history runs in a bubble of testing/synctest: its clock moves only when
// all goroutines of the store are blocked, so intervals of a second cost
// nothing, there are no sleeps, and the same seed makes the same history. The
// disk carries out operations in random order, and a history may hold them back
// and go on while a write or a sync is on its way. (The store visits its logs in
// the order of a Go map in places, so that a rerun may differ in details.)
package histories
