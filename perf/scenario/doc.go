// Package scenario is what the subcommands of basaltmqperf have in common:
// what one consists of ([Scenario]), the broker it runs against and what every
// run begins with ([Target], [Target.Begin]), calls on a control connection
// ([Target.Control]), the progress line ([Progress]), and where results go
// ([Output]). The programs are named by digest in binaries.go.
//
// Everything here belongs to the goroutine that runs the scenario. The result
// of a run is written even when Ctrl-C or an error ended it early; it says so.
package scenario
