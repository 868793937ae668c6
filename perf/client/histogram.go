package client

import (
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/basaltmq/basaltmq/perf/results"
	"golang.org/x/sys/unix"
)

// Range and precision of latency histograms, in nanoseconds.
const (
	LatencyMin              = 1
	LatencyMax              = int64(time.Hour)
	latencySignificantDigit = 3
)

func NewHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(LatencyMin, LatencyMax, latencySignificantDigit)
}

// clockBase and clockOrigin tie Go's cheap monotonic clock to CLOCK_MONOTONIC,
// whose values are the same in every process until the next boot. So a
// timestamp left in a queue by an earlier run is recognised as old.
var clockBase, clockOrigin = func() (int64, time.Time) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		panic("perf: CLOCK_MONOTONIC: " + err.Error()) // exists since Linux 2.6
	}
	return now.Nano(), time.Now()
}()

// Now returns CLOCK_MONOTONIC in nanoseconds.
func Now() int64 { return clockBase + int64(time.Since(clockOrigin)) }

// latencyRecorder collects the latencies seen by one loop. The loop records
// between begin and end, once per read; the reporter drains from outside.
type latencyRecorder struct {
	mu        sync.Mutex
	histogram *hdrhistogram.Histogram
	spare     *hdrhistogram.Histogram // empty; only touched by drainInto
	now       int64                   // read once per begin
	RunStart  int64                   // messages stamped before this are stale
	stale     uint64
}

func NewLatencyRecorder(runStart int64) *latencyRecorder {
	return &latencyRecorder{histogram: NewHistogram(), spare: NewHistogram(), RunStart: runStart}
}

func (r *latencyRecorder) begin() {
	r.mu.Lock()
	r.now = Now()
}

func (r *latencyRecorder) end() { r.mu.Unlock() }

// record notes a message whose intended send time was sentAt.
func (r *latencyRecorder) record(sentAt int64) {
	if sentAt > r.now {
		r.now = Now() // sent and read since begin, by two threads
	}
	if sentAt < r.RunStart || sentAt > r.now {
		r.stale++
		return
	}
	// The value is clamped, so recording can't fail.
	_ = r.histogram.RecordValue(max(LatencyMin, min(r.now-sentAt, LatencyMax)))
}

// recordMany notes count messages that were sent at the same time.
func (r *latencyRecorder) recordMany(sentAt int64, count int64) {
	_ = r.histogram.RecordValues(max(LatencyMin, min(r.now-sentAt, LatencyMax)), count)
}

// DrainInto moves what was recorded into target and returns the number of
// stale messages since the last drain. target may be nil to discard.
func (r *latencyRecorder) DrainInto(target *hdrhistogram.Histogram) (stale uint64) {
	r.mu.Lock()
	full := r.histogram
	r.histogram = r.spare
	stale, r.stale = r.stale, 0
	r.mu.Unlock()
	if target != nil {
		target.Merge(full)
	}
	full.Reset()
	r.spare = full
	return stale
}

func NewLatencyFigures(h *hdrhistogram.Histogram, stale uint64) *results.Latency {
	at := func(percentile float64) float64 { return float64(h.ValueAtPercentile(percentile)) / 1e3 }
	return &results.Latency{
		Samples: h.TotalCount(), Stale: stale,
		Min: float64(h.Min()) / 1e3, Mean: h.Mean() / 1e3,
		P50: at(50), P75: at(75), P90: at(90), P95: at(95),
		P99: at(99), P999: at(99.9), P9999: at(99.99), Max: float64(h.Max()) / 1e3,
	}
}
