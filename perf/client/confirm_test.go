package client

import (
	"testing"

	"pgregory.net/rapid"
)

// The tracker must agree with a set of numbers.
func TestConfirmTracker(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(1, 200).Draw(t, "window")
		tracker := newConfirmRing(rapid.SampledFrom([]uint64{64, 128}).Draw(t, "ring"))
		settled := make(map[uint64]bool)
		sent := uint64(0)
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			if limit := tracker.limit(uint64(window)); limit > sent {
				sent = rapid.Uint64Range(sent, limit).Draw(t, "sent")
			}
			if sent == 0 {
				continue
			}
			tag := rapid.Uint64Range(1, sent).Draw(t, "tag")
			multiple := rapid.IntRange(0, 5).Draw(t, "multiple") == 0
			want, wantOK := uint64(0), true
			if multiple {
				for number := uint64(1); number <= tag; number++ {
					if !settled[number] {
						settled[number] = true
						want++
					}
				}
			} else if settled[tag] {
				wantOK = false
			} else {
				settled[tag] = true
				want = 1
			}
			got, ok := tracker.settle(tag, multiple, sent)
			if got != want || ok != wantOK {
				t.Fatalf("settle(%d, %v) with %d sent: %d, %v; want %d, %v", tag, multiple, sent, got, ok, want, wantOK)
			}
			if tracker.settled != uint64(len(settled)) {
				t.Fatalf("%d settled, want %d", tracker.settled, len(settled))
			}
		}
	})
}

func TestConfirmTrackerRefuses(t *testing.T) {
	t.Parallel()
	tracker := NewConfirmTracker(10)
	if _, ok := tracker.settle(6, false, 5); ok {
		t.Error("a tag above the last one sent")
	}
	if _, ok := tracker.settle(0, false, 5); ok {
		t.Error("tag 0 alone")
	}
	if count, ok := tracker.settle(0, true, 5); count != 5 || !ok {
		t.Errorf("tag 0 with multiple settles everything: %d, %v", count, ok)
	}
}
