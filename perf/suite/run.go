package suite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/stats"
)

// Scale says how long and how much.
type Scale struct {
	Time      time.Duration // of each figure
	Warmup    time.Duration // before each figure
	Calibrate time.Duration // of the relay, before and after a figure
	Raw       time.Duration // of each raw disk figure
	Messages  uint64        // of a backlog; a multiple of 100
	Queue     string        // what queues are called
	Settle    time.Duration // before looking at a broker at rest: it gives memory back within two seconds
	Few       int           // of what is counted, and more, and most
	More      int
	Most      int
}

// DefaultScale takes about five minutes for everything.
func DefaultScale() Scale {
	return Scale{
		Time: 3 * time.Second, Warmup: time.Second, Calibrate: time.Second, Raw: 400 * time.Millisecond, Messages: 5000000,
		Queue: "perf-suite", Settle: 3 * time.Second, Few: 1000, More: 10000, Most: 50000,
	}
}

// queuesMax is how many queues a step may spread over.
const queuesMax = 64

// Runner runs the suite.
type Runner struct {
	Tool     Tool
	Launcher *Launcher // starts the broker of each section
	Running  *Broker   // or the one that runs anyway
	Sections []Section
	Scale    Scale
	Progress io.Writer // a line for each step; nil: none

	result *results.Suite
	broker *Broker // of the section that runs
	record results.Record
	began  time.Time
}

// Run runs yardsticks, sections, yardsticks. An error is one that left nothing
// to report; what failed in a section is in the result.
func (r *Runner) Run(ctx context.Context) (*results.Suite, error) {
	r.begin()
	before, err := r.calibrate(ctx, "before")
	if err != nil {
		return nil, err
	}
	r.runSections(ctx)
	if ctx.Err() == nil {
		after, err := r.calibrate(ctx, "after")
		if err != nil {
			return nil, err
		}
		r.addYardsticks(before, after)
	}
	return r.end(ctx), nil
}

// Measure runs the sections without the suite's own yardsticks.
func (r *Runner) Measure(ctx context.Context) *results.Suite {
	r.begin()
	r.runSections(ctx)
	return r.end(ctx)
}

func (r *Runner) begin() {
	r.began = time.Now()
	r.result = &results.Suite{Scenario: "suite", Options: &results.SuiteLoad{
		OwnBroker: r.Launcher != nil, Seconds: r.Scale.Time.Seconds(), Messages: r.Scale.Messages,
	}}
}

func (r *Runner) runSections(ctx context.Context) {
	for _, section := range r.Sections {
		if ctx.Err() != nil {
			return
		}
		r.runSection(ctx, section)
		if r.broker != nil {
			r.record = r.broker.Record
			r.result.Options.BrokerSeen = r.broker.PID > 0
		}
	}
}

// end fills in what concerns the whole run.
func (r *Runner) end(ctx context.Context) *results.Suite {
	r.record.DataDir = r.directory()
	r.result.Interrupted = ctx.Err() != nil
	r.result.Environment = results.ReadEnvironment(r.record)
	r.result.Seconds = time.Since(r.began).Seconds()
	addDerived(r.result)
	addFractions(r.result)
	return r.result
}

func (r *Runner) say(format string, args ...any) {
	if r.Progress != nil {
		fmt.Fprintf(r.Progress, "%5.0fs  %s\n", time.Since(r.began).Seconds(), fmt.Sprintf(format, args...))
	}
}

// calibrate measures the yardsticks; those of the disk in the directory where
// the brokers' directories are.
func (r *Runner) calibrate(ctx context.Context, when string) (*results.Calibrate, error) {
	r.say("yardsticks, %s", when)
	arguments := []string{"calibrate", "-z", seconds(r.Scale.Calibrate), "--disk-time", seconds(r.Scale.Raw)}
	if directory := r.directory(); directory != "" {
		arguments = append(arguments, "--data-dir", directory)
	}
	raw, err := r.Tool.Run(ctx, arguments...)
	if err != nil {
		return nil, err
	}
	var result results.Calibrate
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("calibrate: %w", err)
	}
	return &result, nil
}

// directory is one on the disk that is measured, and outlives the brokers.
func (r *Runner) directory() string {
	if r.Launcher != nil {
		return cmp.Or(r.Launcher.Directory, os.TempDir())
	}
	return r.Running.Record.DataDir
}

