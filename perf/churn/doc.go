// Package churn measures how often a second a broker makes and removes things:
// bindings, queues, connections, channels, consumers.
//
//	churn.go       options of all these scenarios, and their outline
//	run.go         one row: connect, warm up, measure, clean up
//	meter.go       its counters: progress line and measured window
//	report.go      the result: JSON and text
//	bind.go queue.go connection.go channel.go consumer.go
//	               what each of them does again and again
//
// A row of the result is one kind of thing (transient, durable) and one window:
// how many operations may be unanswered at a time on each connection. Window 1
// is what a client library does: call, wait, call. A larger one pipelines, and
// so shows what the broker can do when the round trip is not what it waits for.
//
// # Invariants
//
//  1. An operation counts when its last reply was read; its latency runs from
//     the write of its first call.
//  2. Rates, CPU and latency cover the measured window of a row only.
//  3. Whatever was declared is deleted at the end of a row, also after Ctrl-C.
//     Deleting is not measured, and is over before the next row begins.
//
// # Threading
//
// Callers belong to their loop's thread (package client), everything else to
// the goroutine that runs the scenario.
package churn
