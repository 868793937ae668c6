// Package logs is where the broker's log lines go: as text, JSON or for the
// journal of systemd, to standard error or a file; the last of them stay in memory
// for operators (Ring), and others may follow (Tap.Follow), such as the log
// exchange.
//
// Invariants:
//
//  1. Who logs never waits for a follower: what a follower has no room for, it
//     does not get.
//  2. The memory of kept lines is bounded: linesKept lines of at most lineBytesMax.
//
// Any goroutine may use everything here.
package logs
