package suite

import (
	"fmt"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
)

// Section is a part of the suite that begins with an empty broker.
type Section struct {
	Name    string
	Summary string
	Steps   []Step
}

// Step is one run of a scenario, or with no scenario a look at the broker at
// rest. Arguments and paths may hold the names of [Scale]'s parts: {time},
// {warmup}, {calibrate}, {raw}, {settle}, {queue}, {messages}, {few}, {more},
// {most}; and {disk} is the option that names the data directory.
type Step struct {
	Scenario  string
	Arguments string
	Fresh     bool          // a broker of its own within the section
	Flags     string        // more flags for it, separated by blanks; a broker that runs anyway can't have any
	Rest      time.Duration // without a scenario: how long the broker rests at least
	Figures   []Extract
}

// needs says without what a figure can't be had.
type needs int

const (
	nothing       needs = iota
	brokerProcess       // the broker's process
	brokerDisk          // its data directory
)

// Extract says where a figure is in the JSON of a scenario.
type Extract struct {
	Name, Path   string
	Unit, Better string
	// The yardstick: a path to the fraction that the scenario made of it, or
	// only the name of one of the suite's own.
	Yardstick, FractionPath string
	Needs                   needs
}

// Names of the yardsticks.
const (
	relay     = "relay"  // messages of 16 bytes a second through the bare relay
	rawAppend = "append" // writes of one record and fdatasync a second
)

// rate is a figure that a throughput run sets against the relay.
func rate(name, path string) Extract {
	return Extract{Name: name, Path: path, Unit: "messages/s", Better: results.More, Yardstick: relay, FractionPath: "relay.fraction"}
}

// cost is a figure of the broker's process.
func cost(name, path, unit string) Extract {
	return Extract{Name: name, Path: path, Unit: unit, Better: results.Less, Needs: brokerProcess}
}

// churn is a rate that a yardstick of the suite is set against.
func churn(name, path, unit, yardstick string) Extract {
	return Extract{Name: name, Path: path, Unit: unit, Better: results.More, Yardstick: yardstick}
}

func latency(name, path string) Extract {
	return Extract{Name: name, Path: path, Unit: "µs", Better: results.Less}
}

func churnPath(kind string, window int) string {
	return fmt.Sprintf("rows[kind=%s,window=%d].operations_per_s", kind, window)
}

const pathWritten = "broker_writes.write_call_bytes_per_record_byte"

func throughputStep(arguments string, figures ...Extract) Step {
	return Step{Scenario: "throughput", Arguments: "-u {queue} --purge --calibrate {calibrate} " + arguments, Fresh: true, Figures: figures}
}

const manyArguments = "--queue-pattern {queue}-% --queue-pattern-to 64 --purge -x 64 -y 64 -s 16 -z {time} --warmup {warmup} --calibrate {calibrate}"

// loopsStep has many clients served by so many event loops.
func loopsStep(loops int) Step {
	name := fmt.Sprintf("loops-%d-many-64", loops)
	return Step{
		Scenario: "throughput", Arguments: manyArguments, Fresh: true, Flags: fmt.Sprintf("--loops %d", loops),
		Figures: []Extract{rate(name, "consumed_per_s"), cost(name+"-cpu", "broker_cpu_ns_per_message", "ns/message")},
	}
}

