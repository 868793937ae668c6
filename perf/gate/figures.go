package gate

import (
	"context"
	"fmt"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/stats"
	"github.com/basaltmq/basaltmq/perf/suite"
)

// sections are what is run on a broker in one turn: about ten seconds. Each
// section has a broker of its own, so that memory is that of its load.
func sections() []suite.Section {
	figure := func(name, path string) suite.Extract {
		return suite.Extract{Name: name, Path: path, Better: results.Less}
	}
	return []suite.Section{
		{Name: "throughput", Steps: []suite.Step{
			{Rest: restSpan, Figures: []suite.Extract{figure("rss-idle", "vm_rss")}},
			{
				Scenario: "throughput", Arguments: "-u {queue} -x 1 -y 1 -s 16 -z {time} --warmup {warmup} --calibrate {calibrate}",
				Figures: []suite.Extract{
					figure("throughput-fraction", "relay.fraction"), figure("cpu-per-message", "broker_cpu_ns_per_message"),
					figure(relayBefore, "relay.before_messages_per_s"), figure(relayAfter, "relay.after_messages_per_s"),
				},
			},
		}},
		{Name: "backlog", Steps: []suite.Step{{
			Scenario: "backlog", Arguments: "-u {queue} -C {messages} -s 16 --settle {settle}",
			Figures: []suite.Extract{figure("rss-backlog", "filled.memory.vm_rss"), figure("written-bulk", "fill.broker_writes.write_call_bytes_per_record_byte")},
		}}},
		{Name: "queues", Steps: []suite.Step{{
			Scenario: "queue-count", Arguments: "-u {queue} -n 1000 --settle {settle}",
			Figures: []suite.Extract{figure("rss-1000-queues", "rows.0.broker.memory.vm_rss")},
		}}},
		{Name: "connections", Steps: []suite.Step{{
			Scenario: "connection-count", Arguments: "-n 1000 --settle {settle}",
			Figures: []suite.Extract{figure("rss-1000-connections", "rows.0.broker.memory.vm_rss")},
		}}},
		{Name: "confirm", Steps: []suite.Step{{
			Scenario: "confirm", Arguments: "-u {queue} -w 1x1000 -z 0.5 --warmup {warmup}",
			Figures: []suite.Extract{figure("written-confirmed", "rows.0.broker_writes.write_call_bytes_per_record_byte")},
		}}},
	}
}

// The relay's rates around a run are not figures of the gate, but one is made
// of them.
const (
	relayBefore = "relay-before"
	relayAfter  = "relay-after"
)

// sample runs all sections on brokers of one launcher and returns the figures.
func sample(ctx context.Context, tool suite.Tool, launcher *suite.Launcher, scale suite.Scale) (map[string]float64, *results.Suite, error) {
	runner := &suite.Runner{Tool: tool, Launcher: launcher, Sections: sections(), Scale: scale}
	result := runner.Measure(ctx)
	for _, section := range result.Sections {
		if section.Error != "" {
			return nil, nil, fmt.Errorf("%s: %s", section.Name, section.Error)
		}
	}
	for _, left := range result.LeftOut {
		return nil, nil, fmt.Errorf("%s was not measured: %s", left.Figure, left.Reason)
	}
	if ctx.Err() != nil {
		return nil, nil, ctx.Err()
	}
	values := make(map[string]float64)
	for _, figure := range result.Figures {
		values[figure.Name] = figure.Value
	}
	values["cpu-of-relay"] = values["cpu-per-message"] * stats.Mean(values[relayBefore], values[relayAfter]) / 1e9
	return values, result, nil
}
