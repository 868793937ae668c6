// Package sim is a disk in memory that fails the way disks do: it implements
// disk.Disk, and at a simulated power cut it tears, reorders and drops what was
// not synced. Everything random comes from one seed. It never touches a real
// file, clock or network, and is linked into tests only.
//
// # What a disk and its file system may do (each is simulated)
//
//  1. Unsynced data is written back in any order, or not at all, in whole
//     sectors of 512 bytes or 4 KiB. A sector on the platter is an image of that
//     sector in the page cache at some moment since the last sync, so a write
//     over several sectors may be torn between them, and of two writes the later
//     may arrive alone.
//  2. Size, truncations and holes of a file are journaled: after a cut they are
//     those after some prefix of its unsynced changes, whatever data arrived.
//     The size may also stand at a sector boundary inside the first write that
//     is not part of the prefix. What is inside the size and did not arrive is
//     zeros, or the older data where there was some.
//  3. A file's own Sync does not make its name durable; only SyncDir of the
//     directory does, and only of that directory, not of those above it. (ext4
//     and XFS are mostly kinder; POSIX allows this.)
//  4. Unsynced operations on names survive each for itself, subject to 5 of
//     the next list. Names, and the sizes of different files, are not ordered with
//     each other or with data.
//  5. The process may die (Kill) with an Op half done: a write up to any byte
//     (one inside a sector of 512 bytes wholly or not at all: the kernel copies
//     inside a page without a stop). What it did before stays, and is still unsynced.
//  6. The disk is full in the middle of a write: what fits by whole blocks of 4
//     KiB is written, the rest fails with ENOSPC. A write into a hole needs
//     space too; an overwrite does not.
//  7. Any operation fails with EIO or another error; a write may have done a
//     part before (a short write, which disk.Disk hides by continuing).
//  8. A failed Sync writes back some part as a power cut would, and the rest
//     counts as clean: reads still see it, later Syncs succeed and do not write
//     it (Linux, "fsyncgate"). What a failed Sync left behind is written by
//     nothing but a new write of the same bytes.
//  9. Bits flip, in a read or at rest, with no error.
//
// # What is assumed never to happen
//
//  1. A sector of 512 bytes is never torn, and a write never damages the sectors
//     beside it.
//  2. A Sync or SyncDir that returned nil told the truth: no cache in the device
//     lies. (Sync is fdatasync: the size and the blocks needed to read the data
//     are durable with it.)
//  3. Blocks never show stale data of other files, nor bytes from beyond an
//     earlier end of the same file: what was not written reads as zeros.
//  4. Rename is atomic, in one directory or across two: after a cut a file has
//     its old name or its new one, not both and not neither.
//  5. An operation on names survives only if those before it that it builds on
//     do: on the same name, on the same file or directory, on the content of a
//     directory it removes, and on the directories a rename or link brings the
//     file into. (ext4 and XFS order all of them.) So a file that had a durable
//     name and was not removed is never lost.
//  6. Data written after a truncation that did not survive is not found beyond
//     the cut: its blocks were new ones.
//
// # Simplifications
//
// Names, inodes and directories take no space; space of a removed file is free
// at once when its last user closes it. Directories can't be opened; SyncDir of
// a file is an error. There are no permissions and no times.
//
// # Invariants
//
//  1. Content is kept twice, live (what the process sees) and durable; live is
//     durable plus pending, except where a failed Sync lost data or a bit
//     flipped.
//  2. An Op takes effect under the Disk's mutex at one moment: in Submit when
//     Ordered, else when the scheduler picks it. Done is called later, without
//     the mutex, exactly once.
//  3. The files of a crashed Disk never change again. PowerCut and Kill return a new one,
//     without the rules, with its own random numbers drawn from the old ones.
//  4. The same seed and the same calls give the same outcome, byte for byte, if
//     the calls come in one order. Ordered allows them to come from a goroutine
//     that does not wait for Done; with Shuffled it must wait before it makes
//     other calls, or the outcome depends on the Go scheduler; Manual leaves
//     nothing to it.
//
// # Use
//
//	d := sim.New(sim.Options{Seed: seed})
//	d.CrashAfter(n)       // or nothing, and PowerCut at a moment of one's own
//	... run the store on d until it fails with ErrPowerCut ...
//	d = d.PowerCut()      // or Kill; then open the store on it and check
//
// The conformance tests of disktest run on Ordered and Shuffled. Manual is left
// out there: disk.Run waits for Done, so another goroutine has to call Step.
// An Op that took effect before the cut may report success after it.
//
// Threading: every method may be called from any goroutine. The goroutine of
// the Disk runs only while Ops wait for Done.
package sim
