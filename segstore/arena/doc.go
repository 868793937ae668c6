// Package arena hands out off-heap buffers.
//
// Everything big in the broker (log tails, read blocks, receive and send
// buffers) lives in anonymous mappings outside the Go heap, so that the
// collector has a few megabytes to look at however many messages are queued.
//
// A Pool cuts slabs of 1 MiB into buffers of four size classes (4, 16, 64 and
// 256 KiB) and keeps free ones on LIFO lists, because on virtual machines a
// page fault can cost more than copying the page: the hottest buffer is reused
// first. Requests above 256 KiB get a mapping of their own; 2 MiB of those that
// were released last are kept for the next (large.go), the others unmapped.
//
// Invariants:
//
//  1. A Buf is owned by whoever holds one of its references; the last Release
//     puts it back. Retain on a Buf without references panics.
//  2. Trim gives the pages of buffers that stayed free for a whole interval
//     back to the kernel; their address range is kept, but for large ones.
//  3. No Buf is ever handed to two owners.
//
// Threading: every method may be called from any goroutine.
package arena
