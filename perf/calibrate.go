package perf

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
)

// calibrateOptions are the options of the calibrate scenario.
type calibrateOptions struct {
	Size     uint64        `json:"size"`
	Duration time.Duration `json:"duration_ns"`
	DiskTime time.Duration `json:"disk_time_ns"` // of each disk figure

	Output scenario.Output `json:"-"`
	Record scenario.Record `json:"-"`
}

const (
	calibrateWarmup = 500 * time.Millisecond // lets the sockets' buffers grow to their size
	memoryCopySpan  = 300 * time.Millisecond
)

// calibrateRecords are the batch sizes of the disk yardstick.
var calibrateRecords = []int{1, 100, 1000, 10000}

func calibrateScenario() scenario.Scenario {
	return scenario.Scenario{
		Name:    "calibrate",
		Summary: "measure the yardsticks for this machine: bare relay, raw disk, memory",
		Details: "Bare relay: a writer sends 128 KiB chunks over loopback TCP to a relay process,\n" +
			"which reads up to 256 KiB and writes it on to a reader; writer and reader are two\n" +
			"threads of this process. Nothing is parsed. Bytes per second divided by the wire\n" +
			"size of a publish (exchange \"\", key \"perf-test\") is how many messages a second a\n" +
			"broker could pass on this machine if it did nothing else.\n\n" +
			"Raw disk, with --data-dir: one thread writes batches of 1, 100, 1,000 and 10,000\n" +
			"records (20 bytes each and a header), with one write and one fdatasync per batch,\n" +
			"to a growing file and over a file written before.\n\n" +
			"Measure before and after each figure.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			options := &calibrateOptions{Size: 16, Duration: 5 * time.Second, DiskTime: time.Second}
			flags.Quantity(&options.Size, "s", "size", "BYTES", "body size of the messages to compare with")
			flags.Duration(&options.Duration, "z", "time", "SECONDS", "measure the relay for this long")
			flags.Duration(&options.DiskTime, "", "disk-time", "SECONDS", "measure each of the eight disk figures for this long")
			options.Output.Declare(flags)
			options.Record.Declare(flags, "measure the disk of this directory, in two temporary files")
			return func(ctx context.Context, out scenario.Console) error {
				if options.Size > bodyBytesMax || options.Duration <= 0 || options.DiskTime <= 0 {
					return cli.Usagef("--size is at most %d, --disk-time and --time above 0", bodyBytesMax)
				}
				return runCalibrate(ctx, options, out)
			}
		},
	}
}

// calibrateResult is the JSON result of the calibrate scenario, with all its
// options.
type calibrateResult struct {
	results.Calibrate
	Options *calibrateOptions `json:"options"`
}

func runCalibrate(ctx context.Context, options *calibrateOptions, out scenario.Console) error {
	if err := scenario.CheckWritable(options.Output.JSONFile); err != nil {
		return err
	}
	properties, err := cli.ParseProperties("", false)
	if err != nil {
		return err
	}
	var disk *rawDisk
	if options.Record.DataDir != "" {
		if disk, err = openRawDisk(options.Record.DataDir); err != nil {
			return err
		}
		defer disk.close()
	}
	wireBytes := client.EncodePublish("", defaultQueue, properties, options.Size, session.FrameMaxDefault).Size
	relay, err := measureRelay(ctx, options.Duration, out.Stderr)
	if err != nil {
		return err
	}
	perMessage := float64(wireBytes) / max(relay.bytes, 1)
	result := &calibrateResult{Options: options, Calibrate: results.Calibrate{
		Scenario: "calibrate", Seconds: relay.span.Seconds(),
		MessagesPerSecond: relay.bytesPerSecond() / float64(wireBytes), BytesPerSecond: relay.bytesPerSecond(), WireBytes: wireBytes,
		RelayCPU:            float64(relay.relayCPU) * perMessage,
		ClientCPU:           float64(relay.clientCPU) * perMessage,
		MemoryCopyPerSecond: measureMemoryCopy(min(memoryCopySpan, options.Duration)),
		Versions:            versions{Tool: scenario.ToolVersion()}, Environment: scenario.ReadEnvironment(options.Record),
	}}
	if disk != nil {
		if result.Disk, err = measureDisk(ctx, disk, options.DiskTime); err != nil {
			return err
		}
	}
	result.Interrupted = ctx.Err() != nil
	return options.Output.Write(out, result, func() { result.writeText(out.Stdout) })
}

// measureDisk measures every batch size both ways, alternating.
func measureDisk(ctx context.Context, disk *rawDisk, span time.Duration) (all []rawFigures, err error) {
	for _, records := range calibrateRecords {
		for _, mode := range []string{rawAppend, rawOverwrite} {
			if ctx.Err() != nil {
				return all, nil
			}
			figures, err := disk.measure(ctx, mode, records, span)
			if err != nil {
				return nil, err
			}
			all = append(all, figures)
		}
	}
	return all, nil
}

func (r *calibrateResult) writeText(w io.Writer) {
	fmt.Fprintf(w, "Bare relay: %s messages/s of %d bytes on the wire (%d in the body), %.2f GB/s\n",
		results.HumanCount(uint64(r.MessagesPerSecond)), r.WireBytes, r.Options.Size, r.BytesPerSecond/1e9)
	fmt.Fprintf(w, "CPU per message: relay %.1f ns, writer and reader %.1f ns\n", r.RelayCPU, r.ClientCPU)
	fmt.Fprintf(w, "Memory copy: %.1f GB/s\n", r.MemoryCopyPerSecond/1e9)
	if len(r.Disk) == 0 {
		return
	}
	fmt.Fprintf(w, "Raw disk, write and fdatasync (%s, %s):\n", r.Environment.Filesystem, r.Environment.Mount)
	fmt.Fprintf(w, "%-10s %8s %12s %14s %12s %12s\n", "", "records", "syncs/s", "records/s", "p50 us", "p99 us")
	for _, f := range r.Disk {
		fmt.Fprintf(w, "%-10s %8d %12s %14s %12.0f %12.0f\n", f.Mode, f.RecordsPerBatch,
			results.HumanCount(uint64(f.SyncsPerSecond)), results.HumanCount(uint64(f.RecordsPerSecond)), f.P50, f.P99)
	}
}
