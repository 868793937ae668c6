package perf

import (
	"context"
	"io"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/session"
)

// relayFigures is one measurement of the bare relay.
type relayFigures struct {
	bytes               float64
	span                time.Duration
	relayCPU, clientCPU time.Duration
}

func (f relayFigures) bytesPerSecond() float64 {
	if f.span <= 0 {
		return 0
	}
	return f.bytes / f.span.Seconds()
}

// measureRelay runs the bare relay for a while, after a warm-up, or until ctx
// ends. A span of 0 measures nothing.
func measureRelay(ctx context.Context, span time.Duration, stderr io.Writer) (relayFigures, error) {
	if span <= 0 {
		return relayFigures{}, nil
	}
	relay, err := startRelayFlow(stderr)
	if err != nil {
		return relayFigures{}, err
	}
	defer relay.stop()
	if err := relay.wait(ctx, min(calibrateWarmup, span)); err != nil {
		return relayFigures{}, err
	}
	began, bytesBefore := time.Now(), relay.transferred.Load()
	relayBefore, clientBefore := relay.cpu()
	if err := relay.wait(ctx, span); err != nil {
		return relayFigures{}, err
	}
	relayAfter, clientAfter := relay.cpu()
	return relayFigures{
		bytes: float64(relay.transferred.Load() - bytesBefore), span: time.Since(began),
		relayCPU: relayAfter - relayBefore, clientCPU: clientAfter - clientBefore,
	}, nil
}

// addRelay measures the relay again and sets the result against it. Nothing
// happens unless it was measured before.
func (r *throughputResult) addRelay(ctx context.Context, before relayFigures, stderr io.Writer) error {
	if before.bytes == 0 || ctx.Err() != nil {
		return nil
	}
	after, err := measureRelay(ctx, r.Options.Calibrate, stderr)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	size := float64(r.PublishWireBytes)
	if size == 0 {
		// No publisher: what its publishes would have been.
		properties, err := cli.ParseProperties("", false)
		if err != nil {
			return err
		}
		size = float64(client.EncodePublish("", defaultQueue, properties, r.Options.Size, session.FrameMaxDefault).Size)
	}
	rate := r.ConsumedPerSecond
	if r.Options.Consumers == 0 {
		rate = r.PublishedPerSecond
	}
	fraction := &relayFraction{Before: before.bytesPerSecond() / size, After: after.bytesPerSecond() / size}
	fraction.Fraction = rate / ((fraction.Before + fraction.After) / 2)
	r.Relay = fraction
	return nil
}

// recordBytes is what a message of that size takes in a broker's log at the
// least, counted as BasaltMQ's format does in a busy batch: one byte for its
// template, its length as a uvarint, and the body.
func recordBytes(size uint64) uint64 {
	total := 2 + size
	for rest := size >> 7; rest > 0; rest >>= 7 {
		total++
	}
	return total
}

// newWriteCosts relates what the broker wrote between two snapshots to
// messages of that size; nil when unknown or when there were none.
func newWriteCosts(begin, end snapshot, messages, size uint64) *writeCosts {
	if !begin.usage.WrittenKnown || !end.usage.WrittenKnown || messages == 0 || end.usage.BrokerWritten.Called < begin.usage.BrokerWritten.Called {
		return nil
	}
	costs := &writeCosts{
		Bytes:  end.usage.BrokerWritten.Dirtied - begin.usage.BrokerWritten.Dirtied,
		Called: end.usage.BrokerWritten.Called - begin.usage.BrokerWritten.Called,
	}
	costs.PerRecord = float64(costs.Bytes) / float64(messages*recordBytes(size))
	costs.CalledPerRecord = float64(costs.Called) / float64(messages*recordBytes(size))
	if size > 0 {
		costs.PerPayload = float64(costs.Bytes) / float64(messages*size)
		costs.CalledPerPayload = float64(costs.Called) / float64(messages*size)
	}
	return costs
}
