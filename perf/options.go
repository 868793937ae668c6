package perf

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// Limits of the throughput options.
const (
	bodyBytesMax   = 512 << 20 // RabbitMQ's own upper limit of max_message_size
	connectionsMax = 1 << 16   // publisher number is 16 bit in a verified body
	prefetchMax    = 1<<16 - 1 // a short in basic.qos
	shortStringMax = 255
	defaultQueue   = "perf-test"
	varyMax        = 1 << 16
	varyOverhead   = 64 // bytes of a publish around its body, at the least
)

// throughputOptions are the options of the throughput scenario as they appear
// in the JSON result. Zero means "off" or "unlimited" where not said otherwise.
type throughputOptions struct {
	scenario.Target
	Publishers     int           `json:"publishers"`
	Consumers      int           `json:"consumers"`
	Size           uint64        `json:"size"`
	Verify         bool          `json:"verify"`
	AckEvery       int           `json:"ack_every"` // 0: no_ack
	ConfirmWindow  int           `json:"confirm_window"`
	TxPublishes    int           `json:"tx_publishes"`
	TxAcks         int           `json:"tx_acks"`
	Queue          string        `json:"queue"`
	QueuePattern   string        `json:"queue_pattern,omitempty"`
	PatternFrom    int           `json:"queue_pattern_from,omitempty"`
	PatternTo      int           `json:"queue_pattern_to,omitempty"`
	Purge          bool          `json:"purge"`
	RoutingKey     string        `json:"routing_key"`
	Exchange       string        `json:"exchange"`
	PublishRate    uint64        `json:"rate"`          // per publisher and second
	ConsumeRate    uint64        `json:"consumer_rate"` // per consumer and second
	Persistent     bool          `json:"persistent"`
	Prefetch       int           `json:"prefetch"`
	Poll           bool          `json:"poll"`
	Duration       time.Duration `json:"duration_ns"`
	Warmup         time.Duration `json:"warmup_ns"`
	PublishMax     uint64        `json:"pmessages"` // all publishers together
	ConsumeMax     uint64        `json:"cmessages"` // all consumers together
	QueueArgs      string        `json:"queue_args,omitempty"`
	ConsumerArgs   string        `json:"consumer_args,omitempty"`
	Properties     string        `json:"properties,omitempty"`
	Vary           int           `json:"vary,omitempty"` // how many different messages; 0: all the same
	RandomBodies   bool          `json:"random_bodies"`
	MeasureLatency bool          `json:"measure_latency"`
	Calibrate      time.Duration `json:"calibrate_ns,omitempty"` // of each of two

	routingSet    bool
	measureDelays bool   // of the publishers' own schedule
	label         string // in front of the progress line
}

