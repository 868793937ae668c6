// Package stats compares samples of measurements.
//
// It owns the few statistics that the comparisons and the gate need, and knows
// nothing of brokers. Machines that benchmarks run on are noisy in an ugly way:
// most runs agree and some are far off, in one direction. So everything here
// works on ranks and medians. Nothing assumes a normal distribution, one run
// that went wrong moves nothing, and with the few samples that a benchmark has
// (3 to 20) the distributions are computed exactly instead of approximated.
//
//   - two samples taken apart: [MannWhitney], and [ShiftInterval] for how much
//   - pairs taken right after each other: [SignedRank] and [PairedInterval]
//
// The intervals are those that belong to the tests (Hodges and Lehmann 1963):
// they hold exactly the shifts that the test would not reject, so an interval
// and a probability printed beside each other never contradict.
//
// A ratio of figures is a shift of their logarithms; callers who want ratios
// pass logarithms and take the exponential ([Logs], [Interval.Exp]).
//
// # Invariants
//
//  1. No function changes its arguments, keeps state or draws random numbers:
//     the same samples give the same answer.
//  2. A probability is between 0 and 1; an interval has Low <= Middle <= High.
//
// # Threading
//
// Any goroutine.
package stats
