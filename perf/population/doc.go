// Package population measures what many things cost a broker while they do
// nothing: idle connections and queues, in bytes of its memory each.
//
//	population.go   the outline: grow step by step, rest, look, remove
//	report.go       the result: JSON and text
//	connections.go  connection-count: open them and hold them
//	queues.go       queue-count: declare them, and put messages into them
//
// # Invariants
//
//  1. Memory is read after a rest, before the first thing is made, after each
//     step, and after all were removed. Bytes each are growth by count, so what
//     the broker needs for itself does not count.
//  2. At the end everything that was made is looked at: a connection that the
//     broker closed meanwhile, or a message that it lost, fails the run.
//  3. Everything is removed again, also after Ctrl-C, unless --keep says not to.
//
// # Threading
//
// Things are made by goroutines of [growth.add]; progress and figures belong to
// the goroutine that runs the scenario.
package population
