// Package perf is the load generator: its subcommands, the workloads they run
// and the figures these produce. cmd/basaltmqperf only calls [Main]. What a result
// looks like, and how recorded ones are read and shown, is in package results;
// the statistics that compare samples are in package stats.
//
// # Map
//
//	cli/            command line: options, human units
//	session/        blocking AMQP client for everything that is not measured
//	client/         publishers, consumers, callers on event loops
//	scenario/       what subcommands have in common: target, output, progress
//	churn/          scenarios that make and remove things all the time
//	population/     what many idle connections or queues cost
//	process/        CPU, memory and disk of the broker process
//	results/        the JSON of measurements, tables; stats/ compares samples
//	suite/          the scenarios as a whole, as child processes
//	features/       what features cost beside the same load without them
//	gate/           two brokers in turn: did one get worse?
//	report/         recorded results as HTML and SVG
//	signed/         signatures of recorded results
//
//	cli.go          dispatcher: one scenario per file, registered in scenarios
//	throughput.go   the throughput scenario: run it, end it
//	options.go      its options
//	connect.go      its queues and connections
//	meter.go        its counters: progress line and measured window
//	report.go       its result: JSON and text
//	latency.go      open-loop latency at given rates; latencyreport.go its result
//	fanout.go       one exchange, more and more queues
//	calibrate.go    the yardsticks of a machine
//	yardstick.go    a run set against the bare relay; write amplification
//	relayprocess.go the bare relay; relay.go is its child process
//	rawdisk.go      write and fdatasync in a loop; memory copy
//	confirmscenario.go  windows and queues: options and outline
//	confirmrun.go   its queues and connections; confirmreport.go its result
//	backlog.go      fill and drain: options and outline
//	backlogphase.go one of the two; backlogreport.go the result
//	table.go        the tables of recorded results, made by package results;
//	                compare.go sets them against each other
//	resulttypes.go  short names of what package results defines
//	signing.go      sign, verify and keygen: package signed on the command line
//
// # Invariants
//
//  1. Figures cover the measured window only: warm-up is excluded from rates,
//     CPU figures and latency. Totals say which they cover.
//  2. A recorded figure carries its environment, and a yardstick is measured
//     in the same run, right before and after. The tables refuse others.
//  3. Ctrl-C ends a measurement, not its report: what was measured so far is
//     printed and marked as partial, and what was declared is deleted.
//
// # Threading
//
// Loops have their own threads (package client); everything else runs on the
// goroutine that called Main.
package perf
