// Package gate decides whether a broker got worse: whether a candidate's
// figures are worse than a baseline's by more than noise and by more than is
// tolerated.
//
// It owns the order of the runs, the decision and the verdict. The runs
// themselves are steps of package suite, the statistics are package stats'.
//
// # How it is not fooled
//
// A small machine that other things run on as well is slower by a third in one
// minute than in the next. So:
//
//   - Baseline and candidate take turns, in the order ABBA: a machine that gets
//     slower meanwhile hits both sides of the pairs alike, first and second.
//   - A figure fails when its middle loss is above its limit (the least effect
//     that matters) and chance does not explain it: the signed rank test on the
//     pairs, exact. One of both alone is no failure: a loss of 1 % may be
//     certain, and one of 30 % may be a neighbour's doing.
//   - A figure passes when a loss that would be grave is excluded: when all of
//     the interval of its loss is below "exclude".
//   - A figure with a ceiling fails above it, whatever the baseline has. Some have
//     only that, and are of the candidate alone: what administration costs while
//     nobody uses it (admincost.go).
//   - While a figure does neither, more pairs are run, up to the time that is
//     allowed. What is still open then is no pass: the verdict says that the
//     machine was too noisy, with exit status 1. A gate that passes what it
//     could not see is none.
//
// Thresholds and rules are data: thresholds.json.
//
// # Any load
//
// [ABScenario] (ab.go) runs whatever scenario one likes on two binaries, in the
// same order, and shows the ratios of all its figures. It decides nothing.
//
// # Recorded baselines
//
// Against a file instead of a binary only figures that mean something on
// another day are compared: fractions of the yardsticks, memory, bytes written.
// There are no pairs then; the test is that of Mann and Whitney. A file whose
// signature does not verify is refused, so that nobody lowers the bar by
// editing a number.
//
// # Map
//
//	scenario.go    the subcommand
//	run.go         turns, and when to stop
//	figures.go     what is measured of a broker in one turn
//	admincost.go   what administration costs in memory
//	thresholds.go  the rules (thresholds.json)
//	decide.go      samples to verdicts
//	verdict.go     the result: JSON and text
//
// # Threading
//
// All of it runs on the goroutine of the scenario.
package gate