// declareThroughput declares all options of the scenario on flags.
func declareThroughput(flags *cli.FlagSet, o *throughputOptions) {
	*o = throughputOptions{
		Publishers: 1, Consumers: 1, Size: 16, Queue: defaultQueue,
		Warmup: time.Second, PatternFrom: 1, PatternTo: 1,
	}
	flags.Count(&o.Publishers, "x", "publishers", "N", "number of publishers")
	flags.Count(&o.Consumers, "y", "consumers", "N", "number of consumers")
	flags.Quantity(&o.Size, "s", "size", "BYTES", "size of each body")
	flags.Toggle(&o.Verify, "V", "verify", "check every body's content and sequence")
	flags.Count(&o.AckEvery, "a", "ack", "N", "acknowledge every N messages; 0: no_ack")
	flags.Count(&o.ConfirmWindow, "c", "confirm", "N", "publish with confirms, at most N unconfirmed per publisher")
	flags.Count(&o.TxPublishes, "t", "transactions-publish", "N", "commit after every N publishes")
	flags.Count(&o.TxAcks, "T", "transactions-ack", "N", "commit after every N acknowledged messages")
	flags.Text(&o.Queue, "u", "queue", "NAME", "queue, declared durable; empty: a temporary queue per consumer")
	flags.Text(&o.RoutingKey, "k", "routing-key", "KEY", "routing key; the queue's name when not given")
	flags.Text(&o.Exchange, "e", "exchange", "NAME", "exchange to publish to; queues are bound to it")
	flags.Quantity(&o.PublishRate, "r", "rate", "N", "publishes per second of each publisher; 0: unlimited")
	flags.Quantity(&o.ConsumeRate, "R", "consumer-rate", "N", "messages per second of each consumer; 0: unlimited")
	flags.Toggle(&o.Persistent, "p", "persistent", "publish persistent messages")
	flags.Count(&o.Prefetch, "P", "prefetch", "N", "prefetch count of each consumer; 0: unlimited")
	flags.Toggle(&o.Poll, "g", "poll", "use basic.get instead of basic.consume")
	flags.Duration(&o.Duration, "z", "time", "SECONDS", "measure for this long; 0: until interrupted or all is published")
	flags.Duration(&o.Warmup, "", "warmup", "SECONDS", "run this long before measuring; 0 by default with -C or -D")
	flags.Quantity(&o.PublishMax, "C", "pmessages", "N", "stop after N publishes")
	flags.Quantity(&o.ConsumeMax, "D", "cmessages", "N", "stop after N consumed messages")
	flags.Text(&o.QueueArgs, "", "queue-args", "JSON", "arguments of the queue declaration")
	flags.Text(&o.ConsumerArgs, "", "consumer-args", "JSON", "arguments of basic.consume")
	flags.Text(&o.Properties, "", "properties", "JSON", "message properties, as {\"priority\": 1, \"headers\": {…}}")
	flags.Count(&o.Vary, "", "vary", "N", "publish N different messages in turn: % in routing key and properties stands for the number")
	flags.Toggle(&o.RandomBodies, "", "random-bodies", "give every message a different, incompressible body")
	flags.Text(&o.QueuePattern, "", "queue-pattern", "PATTERN", "spread clients over queues; % stands for the number")
	flags.Count(&o.PatternFrom, "", "queue-pattern-from", "N", "first queue number")
	flags.Count(&o.PatternTo, "", "queue-pattern-to", "N", "last queue number")
	flags.Toggle(&o.Purge, "", "purge", "empty the queues before starting")
	flags.Toggle(&o.MeasureLatency, "l", "measure-latency", "measure latency from the intended send time")
	flags.Duration(&o.Calibrate, "", "calibrate", "SECONDS", "measure the bare relay for so long before and after, and report the fraction reached")
	o.Target.Declare(flags, "report the filesystem of the broker's data directory")
}

