package perf

import (
	"context"
	"fmt"
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
)

// relayLatency is what the messages of one rate take through the bare relay:
// the part of a latency that the machine, its kernel and this tool make.
type relayLatency struct {
	options   *latencyOptions
	rate      uint64
	out       scenario.Console
	latencies *hdrhistogram.Histogram
}

// newRelayLatency measures for the first time, if that is asked for.
func newRelayLatency(ctx context.Context, o *latencyOptions, rate uint64, out scenario.Console) (*relayLatency, error) {
	r := &relayLatency{options: o, rate: rate, out: out, latencies: client.NewHistogram()}
	return r, r.measure(ctx)
}

// finish measures again and returns the figures of both; nil without any.
func (r *relayLatency) finish(ctx context.Context) (*results.Latency, error) {
	if err := r.measure(ctx); err != nil || r.latencies.TotalCount() == 0 {
		return nil, err
	}
	return client.NewLatencyFigures(r.latencies, 0), nil
}

func (r *relayLatency) measure(ctx context.Context) error {
	if r.options.Calibrate == 0 || ctx.Err() != nil {
		return nil
	}
	o := r.options.rateOptions(r.rate)
	o.Publishers, o.PublishRate, o.PublishMax, o.ConfirmWindow, o.BrokerPID = 1, r.rate, 0, 0, 0
	o.Duration, o.Warmup = r.options.Calibrate, min(calibrateWarmup, r.options.Calibrate)
	o.label = fmt.Sprintf("relay, %s", o.label)
	run, err := newThroughputRun(o)
	if err != nil {
		return err
	}
	defer run.close()
	relay, err := startRelay(r.out.Stderr)
	if err != nil {
		return err
	}
	defer relay.kill()
	if err := run.connectRelay(relay); err != nil {
		return err
	}
	meter, err := run.execute(ctx, r.out)
	if err != nil {
		return fmt.Errorf("the relay broke: %w", err)
	}
	r.latencies.Merge(meter.latency)
	return nil
}

// connectRelay hands the relay's two sockets to the loops, as connect does with
// a broker's. They are closed with the loops.
func (run *throughputRun) connectRelay(relay *relayProcess) error {
	o := run.options
	encoding := client.EncodePublish("", o.Queue, run.properties, o.Size, session.FrameMaxDefault)
	reading, writing := run.loops[0], run.loops[1%len(run.loops)]
	run.start = client.Now()
	reading.Latency = client.NewLatencyRecorder(run.start)
	reader := &client.StreamReader{Loop: reading, Encoding: encoding, Latency: reading.Latency}
	publisher := &client.Publisher{
		Loop: writing, Encoding: encoding, Layout: client.NewBodyLayout(o.body()),
		Buffer: encoding.Repeat(client.PublisherBufferBytes), Quota: math.MaxUint64,
	}
	run.publishers = append(run.publishers, publisher)
	if err := reader.AdoptStream(relay.reader); err != nil {
		return err
	}
	if err := reading.Add(reader); err != nil {
		return err
	}
	if err := publisher.AdoptStream(relay.writer); err != nil {
		return err
	}
	run.schedule()
	return writing.Add(publisher)
}
