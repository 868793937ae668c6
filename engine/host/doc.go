// Package host tells how much memory the process may have: what the machine has,
// or what a control group (a container, a unit with MemoryMax=) leaves it of that.
//
// It reads what the kernel says anew at each call, because limits are changed
// while processes run, and changes nothing.
//
// Invariants:
//
//  1. A limit that cannot be read is none: nothing fails for it.
//
// Threading: any goroutine.
package host
