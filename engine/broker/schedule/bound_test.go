package schedule

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// memory is what a schedule holds on the heap, and how much of it may be.
func (s *Schedule) memory() (entries, blocks, bytes int) {
	entries = cap(s.fresh) + cap(s.taken)
	for _, r := range s.runs {
		entries += cap(r.buf)
		blocks += cap(r.blocks)
	}
	return entries, blocks, entries*int(unsafe.Sizeof(Entry{})) + blocks*int(unsafe.Sizeof(block{}))
}

// fill publishes count messages that are due at random times.
func (b *bench) fill(count int, spread int64) {
	b.t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	dues := make([]int64, 1000)
	for n := 0; n < count; n += len(dues) {
		for i := range dues {
			dues[i] = 1 + random.Int64N(spread)
		}
		b.publish(dues...)
		b.maintain()
	}
}

// A schedule of many messages is a few blocks in memory, also while they are
// taken, and they come in order.
func TestSchedule_ManyMessages_BoundedMemory(t *testing.T) {
	t.Parallel()
	count := 200_000
	b := open(t, sim.New(sim.Options{}), freshMax, blockEntries)
	defer func() { b.kill() }()
	b.fill(count, 1_000_000)
	check := func() {
		t.Helper()
		entries, blocks, bytes := b.s.memory()
		if len(b.s.runs) > 2*(fanIn-1) || entries > 2*freshMax+TakenMax+len(b.s.runs)*blockEntries || blocks > count/blockEntries*5/2+100 {
			t.Fatalf("%d runs, %d entries and %d blocks in memory: %d bytes", len(b.s.runs), entries, blocks, bytes)
		}
	}
	check()
	last, taken := Entry{}, 0
	b.take(500_000, func(part []Entry) int {
		for _, e := range part {
			if !last.before(e) {
				t.Fatalf("%v after %v", e, last)
			}
			last = e
		}
		taken += len(part)
		check()
		return len(part)
	})
	if left := b.messages.Unsettled(); taken < count/3 || uint64(count-taken) != left {
		t.Fatalf("took %d of %d, %d are left", taken, count, left)
	}
}

// BenchmarkSchedule adds a million messages at random times, and takes them.
func BenchmarkSchedule(b *testing.B) {
	for range b.N {
		bench := open(b, sim.New(sim.Options{}), freshMax, blockEntries)
		bench.fill(1_000_000, 1<<30)
		_, _, bytes := bench.s.memory()
		bench.take(1<<30, func(part []Entry) int { return len(part) })
		b.ReportMetric(float64(bytes), "heap-bytes")
		bench.kill()
	}
}
