package features

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/session"
)

// Spans of the delayed messages: how long each is delayed, how often their
// queue is looked at, and how late they may be before that counts as lost.
const (
	delay         = 3 * time.Second
	delayedPoll   = 2 * time.Millisecond
	delayedGiveUp = 60 * time.Second
)

// measureDelayed publishes the messages, all with the same delay, and waits
// until the queue has them. The rate is that of the broker accepting and
// passing them on: of the time until the last one is there, less the delay.
func measureDelayed(r *Runner) (*results.FeatureRow, error) {
	began := time.Now()
	raw, err := r.child(fmt.Sprintf(`throughput -u %s -x 1 -y 0 -c 10000 -C {delayed} -e {exchange} -k delayed --properties {"headers":{"x-delay":%d}}`,
		"{queue}", delay.Milliseconds()), false)
	if err != nil {
		return nil, err
	}
	var published results.Throughput
	if err := json.Unmarshal(raw, &published); err != nil {
		return nil, err
	}
	row := &results.FeatureRow{PublishedPerSecond: published.ConfirmedPerSecond, BrokerCPU: published.BrokerCPU}
	if r.Target.BrokerPID > 0 {
		memory, err := process.Memory(r.Target.BrokerPID)
		if err != nil {
			return nil, err
		}
		row.RSS = &results.RSS{Last: memory, Max: memory}
	}
	// Publishing began when the child was ready, not when it was started.
	start := time.Now().Add(-time.Duration(published.Seconds * float64(time.Second)))
	if start.Before(began) {
		start = began
	}
	if err := r.Target.Control(nil, r.awaitDelayed); err != nil {
		return nil, err
	}
	span := time.Since(start) - delay
	if span <= 0 {
		return nil, fmt.Errorf("the messages came %v before their time", -span)
	}
	row.Seconds, row.PerSecond = span.Seconds(), float64(r.Scale.Delayed)/span.Seconds()
	return row, nil
}

func (r *Runner) awaitDelayed(s *session.Session) error {
	deadline := time.Now().Add(delay + delayedGiveUp)
	for {
		count, err := r.count(s)
		switch {
		case err != nil:
			return err
		case count >= uint32(r.Scale.Delayed):
			return nil
		case r.ctx.Err() != nil:
			return r.ctx.Err()
		case time.Now().After(deadline):
			return fmt.Errorf("only %d of %d delayed messages arrived", count, r.Scale.Delayed)
		}
		select {
		case <-r.ctx.Done():
		case <-time.After(delayedPoll):
		}
	}
}