func (r *Runner) addYardsticks(before, after *results.Calibrate) {
	add := func(name, unit string, get func(*results.Calibrate) float64) {
		if get(before) > 0 && get(after) > 0 {
			r.result.Yardsticks = append(r.result.Yardsticks, results.Yardstick{Name: name, Unit: unit, Before: get(before), After: get(after)})
		}
	}
	add(relay, "messages/s", func(c *results.Calibrate) float64 { return c.MessagesPerSecond })
	add("memory copy", "bytes/s", func(c *results.Calibrate) float64 { return c.MemoryCopyPerSecond })
	for _, mode := range []string{results.RawAppend, results.RawOverwrite} {
		for _, records := range []int{1, 10000} {
			name := mode
			if records > 1 {
				name = fmt.Sprintf("%s of %d records", mode, records)
			}
			add(name, "syncs/s", func(c *results.Calibrate) float64 {
				for _, disk := range c.Disk {
					if disk.Mode == mode && disk.RecordsPerBatch == records {
						return disk.SyncsPerSecond
					}
				}
				return 0
			})
		}
	}
}

// runSection runs the steps. After an error the figures of the steps that are
// left are missing, with that reason.
func (r *Runner) runSection(ctx context.Context, section Section) {
	outcome := results.SuiteSection{Name: section.Name}
	began := time.Now()
	var failure error
	for number, step := range section.Steps {
		if step.Flags != "" && r.Launcher == nil {
			for _, extract := range step.Figures {
				r.leaveOut(extract.Name, "needs a broker that is started with "+step.Flags+" (--broker-binary)")
			}
			continue
		}
		if failure == nil && ctx.Err() == nil && (number == 0 || step.Fresh) {
			failure = r.renew(ctx, strings.Fields(step.Flags)...)
		}
		if failure == nil && ctx.Err() == nil {
			failure = r.runStep(ctx, section.Name, step)
			continue
		}
		for _, extract := range step.Figures {
			r.leaveOut(extract.Name, "the section ended early")
		}
	}
	if err := r.release(); err != nil {
		failure = errors.Join(failure, err)
	}
	if failure != nil {
		outcome.Error = failure.Error()
		r.say("%s: %s", section.Name, failure)
	}
	outcome.Seconds = time.Since(began).Seconds()
	r.result.Sections = append(r.result.Sections, outcome)
}

// renew provides an empty broker, with more flags than others if it is one's own.
func (r *Runner) renew(ctx context.Context, flags ...string) (err error) {
	if r.Launcher == nil {
		r.broker = r.Running
		return nil
	}
	if err := r.broker.Stop(); err != nil {
		return err
	}
	launcher := *r.Launcher
	launcher.Flags = append(slices.Clone(launcher.Flags), flags...)
	r.broker, err = launcher.Start(ctx)
	return err
}

// release leaves a running broker as it was, or stops one's own.
func (r *Runner) release() error {
	if r.broker == nil {
		return nil
	}
	if r.Launcher != nil {
		return r.broker.Stop()
	}
	names := []string{r.Scale.Queue}
	for number := 1; number <= queuesMax; number++ {
		names = append(names, r.Scale.Queue+"-"+strconv.Itoa(number))
	}
	return r.Tool.DeleteQueues(r.broker.URI, names)
}

func (r *Runner) runStep(ctx context.Context, section string, step Step) error {
	series := watchMemory(r.Tool, r.broker.PID, section)
	offset := time.Since(r.began).Seconds()
	tree, err := r.measure(ctx, step)
	if series != nil {
		r.addSeries(series.end(), offset)
	}
	if err != nil {
		for _, extract := range step.Figures {
			r.leaveOut(extract.Name, err.Error())
		}
		return err
	}
	r.extract(section, step, tree)
	return nil
}

