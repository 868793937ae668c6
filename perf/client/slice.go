package client

import "golang.org/x/sys/unix"

// slice is the least time in nanoseconds that Linux lets a thread ask to run at
// a time.
const slice = 100000

// ShortenSlice lets the calling thread, when it wakes up, take the core from one
// with a longer slice (Linux 6.12 and later; others ignore it). What else runs on
// the machine then makes a schedule late by microseconds instead of milliseconds.
func ShortenSlice() {
	attr, err := unix.SchedGetAttr(0, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL && attr.Policy != unix.SCHED_BATCH {
		return
	}
	attr.Runtime = slice
	_ = unix.SchedSetAttr(0, attr, 0)
}
