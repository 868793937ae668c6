// Package features measures what the features of a broker cost: exchanges with
// many bindings, queues with limits, priorities, dead letters, delays, streams,
// each beside the same load without it.
//
// It owns the topologies that the features need and the order of the runs. The
// load itself comes from other scenarios, run as child processes
// (suite.Tool): all that is known of them is their JSON.
//
//	scenario.go  the subcommand features
//	list.go      the features as data: topology, load, what is counted
//	topology.go  declarations, and probes of what a broker understands
//	run.go       runs them; delayed.go the one that is not a load alone
//
// # Invariants
//
//  1. A feature that the broker refuses, or does not show when it is tried, is
//     left out with the reason; the broker's version plays no part.
//  2. A feature is set against its base, measured in the same run; a load
//     against the relay, measured right before and after it.
//  3. Whatever was declared is deleted before and after each feature.
//
// # Threading
//
// A [Runner] belongs to one goroutine.
package features
