package perf

import "github.com/basaltmq/basaltmq/perf/results"

// Short names of the parts that the results of several scenarios share.
type (
	versions      = results.Versions
	rssFigures    = results.RSS
	writeCosts    = results.Writes
	relayFraction = results.RelayFraction
	rawFigures    = results.RawDisk
	rawComparison = results.RawComparison
	confirmRow    = results.ConfirmRow
	fanoutRow     = results.FanoutRow
	latencyRow    = results.LatencyRow
	percentile    = results.Percentile
	brokerLook    = results.BrokerLook
)
