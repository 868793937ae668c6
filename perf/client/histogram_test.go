package client

import (
	"testing"
	"time"
)

// A message that another thread sent between the reader's look at the clock and
// its read is a fast one, not one of an earlier run.
func TestLatencyOfMessagesSentSinceTheClockWasRead(t *testing.T) {
	t.Parallel()
	r := NewLatencyRecorder(0)
	r.RunStart = Now()
	r.begin()
	for r.now >= Now() {
	}
	r.record(Now())
	r.record(r.RunStart - 1)
	r.record(Now() + int64(time.Hour)) // of an earlier boot
	r.end()
	histogram := NewHistogram()
	if stale := r.DrainInto(histogram); stale != 2 || histogram.TotalCount() != 1 {
		t.Errorf("%d stale, %d counted; want 2, 1", stale, histogram.TotalCount())
	}
}
