// Package suite runs scenarios of the load generator one after the other
// against a broker, and picks from their JSON the figures of the headline
// table.
//
// It owns the broker process that it starts and the order of the runs. It
// measures nothing itself and speaks no AMQP: scenarios run through [Tool], as
// child processes of the same executable, so that each starts with an empty
// heap and leaves nothing behind, and all that is known of them is their JSON.
//
// # Map
//
//	scenario.go  the subcommands suite and peer
//	sections.go  the suite as data: what is run, and where the figures are
//	run.go       runs it: yardsticks, sections, yardsticks again
//	derive.go    figures made of figures, and fractions of the yardsticks
//	series.go    the broker's memory over time
//	path.go      finds a figure in the JSON of a scenario
//	launcher.go  a broker of one's own
//	child.go     a scenario as a child process
//
// # Invariants
//
//  1. With a broker of one's own every section starts on an empty directory;
//     the broker is stopped before its directory goes.
//  2. A figure that could not be measured is named with the reason; the others
//     are measured all the same.
//  3. What was not ended properly (interrupted, an error) says so in the result.
//
// # Threading
//
// A [Runner] belongs to one goroutine. It starts one more, which looks at the
// broker's memory and has ended before the section's figures are used.
package suite