// finish checks the options against each other and fills in what follows from
// them.
func (o *throughputOptions) finish(flags *cli.FlagSet) error {
	if err := o.Target.Finish(); err != nil {
		return err
	}
	if err := checkAcks(o.Prefetch, o.AckEvery); err != nil {
		return err
	}
	o.routingSet = flags.Given("routing-key")
	if (flags.Given("pmessages") || flags.Given("cmessages")) && !flags.Given("warmup") {
		o.Warmup = 0
	}
	switch {
	case o.Publishers+o.Consumers == 0:
		return cli.Usagef("nothing to do: no publishers and no consumers")
	case o.Publishers > connectionsMax || o.Consumers > connectionsMax:
		return cli.Usagef("at most %d publishers and consumers", connectionsMax)
	case o.Size > bodyBytesMax:
		return cli.Usagef("--size is at most %d", bodyBytesMax)
	case o.MeasureLatency && o.Size < client.StampBytes:
		return cli.Usagef("-l stores a timestamp in the body: --size must be at least %d", client.StampBytes)
	case o.Verify && o.RandomBodies && !client.NewBodyLayout(o.body()).Identity:
		return cli.Usagef("-V with --random-bodies stores a number in the body: --size must be at least %d", client.NewBodyLayout(o.body()).HeadBytes()+client.StampBytes)
	case o.Vary > varyMax:
		return cli.Usagef("--vary is at most %d", varyMax)
	case o.Vary > 0 && (o.Verify || o.MeasureLatency || o.RandomBodies || o.QueuePattern != ""):
		return cli.Usagef("--vary excludes -V, -l, --random-bodies and --queue-pattern")
	case o.Vary > 0 && uint64(o.Vary)*(o.Size+varyOverhead) > client.StampedBytesTotal:
		return cli.Usagef("--vary: %d messages of %d bytes are too much to keep", o.Vary, o.Size)
	case o.TxAcks > 0 && o.AckEvery == 0:
		return cli.Usagef("-T commits acknowledgements: give --ack as well")
	case o.TxPublishes > 0 && o.ConfirmWindow > 0:
		return cli.Usagef("-t and -c exclude each other: a channel is transactional or confirming")
	case len(o.Exchange) > shortStringMax || len(o.RoutingKey) > shortStringMax || len(o.Queue) > shortStringMax:
		return cli.Usagef("names are at most %d bytes", shortStringMax)
	case o.QueuePattern != "" && !strings.Contains(o.QueuePattern, "%"):
		return cli.Usagef("--queue-pattern needs a %% where the number goes")
	case o.QueuePattern != "" && (o.PatternTo < o.PatternFrom || o.PatternTo-o.PatternFrom >= connectionsMax):
		return cli.Usagef("--queue-pattern-from %d to %d is not a range of at most %d queues", o.PatternFrom, o.PatternTo, connectionsMax)
	case o.QueuePattern == "" && o.Queue == "" && o.Exchange == "" && !o.routingSet && o.Publishers > 0:
		return cli.Usagef("publishers need a queue, an exchange or a routing key")
	case o.QueuePattern == "" && o.Queue == "" && o.Poll:
		return cli.Usagef("--poll needs a named queue")
	}
	return nil
}

// checkAcks judges --prefetch and --ack, which depend on each other.
func checkAcks(prefetch, ackEvery int) error {
	switch {
	case prefetch > prefetchMax:
		return cli.Usagef("--prefetch is at most %d", prefetchMax)
	case prefetch > 0 && ackEvery > prefetch:
		return cli.Usagef("--ack %d would never happen with --prefetch %d", ackEvery, prefetch)
	}
	return nil
}

// body is what the messages' bodies have to hold.
func (o *throughputOptions) body() client.BodyOptions {
	return client.BodyOptions{Size: o.Size, Publishers: o.Publishers, Timestamp: o.MeasureLatency, Verify: o.Verify, Random: o.RandomBodies}
}

// numbered puts the number of a message in place of each %, with as many digits
// as the highest has: all messages are of one size.
func (o *throughputOptions) numbered(text string, number int) string {
	if o.Vary == 0 {
		return text
	}
	return strings.ReplaceAll(text, "%", fmt.Sprintf("%0*d", len(strconv.Itoa(o.Vary-1)), number))
}

// queues lists the named queues; empty when every consumer has its own.
func (o *throughputOptions) queues() []string {
	if o.QueuePattern == "" {
		if o.Queue == "" {
			return nil
		}
		return []string{o.Queue}
	}
	pattern := strings.ReplaceAll(o.QueuePattern, "%d", "%")
	names := make([]string, 0, o.PatternTo-o.PatternFrom+1)
	for number := o.PatternFrom; number <= o.PatternTo; number++ {
		names = append(names, strings.ReplaceAll(pattern, "%", strconv.Itoa(number)))
	}
	return names
}

// routingKeyFor returns the key of a publisher to (or a binding of) queue.
func (o *throughputOptions) routingKeyFor(queue string) string {
	if o.routingSet {
		return o.RoutingKey
	}
	return queue
}