// Sections returns the whole suite, in its order.
func Sections() []Section {
	return []Section{
		{
			Name: "throughput", Summary: "16 B to 128 KiB end to end, publish only, acks",
			Steps: []Step{
				throughputStep("-x 1 -y 1 -s 16 -z {time} --warmup {warmup}", rate("end-to-end-16B", "consumed_per_s"),
					cost("end-to-end-16B-cpu", "broker_cpu_ns_per_message", "ns/message"), cost("end-to-end-16B-rss", "rss.max.vm_rss", "bytes")),
				throughputStep("-x 1 -y 1 -s 16 -a 100 -P 1000 -z {time} --warmup {warmup}", rate("acks-100-16B", "consumed_per_s"),
					cost("acks-100-16B-cpu", "broker_cpu_ns_per_message", "ns/message")),
				throughputStep("-x 1 -y 0 -s 16 -z {time} --warmup {warmup}", rate("publish-only-16B", "published_per_s"),
					cost("publish-only-16B-cpu", "broker_cpu_ns_per_message", "ns/message"), cost("written-bulk", pathWritten, "")),
				throughputStep("-x 1 -y 1 -s 1KiB -z {time} --warmup {warmup}", rate("end-to-end-1KiB", "consumed_per_s")),
				throughputStep("-x 1 -y 1 -s 16KiB -z {time} --warmup {warmup}", rate("end-to-end-16KiB", "consumed_per_s")),
				throughputStep("-x 1 -y 1 -s 128KiB -z {time} --warmup {warmup}", rate("end-to-end-128KiB", "consumed_per_s")),
			},
		},
		{
			Name: "drain", Summary: "consume a backlog, auto-ack and acks of 100",
			Steps: []Step{
				{Scenario: "throughput", Arguments: "-u {queue} --purge -x 1 -y 0 -s 16 -C {messages}"},
				{Scenario: "throughput", Arguments: "-u {queue} -x 0 -y 1 -s 16 -D {messages} --calibrate {calibrate}",
					Figures: []Extract{rate("drain-16B", "consumed_per_s"), cost("drain-16B-cpu", "broker_cpu_ns_per_message", "ns/message")}},
				{Scenario: "throughput", Arguments: "-u {queue} --purge -x 1 -y 0 -s 16 -C {messages}"},
				{Scenario: "throughput", Arguments: "-u {queue} -x 0 -y 1 -s 16 -a 100 -D {messages} --calibrate {calibrate}",
					Figures: []Extract{rate("drain-acks-100-16B", "consumed_per_s")}},
			},
		},
		{
			Name: "confirm", Summary: "confirms: windows of one queue, many queues",
			Steps: []Step{{
				Scenario:  "confirm",
				Arguments: "-u {queue} -w " + confirmCombinations + " -z {time} --warmup {warmup} --raw-time {raw} {disk}",
				Figures:   confirmFigures(),
			}, {
				// The same total window by a thousand connections. Warmed up until each
				// queue has its files, which some file systems take a millisecond to make.
				Scenario:  "confirm",
				Arguments: "-u {queue} -x 1000 -w " + connectionCombinations + " -z {time} --warmup 4",
				Figures:   connectionFigures(),
			}, {
				// Warmed up until both files of a journal like BasaltMQ's have been
				// filled once: what is steady, not what the first use of a file costs.
				Scenario:  "confirm",
				Arguments: "-u {queue} -w 1x1000 -z {time} --warmup 12",
				Figures:   []Extract{cost("written-confirmed", "rows.0."+pathWritten, "")},
			}},
		},
		{
			Name: "latency", Summary: "latency at 250,000 messages a second, open loop",
			Steps: []Step{{
				Scenario: "latency", Arguments: "-u {queue} -r 250k -x 1 -y 1 -s 16 -z {time} --warmup {warmup} --calibrate {calibrate}",
				Figures: []Extract{
					latency("latency-250k-p50", "rows.0.latency.p50_us"), latency("latency-250k-p99", "rows.0.latency.p99_us"),
					latency("latency-250k-p99.9", "rows.0.latency.p99_9_us"),
					latency("relay-250k-p50", "rows.0.relay.p50_us"), latency("relay-250k-p99", "rows.0.relay.p99_us"),
					latency("relay-250k-p99.9", "rows.0.relay.p99_9_us"),
					cost("latency-250k-cpu", "rows.0.broker_cpu_ns_per_message", "ns/message"),
				},
			}},
		},
		{
			Name: "fanout", Summary: "one publisher, ten queues",
			Steps: []Step{{
				Scenario: "fanout", Arguments: "-u {queue} -k 10 -s 16 -z {time} --warmup {warmup}",
				Figures: []Extract{
					churn("fanout-10", "rows.0.delivered_per_s", "messages/s", relay),
					cost("fanout-10-cpu", "rows.0.broker_cpu_ns_per_delivery", "ns/message"),
				},
			}},
		},
		{
			Name: "many", Summary: "64 producers, 64 consumers, 64 queues",
			Steps: []Step{{
				Scenario: "throughput", Arguments: manyArguments,
				Figures: []Extract{rate("many-64", "consumed_per_s"), cost("many-64-cpu", "broker_cpu_ns_per_message", "ns/message")},
			}},
		},
		{
			Name: "loops", Summary: "the same with one and with two event loops",
			Steps: []Step{loopsStep(1), loopsStep(2)},
		},
		{
			Name: "churn", Summary: "bindings, queues, connections made and removed",
			Steps: []Step{
				{Scenario: "bind-churn", Arguments: "-u {queue} -w 1000 -z {time} --warmup {warmup}", Figures: []Extract{
					churn("bindings-transient", churnPath("transient", 1000), "bindings/s", relay),
					churn("bindings-durable", churnPath("durable", 1000), "bindings/s", rawAppend)}},
				{Scenario: "queue-churn", Arguments: "-u {queue} --kinds durable -w 100 -z {time} --warmup {warmup}", Figures: []Extract{
					churn("queue-churn", churnPath("durable", 100), "queues/s", rawAppend)}},
				{Scenario: "connection-churn", Arguments: "-w 64 -z {time} --warmup {warmup}", Figures: []Extract{
					churn("connection-churn", "rows[window=64].operations_per_s", "connections/s", relay)}},
			},
		},
		{
			Name: "backlog", Summary: "memory with many messages queued",
			Steps: []Step{
				{Figures: []Extract{cost("rss-idle", "vm_rss", "bytes")}},
				{Scenario: "backlog", Arguments: "-u {queue} --purge -C {messages} -s 16 --settle {settle} {disk}", Figures: []Extract{
					cost("rss-backlog", "filled.memory.vm_rss", "bytes"), cost("rss-backlog-peak", "drained.memory.vm_hwm", "bytes"),
					{Name: "backlog-on-disk", Path: "filled.disk.allocated_bytes", Unit: "bytes", Better: results.Less, Needs: brokerDisk},
				}},
			},
		},
		{
			Name: "queues", Summary: "memory with 1,000 and 10,000 idle queues",
			Steps: []Step{{
				Scenario: "queue-count", Arguments: "-u {queue} -n {few},{more} --settle {settle}",
				Figures: append(count("queues", "queue", "few", "1000"), count("queues", "queue", "more", "10000")...),
			}},
		},
		{
			Name: "connections", Summary: "memory with 1,000 and 10,000 idle connections",
			Steps: []Step{{
				Scenario: "connection-count", Arguments: "-n {few},{more} --settle {settle}",
				Figures: append(count("connections", "connection", "few", "1000"), count("connections", "connection", "more", "10000")...),
			}},
		},
		{
			Name: "growth", Summary: "memory with 50,000 idle queues and connections; open files must be allowed",
			Steps: []Step{
				{Scenario: "queue-count", Arguments: "-u {queue} -n {most} --settle {settle}", Figures: count("queues", "queue", "most", "50000")},
				{Scenario: "connection-count", Arguments: "-n {most} --settle {settle}", Fresh: true, Figures: count("connections", "connection", "most", "50000")},
			},
		},
	}
}

