// Package stats holds what the broker counts: arrays of counters by kind, and
// who may touch them. It knows nothing of queues or connections.
//
// Counting is done per batch, run or frame, never per message where that can be
// avoided, in one of two ways:
//
//   - Counts is a plain array. Its owner guards it: a queue by its lock, a channel
//     by being on one loop.
//   - Shared is an array of atomics. There is one for each virtual host and loop,
//     so that two processors do not write the same cache line; readers add them up.
//
// Invariants:
//
//  1. A counter never goes down while its object lives.
//  2. Objects that were never used own no array: a nil pointer is all they pay.
package stats