// measure runs the scenario of a step and decodes its result. A partial one is
// none.
func (r *Runner) measure(ctx context.Context, step Step) (any, error) {
	if step.Scenario == "" {
		return r.lookAtRest(ctx, max(r.Scale.Settle, step.Rest))
	}
	arguments := append([]string{step.Scenario}, r.arguments(step)...)
	r.say("%s", strings.Join(arguments, " "))
	arguments = append(arguments, "--uri", r.broker.URI)
	if r.broker.PID > 0 {
		arguments = append(arguments, "--broker-pid", strconv.Itoa(r.broker.PID))
	}
	raw, err := r.Tool.Run(ctx, arguments...)
	if err != nil {
		return nil, err
	}
	var head results.Head
	var tree any
	if err := errors.Join(json.Unmarshal(raw, &head), json.Unmarshal(raw, &tree)); err != nil {
		return nil, fmt.Errorf("%s gave no result: %w", step.Scenario, err)
	}
	switch {
	case head.Interrupted:
		return nil, fmt.Errorf("%s was interrupted", step.Scenario)
	case head.Error != "":
		return nil, fmt.Errorf("%s ended with: %s", step.Scenario, head.Error)
	}
	if head.Versions.BrokerProduct != "" {
		r.result.Versions = head.Versions
	}
	return tree, nil
}

// replacer puts parts of the scale in the place of their names.
func (s Scale) replacer() *strings.Replacer {
	return strings.NewReplacer(
		"{time}", seconds(s.Time), "{warmup}", seconds(s.Warmup), "{calibrate}", seconds(s.Calibrate), "{raw}", seconds(s.Raw),
		"{settle}", seconds(s.Settle), "{queue}", s.Queue, "{messages}", strconv.FormatUint(s.Messages, 10),
		"{few}", strconv.Itoa(s.Few), "{more}", strconv.Itoa(s.More), "{most}", strconv.Itoa(s.Most),
	)
}

// arguments fills in what the scale says.
func (r *Runner) arguments(step Step) (arguments []string) {
	replacer := r.Scale.replacer()
	for _, field := range strings.Fields(step.Arguments) {
		if field != "{disk}" {
			arguments = append(arguments, replacer.Replace(field))
		} else if directory := r.broker.Record.DataDir; directory != "" {
			arguments = append(arguments, "--data-dir", directory)
		}
	}
	return arguments
}

func seconds(span time.Duration) string { return strconv.FormatFloat(span.Seconds(), 'f', -1, 64) }

// lookAtRest takes the memory of a broker that has nothing to do.
func (r *Runner) lookAtRest(ctx context.Context, rest time.Duration) (any, error) {
	if r.broker.PID == 0 {
		return map[string]any{}, nil // the figures say what they need
	}
	timer := time.NewTimer(rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	memory, err := r.Tool.Memory(r.broker.PID)
	if err != nil {
		return nil, fmt.Errorf("can't read the broker's memory: %w", err)
	}
	return map[string]any{"vm_rss": float64(memory.RSS), "vm_hwm": float64(memory.HWM)}, nil
}

// extract takes the figures of a step out of its result.
func (r *Runner) extract(section string, step Step, tree any) {
	for _, e := range step.Figures {
		switch {
		case e.Needs == brokerProcess && r.broker.PID == 0:
			r.leaveOut(e.Name, "needs the broker's process (--broker-pid)")
			continue
		case e.Needs == brokerDisk && r.broker.Record.DataDir == "":
			r.leaveOut(e.Name, "needs the broker's data directory (--data-dir)")
			continue
		}
		value, err := find(tree, r.Scale.replacer().Replace(e.Path))
		if err != nil {
			r.leaveOut(e.Name, err.Error())
			continue
		}
		figure := results.Figure{
			Name: e.Name, Section: section, Value: value, Unit: e.Unit, Better: e.Better, Yardstick: e.Yardstick,
		}
		if e.FractionPath != "" {
			if fraction, err := find(tree, e.FractionPath); err == nil {
				figure.Fraction = &fraction
				figure.YardstickValue = stats.Ratio(value, fraction)
			} else {
				figure.Yardstick = ""
			}
		}
		r.result.Figures = append(r.result.Figures, figure)
	}
}

func (r *Runner) leaveOut(figure, reason string) {
	r.result.LeftOut = append(r.result.LeftOut, results.LeftOut{Figure: figure, Reason: reason})
}

// addSeries appends what was seen during a step to the series of its section.
func (r *Runner) addSeries(series results.Series, offset float64) {
	for i := range series.Seconds {
		series.Seconds[i] += offset
	}
	if last := len(r.result.Series) - 1; last >= 0 && r.result.Series[last].Section == series.Section {
		joined := &r.result.Series[last]
		joined.Seconds = append(joined.Seconds, series.Seconds...)
		joined.Values = append(joined.Values, series.Values...)
		return
	}
	r.result.Series = append(r.result.Series, series)
}
