// Package disk is the only way the store touches a file system.
//
// A Disk has two halves. Metadata calls (Open, Rename, Remove, ...) block and
// are made from the store's own goroutines, never from an event loop. Data
// operations (write, read, sync, truncate, punch) are asynchronous: Submit
// hands over a slice of Ops and returns; each Op's Done is called exactly once,
// from a goroutine of the Disk, and must not block.
//
// Implementations: posix (pwrite, pread, fdatasync on a few goroutines), uring
// (the same operations through io_uring; build tag "uring"), and for tests a
// simulated disk that tears, reorders and drops what was not synced. Open
// chooses between the first two and says why. Package disktest holds the tests
// that every implementation passes.
//
// Rules every implementation keeps:
//
//  1. An Op is owned by the Disk from Submit to Done; its Buf must not be
//     changed (write) or looked at (read) in between. The slice given to Submit
//     is the caller's again when Submit returns. In Done, and after it, the Op
//     is the caller's: it may be submitted again there. Buf may be off-heap
//     memory (the store's arena) or Go memory, which is pinned as needed.
//  2. Short writes are continued until all bytes are written or an error
//     occurs; a short read ends at the end of the file (N < len(Buf), Err nil).
//  3. Ops are unordered among each other. Who needs order waits for Done.
//  4. An error is reported once, on its Op, and never retried. (A call that a
//     signal interrupted before it did anything, EINTR, is no error.)
//  5. Paths are relative to the root the Disk was opened with, slash-separated, clean
//     and never leave it; "" and "." are the root itself, which can't be
//     removed or renamed.
//  6. Closing a file with Ops in flight lets them finish; the descriptor is
//     closed by the last one. An Op submitted after Close fails with
//     fs.ErrClosed, and so does one submitted to a closed Disk.
//  7. Close of a Disk waits for all Ops submitted before it. Files opened from
//     it should be closed first.
//
// Errors read "write logs/0001/0.seg: no space left on device": the operation,
// the path relative to the root, the cause; they are *fs.PathError (or
// *os.LinkError) and match syscall.Errno values with errors.Is.
//
// Threading: every method of Disk and File may be called from any goroutine,
// Submit also from an event loop (it takes a mutex for a few instructions and
// never waits for the device).
package disk