// count are the figures of many idle things: memory, and what each costs.
func count(things, thing, placeholder, name string) []Extract {
	row := "rows[count={" + placeholder + "}]."
	return []Extract{
		cost("rss-"+name+"-"+things, row+"broker.memory.vm_rss", "bytes"),
		cost("bytes-per-"+thing+"-"+name, row+"vm_rss_bytes_each", "bytes"),
	}
}

// confirmCombinations has one queue before and after the many, as machines
// drift, with one channel and with as many as the many have: the one tells what
// queues and channels cost together, the other what queues do.
const confirmCombinations = "1x1,1x100,1x1000,1x10000,1x100x100,100x100,1x10x1000,1000x10,1x10x1000,1x10000"

func confirmFigures() (figures []Extract) {
	for _, c := range []struct{ queues, window, channels int }{
		{1, 1, 1}, {1, 100, 1}, {1, 1000, 1}, {1, 10000, 1}, {1, 100, 100}, {100, 100, 100}, {1, 10, 1000}, {1000, 10, 1000},
	} {
		name := fmt.Sprintf("confirm-%dx%d", c.queues, c.window)
		if c.channels > c.queues {
			name += fmt.Sprintf("x%d", c.channels)
		}
		row := fmt.Sprintf("rows[queues=%d,window=%d,channels=%d]", c.queues, c.window, c.channels)
		figures = append(figures,
			Extract{Name: name, Path: row + ".confirmed_per_s", Unit: "messages/s", Better: results.More,
				Yardstick: "append of the same batches", FractionPath: row + ".raw_append.rate_ratio"},
			latency(name+"-p50", row+".latency.p50_us"), latency(name+"-p99", row+".latency.p99_us"))
		if c.queues > 1 {
			figures = append(figures, Extract{Name: name + "-of-one-queue", Path: row + ".of_one_queue", Better: results.More},
				Extract{Name: name + "-of-one-queue-same-channels", Path: row + ".of_one_queue_same_channels", Better: results.More})
		}
	}
	return figures
}

// connectionCombinations are a thousand confirming connections: on one queue,
// before and after, and on a queue each.
const connectionCombinations = "1x10,1000x10,1x10"

func connectionFigures() []Extract {
	one, each := "rows[queues=1,window=10,channels=1000].", "rows[queues=1000,window=10,channels=1000]."
	return []Extract{
		{Name: "confirm-1000-connections-1-queue", Path: one + "confirmed_per_s", Unit: "messages/s", Better: results.More},
		{Name: "confirm-1000-connections-1000-queues", Path: each + "confirmed_per_s", Unit: "messages/s", Better: results.More},
		latency("confirm-1000-connections-1000-queues-p50", each+"latency.p50_us"),
		latency("confirm-1000-connections-1000-queues-p99", each+"latency.p99_us"),
		cost("confirm-1000-connections-1000-queues-rss", each+"rss.max.vm_rss", "bytes"),
		{Name: "confirm-1000-connections-1000-queues-of-one-queue", Path: each + "of_one_queue_same_channels", Better: results.More},
	}
}

// derived are figures that are the ratio of two others.
var derived = []struct{ name, first, second, better string }{
	{"many-64-of-one-queue", "many-64", "end-to-end-16B", results.More},
}

// SelectSections returns those of the suite that are named in a list separated
// by commas; all for "".
func SelectSections(list string) ([]Section, error) {
	all := Sections()
	if list == "" {
		return all, nil
	}
	var chosen []Section
	for name := range strings.SplitSeq(list, ",") {
		found := false
		for _, section := range all {
			if section.Name == strings.TrimSpace(name) {
				chosen, found = append(chosen, section), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no section %q; there are %s", name, SectionNames())
		}
	}
	return chosen, nil
}

// SectionNames lists the sections.
func SectionNames() string {
	var names []string
	for _, section := range Sections() {
		names = append(names, section.Name)
	}
	return strings.Join(names, ",")
}
