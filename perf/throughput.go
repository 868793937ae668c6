package perf

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

func throughputScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "throughput",
		Summary: "publish and consume as fast as possible, or at a given rate",
		Details: "Publishers and consumers have a connection each and are spread over the queues.\n" +
			"Rates, latency and CPU figures cover the time after the warm-up. CPU per message\n" +
			"divides by whichever is more, messages published or consumed.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			options := new(throughputOptions)
			declareThroughput(flags, options)
			return func(ctx context.Context, out scenario.Console) error {
				if err := options.finish(flags); err != nil {
					return err
				}
				return runThroughput(ctx, options, out)
			}
		},
	}
}

// throughputRun is one run of the scenario.
type throughputRun struct {
	options         *throughputOptions
	properties      []byte
	queueArguments  amqp.Table
	consumeArgument amqp.Table

	broker     versions
	backlog    uint64 // messages in the named queues before the run
	start      int64  // of the schedule, ns
	loops      []*client.Loop
	publishers []*client.Publisher
	consumers  []*client.Consumer

	publishersLeft atomic.Int64
	consumedSoFar  atomic.Uint64 // kept only with a maximum
	publishersDone chan struct{}
	consumeReached chan struct{}
	failed         chan error // the first failure
	reachedOnce    sync.Once
}

// settleSpan is how long a run bounded by -C waits for a delivery before it
// takes its consumers to be done.
const settleSpan = time.Second

func runThroughput(ctx context.Context, options *throughputOptions, out scenario.Console) error {
	run, err := newThroughputRun(options)
	if err != nil {
		return err
	}
	defer run.close()
	release, err := options.Begin()
	if err != nil {
		return err
	}
	defer release()
	before, err := measureRelay(ctx, options.Calibrate, out.Stderr)
	if err != nil {
		return err
	}
	if err := run.connect(); err != nil {
		return err
	}
	meter, failure := run.execute(ctx, out)
	result := meter.result()
	if errors.Is(ctx.Err(), context.Canceled) {
		result.Interrupted = true
	}
	if failure != nil {
		result.Error = failure.Error()
	} else if err := result.addRelay(ctx, before, out.Stderr); err != nil {
		return err
	}
	if err := options.Output.Write(out, result, func() { result.writeText(out.Stdout) }); err != nil {
		return errors.Join(failure, err)
	}
	if failure != nil {
		return failure
	}
	if options.Verify && result.VerifyFailures+result.OutOfOrder > 0 {
		return fmt.Errorf("verification failed: %d bodies wrong, %d messages out of order",
			result.VerifyFailures, result.OutOfOrder)
	}
	return nil
}

func newThroughputRun(options *throughputOptions) (*throughputRun, error) {
	run := &throughputRun{
		options:        options,
		publishersDone: make(chan struct{}),
		consumeReached: make(chan struct{}),
		failed:         make(chan error, 1),
	}
	var err error
	if run.properties, err = cli.ParseProperties(options.numbered(options.Properties, 0), options.Persistent); err != nil {
		return nil, err
	}
	if run.queueArguments, err = cli.ParseTable("queue-args", options.QueueArgs); err != nil {
		return nil, err
	}
	if run.consumeArgument, err = cli.ParseTable("consumer-args", options.ConsumerArgs); err != nil {
		return nil, err
	}
	if run.loops, err = client.NewLoops(options.Loops, run); err != nil {
		return nil, err
	}
	if options.measureDelays {
		for _, l := range run.loops {
			l.Delays = client.NewLatencyRecorder(0)
		}
	}
	return run, nil
}

// execute runs the connected clients through warm-up and measurement. The meter
// has the figures also when the run failed.
func (run *throughputRun) execute(ctx context.Context, out scenario.Console) (*meter, error) {
	meter := newMeter(run, out)
	if run.options.Warmup == 0 {
		meter.begin() // before the first message, so that none is missed
	}
	for _, l := range run.loops {
		go l.Serve()
	}
	failure := run.measure(ctx, meter)
	meter.finish()
	run.stop()
	return meter, failure
}

// measure waits through warm-up and measurement. It returns the failure that
// ended the run early, if one did.
func (run *throughputRun) measure(ctx context.Context, meter *meter) error {
	var warm, end <-chan time.Time
	if run.options.Warmup > 0 {
		warm = time.After(run.options.Warmup)
	} else if run.options.Duration > 0 {
		end = time.After(run.options.Duration)
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	var poll <-chan time.Time // only while draining
	publishersDone := run.publishersDone
	drained := func() bool { return false }
	for {
		select {
		case <-warm:
			meter.begin()
			if run.options.Duration > 0 {
				end = time.After(run.options.Duration)
			}
		case <-end:
			return nil
		case <-ctx.Done():
			return nil
		case err := <-run.failed:
			return err
		case <-run.consumeReached:
			meter.countEnded = true
			return nil
		case <-publishersDone:
			meter.countEnded = true
			if len(run.consumers) == 0 {
				return nil
			}
			publishersDone = nil
			ticker := time.NewTicker(10 * time.Millisecond)
			defer ticker.Stop()
			poll = ticker.C
			drained = run.drainCheck(meter.countersNow)
		case <-poll:
			if drained() {
				return nil
			}
		case <-second.C:
			meter.tick()
		}
	}
}

// drainCheck returns a function that reports whether the consumers are done:
// they have as many messages as were published and waiting before, or got none
// for a while. How many copies an exchange makes is not known here, so then
// only the latter counts. With a maximum of their own (-D) they are not done
// before.
func (run *throughputRun) drainCheck(read func() snapshot) func() bool {
	began := client.Now()
	return func() bool {
		if run.options.ConsumeMax > 0 {
			return false
		}
		now := read()
		idleSince := max(began, now.lastConsume)
		all := run.options.Exchange == "" && now.consumed >= now.published+run.backlog
		return all || client.Now()-idleSince > int64(settleSpan)
	}
}

func (run *throughputRun) ClientFinished() {
	if run.publishersLeft.Add(-1) == 0 {
		close(run.publishersDone)
	}
}

// NoteConsumed ends the run when -D is reached.
func (run *throughputRun) NoteConsumed(messages uint64) {
	if most := run.options.ConsumeMax; most > 0 && run.consumedSoFar.Add(messages) >= most {
		run.reachedOnce.Do(func() { close(run.consumeReached) })
	}
}

// Fail ends the run with an error; only the first one counts.
func (run *throughputRun) Fail(err error) {
	select {
	case run.failed <- err:
	default:
	}
}

// stop says goodbye on all connections and waits for the loops.
func (run *throughputRun) stop() { client.StopLoops(run.loops) }

func (run *throughputRun) close() { client.CloseLoops(run.loops) }
