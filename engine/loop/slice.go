package loop

import "golang.org/x/sys/unix"

// slice is how long a loop's thread asks to run at a time, in nanoseconds: the
// least that Linux grants. From 6.12 on a thread that wakes up takes the core at
// once from one with a longer slice, instead of waiting for up to 3 ms until
// that has had its turn; and others get their turn sooner. It needs no privilege
// and gives the thread no larger share of the core.
const slice = 100000

// shortenSlice asks for that for the calling thread, if it is scheduled as
// usual. Kernels that do not know it ignore it, and so does the loop when it is
// forbidden: it is merely woken later.
func shortenSlice() {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL && attr.Policy != unix.SCHED_BATCH {
		return
	}
	attr.Runtime = slice
	_ = unix.SchedSetAttr(0, attr, 0)
}
