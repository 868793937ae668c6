// Package metrics makes what the broker counts visible: samples and rates for the
// management API (Stats), and the text that Prometheus collects (Exporter).
//
// Nothing here is on a hot path, and nothing here waits for a loop but for what
// only loops know (connections and channels), and then with a limit.
//
// Invariants:
//
//  1. Output is streamed through one buffer; what it holds of the broker at a
//     time is one object's figures, however many queues there are.
//  2. The names of aggregated metrics are those of RabbitMQ's Prometheus plugin
//     where it has the thing, with another prefix: see docs/metrics.md.
package metrics
