package amqp

import (
	"time"

	"github.com/basaltmq/basaltmq/segstore/histogram"
)

// How long clients wait, on samples: a channel times one publish at a time, from
// when its bytes were received until its confirm is written into the output; a
// delivery is timed once for each run that a consumer takes, from when the message
// was appended. Each loop has histograms of its own.

// latencies are a loop's histograms, in microseconds.
type latencies struct {
	confirm  histogram.Histogram
	delivery histogram.Histogram

	told time.Duration // when the confirms now being written are, by the loop's Uptime; 0: not yet looked at
}

// Latencies returns how long publishers waited for confirms, and messages in
// their queues for their delivery. Any goroutine.
func (s *Server) Latencies() (confirm, delivery histogram.Snapshot) {
	for _, sh := range s.shards {
		confirm.Merge(&sh.latency.confirm)
		delivery.Merge(&sh.latency.delivery)
	}
	return confirm, delivery
}

// timedPublish is the publish whose confirm a channel waits for with a watch.
type timedPublish struct {
	seq   uint64        // 0: none
	since time.Duration // by the loop's Uptime
}

// timeConfirm begins to time the publish with number seq, unless another is being
// timed.
func (ch *channel) timeConfirm(seq uint64) {
	ch.counters()
	if t := &ch.counts.timed; t.seq == 0 {
		*t = timedPublish{seq, ch.conn.shard.loop.Uptime()}
	}
}

// confirmTimed is called when publishes up to ch.acked have been acknowledged.
func (ch *channel) confirmTimed() {
	if ch.counts == nil {
		return
	}
	if t := &ch.counts.timed; t.seq != 0 && t.seq <= ch.acked {
		t.seq = 0
		sh := ch.conn.shard
		l := &sh.latency
		if l.told == 0 { // once for all channels that are confirmed together
			l.told = sh.loop.Uptime() + time.Since(sh.loop.Now())
		}
		l.confirm.ObserveTime(l.told - t.since)
	}
}

// alreadyTimed marks a run whose time has been recorded.
const alreadyTimed = 1<<32 - 1

// timeDelivery records how long the messages of the run waited, once. If the
// queue's watch is not on one of them, the record's time is taken: that is in
// milliseconds, and what is less than one counts as half of one.
func (cs *consumer) timeDelivery() {
	run := &cs.run
	if run.Waited == alreadyTimed || run.Redelivered {
		return
	}
	waited := time.Duration(run.Waited) * time.Microsecond
	if waited == 0 {
		ms := cs.ch.conn.shard.loop.Now().UnixMilli() - cs.record.Timestamp
		waited = max(time.Duration(ms)*time.Millisecond, time.Millisecond/2)
	}
	cs.ch.conn.shard.latency.delivery.ObserveTime(waited)
	run.Waited = alreadyTimed
}
