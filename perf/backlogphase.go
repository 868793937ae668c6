package perf

import (
	"context"
	"fmt"
	"time"

	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
)

// backlogPhase is the figures of filling or draining, while it runs.
type backlogPhase struct {
	results.BacklogPhase
	began               int64  // ns
	damaged, outOfOrder uint64 // draining: what the inspector found
}

// samplesMax bounds the list of memory samples: every second one is dropped
// when it is full.
const samplesMax = 120

// rssSeries keeps evenly spaced samples of a run of unknown length.
type rssSeries struct {
	values []uint64
	every  int // keep one of so many
	seen   int
}

func (s *rssSeries) add(value uint64) {
	s.every = max(s.every, 1)
	if s.seen%s.every == 0 {
		if len(s.values) == samplesMax {
			for i := range samplesMax / 2 {
				s.values[i] = s.values[2*i]
			}
			s.values = s.values[:samplesMax/2]
			s.every *= 2
		}
		s.values = append(s.values, value)
	}
	s.seen++
}

// endAt says when the phase ended.
func (p *backlogPhase) endAt(now int64) {
	p.Seconds = float64(max(now-p.began, 1)) / 1e9
	p.PerSecond = float64(p.Messages) / p.Seconds
}

// fill publishes all messages and waits until the broker counts them all: what
// only lies in a socket's buffer is not published.
func (o *backlogOptions) fill(ctx context.Context, out scenario.Console) (*results.BacklogPhase, error) {
	options := o.phaseOptions()
	run, err := newThroughputRun(options)
	if err != nil {
		return nil, err
	}
	defer run.close()
	if err := run.connect(); err != nil {
		return nil, err
	}
	progress := func(now snapshot) (count uint64, last int64, done bool) {
		select {
		case <-run.publishersDone:
			done = true
		default:
		}
		return now.published, now.lastPublish, done
	}
	phase, err := o.runPhase(ctx, run, out, client.Now(), progress)
	if err != nil || ctx.Err() != nil {
		return &phase.BacklogPhase, err
	}
	if phase.Messages < o.Messages {
		return &phase.BacklogPhase, fmt.Errorf("the broker took %d of %d messages and then none for %s", phase.Messages, o.Messages, o.Stall)
	}
	if err := o.awaitCount(ctx); err != nil {
		return &phase.BacklogPhase, err
	}
	phase.endAt(client.Now())
	return &phase.BacklogPhase, nil
}

// checkedDrain is what the consumer found.
type checkedDrain struct{ missing, surplus, damaged, outOfOrder uint64 }

// drain consumes everything. The phase is nil when it could not begin. A queue
// that gives no more messages ends the phase like one that gave them all:
// the count tells.
func (o *backlogOptions) drain(ctx context.Context, out scenario.Console) (*results.BacklogPhase, checkedDrain, error) {
	options := o.phaseOptions()
	options.Consumers = 1
	run, err := newThroughputRun(options)
	if err != nil {
		return nil, checkedDrain{}, err
	}
	defer run.close()
	began := client.Now() // the broker delivers into the socket before the loop runs
	if err := run.connectDrain(); err != nil {
		return nil, checkedDrain{}, err
	}
	progress := func(now snapshot) (count uint64, last int64, done bool) {
		acked := o.AckEvery == 0 || now.acked >= o.Messages
		return now.consumed, now.lastConsume, now.consumed >= o.Messages && acked
	}
	phase, err := o.runPhase(ctx, run, out, began, progress)
	checked := checkedDrain{damaged: phase.damaged, outOfOrder: phase.outOfOrder}
	if ctx.Err() == nil {
		checked.missing = o.Messages - min(o.Messages, phase.Messages)
		checked.surplus = phase.Messages - min(o.Messages, phase.Messages)
	}
	return &phase.BacklogPhase, checked, err
}

// connectDrain is connect for a run with a consumer and no publisher of its
// own, whose options name the publishers of an earlier one.
func (run *throughputRun) connectDrain() error {
	if err := run.connectConsumer(0); err != nil {
		return fmt.Errorf("consumer: %w", err)
	}
	run.start = client.Now()
	run.schedule()
	return nil
}

// phasePollSpan is how often a phase looks whether it is over.
const phasePollSpan = 5 * time.Millisecond

// runPhase runs a connected run until progress says that it is done, until
// nothing moves for the stall time, until it fails or ctx ends.
func (o *backlogOptions) runPhase(ctx context.Context, run *throughputRun, out scenario.Console, began int64, progress func(snapshot) (count uint64, last int64, done bool)) (*backlogPhase, error) {
	m := newMeter(run, out)
	m.begin()
	for _, l := range run.loops {
		go l.Serve()
	}
	var series rssSeries
	failure := o.awaitPhase(ctx, m, &series, progress)
	m.countEnded = true
	m.finish()
	run.stop()
	series.add(m.memory.Last.RSS)
	figures := m.result()
	end := m.windowEnd
	count, last, _ := progress(end)
	phase := &backlogPhase{began: began, damaged: end.failures, outOfOrder: end.outOfOrder, BacklogPhase: results.BacklogPhase{
		Messages:  count,
		BrokerCPU: figures.BrokerCPU, BrokerCores: figures.BrokerCores,
		ClientCPU: figures.ClientCPU, Bottleneck: figures.Bottleneck, RSS: figures.RSS,
		WriteCosts: newWriteCosts(m.windowBegin, end, count, o.Size),
	}}
	if m.memory.Known {
		phase.Samples = series.values
	}
	phase.endAt(last)
	return phase, failure
}

func (o *backlogOptions) awaitPhase(ctx context.Context, m *meter, series *rssSeries, progress func(snapshot) (count uint64, last int64, done bool)) error {
	second, poll := time.NewTicker(time.Second), time.NewTicker(phasePollSpan)
	defer second.Stop()
	defer poll.Stop()
	series.add(m.memory.Last.RSS)
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-m.run.failed:
			return err
		case <-second.C:
			m.tick()
			series.add(m.memory.Last.RSS)
		case <-poll.C:
			now := m.countersNow()
			_, last, done := progress(now)
			if done || now.at-max(last, m.windowBegin.at) > int64(o.Stall) {
				return nil
			}
		}
	}
}
