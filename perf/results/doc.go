// Package results is what is known about a measurement after it: its JSON, the
// machine it was taken on, and how it is read, compared and shown.
//
// It owns the schema of all recorded results and never measures anything, nor
// does it talk to a broker: it reads files and this machine's description.
//
// # Map
//
//	schema.go       what the results of several scenarios share
//	scenarios.go    the result of each scenario, as far as it is shown
//	rows.go         those of scenarios that measure row by row; features.go, gate.go
//	open.go         how long opening a data directory takes: result and table
//	environment.go  the machine a figure was measured on; mount.go its mounts,
//	                machine.go its processor, memory and hypervisor
//	json.go         writing results
//	read.go         reading recorded ones, and what is refused
//	section.go      which belong together in the tables
//	tablerender.go  the tables; tablefigures.go says which figures are in them,
//	                tablerows.go those of results of several rows
//	suite.go        the result of the suite; suitetext.go shows it
//	targets.go      what its figures are to reach (targets.json)
//	figures.go      the figures of any result, by the names of its JSON
//	compare.go      two sets of runs, figure by figure; comparetext.go shows it,
//	                pairs.go when they were made in pairs
//	verify.go       where the check of signatures is plugged in
//	units.go        figures for people
//
// # Invariants
//
//  1. A recorded figure carries its environment, and its yardstick was measured
//     in the same run. What does not, is partial, or failed its own check is
//     refused with the name of the file ([Read]).
//  2. Files come from anywhere: reading one never panics.
//
// # Threading
//
// Any goroutine; nothing here is shared.
package results
