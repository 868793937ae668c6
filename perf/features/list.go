package features

import (
	"fmt"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/session"
)

// bodySize of all messages, in bytes.
const bodySize = 16

// feature is one thing to measure. In arguments {queue}, {exchange} and the
// like stand for names, see [Runner.arguments]; they are split at blanks.
type feature struct {
	name, load, base string
	unit             string
	// prepare declares what the load does not, and finds out whether the broker
	// has the feature; nil: nothing to do.
	prepare func(r *Runner, s *session.Session) error
	fill    string // arguments of a throughput run before the measured one
	run     string // arguments of the measured one, after the scenario's name
	limited bool   // as the limited user
	// look picks the figures of the JSON; nil: those of a throughput run.
	look func(r *Runner, raw []byte) ([]*results.FeatureRow, error)
	// own measures what no scenario does; run is empty then.
	own func(r *Runner) (*results.FeatureRow, error)
}

// pair is one publisher and one consumer on {queue}, auto-ack.
const pair = "throughput -u {queue} -x 1 -y 1 "

// keysVaried is how many different messages a load has where routing or
// deduplication looks at them: one message again and again would be answered
// by caches.
const keysVaried = 1000

func plain() feature {
	return feature{name: "plain", load: "1 publisher, 1 consumer, auto-ack", unit: "messages", run: pair}
}

func withArguments(name, base, arguments string) feature {
	return feature{name: name, base: base, load: arguments, unit: "messages", run: pair + "--queue-args " + arguments}
}

// list is all features in their order. The plain queue comes first and last:
// what is set against it is set against the mean of both.
func list() []feature {
	publishOnly := "throughput -u {queue} -x 1 -y 0 "
	header := `--vary 4096 --properties {"headers":{"x-deduplication-header":"%"}} `
	return []feature{
		plain(),
		withArguments("ttl", "plain", `{"x-message-ttl":600000}`),
		{name: "expiration", base: "plain", load: "property expiration of 600000", unit: "messages", run: pair + `--properties {"expiration":"600000"}`},
		withArguments("max-length", "plain", `{"x-max-length":100000000}`),
		withArguments("max-length-bytes", "plain", `{"x-max-length-bytes":10000000000}`),
		{name: "publish-only", load: "1 publisher, nobody consumes", unit: "messages published", run: publishOnly},
		{name: "max-length-drop", base: "publish-only", load: `{"x-max-length":1000}, nobody consumes`, unit: "messages published",
			run: publishOnly + `--queue-args {"x-max-length":1000}`},
		{name: "header", base: "plain", load: "a header of its own in each message", unit: "messages", run: pair + header},
		{name: "dedup-new", base: "header", load: "deduplication, every value new to a cache of 1000", unit: "messages", prepare: probeDeduplication,
			run: pair + header + `--queue-args ` + dedupArguments},
		{name: "dedup-dropped", base: "publish-only", load: "deduplication, all of one value", unit: "messages published", prepare: probeDeduplication,
			run: publishOnly + `--properties {"headers":{"x-deduplication-header":"same"}} --queue-args ` + dedupArguments},
		{name: "permissions", base: "plain", load: "a user whose permissions are patterns", unit: "messages", limited: true, run: pair},
		topic("topic-1", "plain", func(*Runner) int { return 1 }),
		topic("topic-10000", "topic-1", func(r *Runner) int { return r.Scale.Bindings }),
		headers("headers-1", "plain", func(*Runner) int { return 1 }),
		headers("headers-1000", "headers-1", func(r *Runner) int { return r.Scale.Headers }),
		{name: "fanout", load: "1 publisher, 1, 10, 50 queues", unit: "deliveries", run: "fanout -u {prefix}-fanout -k 1,10,50 -x 1", look: fanoutRows},
		{name: "priority-unused", base: "plain", load: "property priority, 0 to 9 in turn, on a plain queue", unit: "messages", run: pair + priorities},
		{name: "priority", base: "priority-unused", load: "10 priorities in turn", unit: "messages", prepare: probePriority,
			run: pair + priorities + `--queue-args ` + priorityArguments},
		chain("dlx-ttl", `{"x-message-ttl":0,`),
		chain("dlx-max-length", `{"x-max-length":0,`),
		{name: "delayed", load: "all by the same time, then consumed", unit: "messages accepted and passed on", prepare: prepareDelayed, own: measureDelayed},
		{name: "stream-1", load: "1 reader from the first message on, acks of 100", unit: "deliveries", prepare: probeStream,
			fill: streamFill, run: streamRead + "-y 1 -D {stream}"},
		{name: "stream-10", base: "stream-1", load: "10 readers from the first message on, acks of 100", unit: "deliveries", prepare: probeStream,
			fill: streamFill, run: streamRead + "-y 10 -D {stream10}"},
		{name: "bindings", load: "1000 unanswered", unit: "bindings", run: "bind-churn -u {prefix}-bind -w 1000", look: bindingRows},
		plain(),
	}
}

const (
	dedupArguments    = `{"x-message-deduplication":true,"x-cache-size":1000}`
	priorities        = `--vary 10 --properties {"priority":%} `
	priorityArguments = `{"x-max-priority":9}`
	streamArguments   = `{"x-queue-type":"stream"}`
	streamFill        = "-u {queue} -x 1 -y 0 -c 10000 -C {stream} --queue-args " + streamArguments
	streamRead        = `throughput -u {queue} -x 0 -a 100 -P 1000 --consumer-args {"x-stream-offset":"first"} --queue-args ` + streamArguments + " "
)

func topic(name, base string, bindings func(*Runner) int) feature {
	return feature{
		name: name, base: base, load: fmt.Sprintf("topic exchange, %d routing keys in turn", keysVaried), unit: "messages",
		prepare: func(r *Runner, s *session.Session) error { return r.declareTopic(s, bindings(r)) },
		run:     pair + fmt.Sprintf("-e {exchange} -k perf.%%.key --vary %d", keysVaried),
	}
}

func headers(name, base string, bindings func(*Runner) int) feature {
	return feature{
		name: name, base: base, load: fmt.Sprintf("headers exchange, two headers, %d values in turn", keysVaried), unit: "messages",
		prepare: func(r *Runner, s *session.Session) error { return r.declareHeaders(s, bindings(r)) },
		run:     pair + fmt.Sprintf(`-e {exchange} -k x --vary %d --properties {"headers":{"kind":"order","number":"%%"}}`, keysVaried),
	}
}

// chain sends each message through two queues to a third. arguments begin what
// makes them pass it on at once.
func chain(name, arguments string) feature {
	return feature{
		name: name, base: "plain", load: "3 queues in a chain, " + arguments + "…}", unit: "messages at the end",
		prepare: func(r *Runner, s *session.Session) error { return r.declareChain(s, arguments) },
		run:     pair + "-k {queue}-1",
	}
}

// Names lists the features.
func Names() (names []string) {
	for _, f := range list()[:len(list())-1] {
		names = append(names, f.name)
	}
	return names
}
