package segstore

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// logModel is what a log should be: which offsets exist and which are settled.
type logModel struct {
	next    uint64
	cursor  uint64
	settled map[uint64]bool
	size    map[uint64]int
}

func newLogModel() *logModel {
	return &logModel{settled: map[uint64]bool{}, size: map[uint64]int{}}
}

func (m *logModel) unsettled() (list []uint64) {
	for o := uint64(0); o < m.next; o++ {
		if !m.settled[o] {
			list = append(list, o)
		}
	}
	return list
}

// history drives one store with several logs through random operations.
type history struct {
	t       *rapid.T
	disk    *memDisk
	clock   *fakeClock
	options testOptions
	s       *testStore
	logs    map[uint64]*Log
	readers map[uint64]*Reader
	models  map[uint64]*logModel
}

func smallLimits(o *Options) {
	o.TailBytesHigh, o.TailBytesLow = 64<<10, 32<<10
	o.tune.fullBytes = 8 << 10
	o.tune.frontBytes = 8 << 10
	o.tune.keptBytes = 24 << 10
	o.tune.blockBytes = 1 << 10
	o.tune.indexBytes = 512
	o.tune.settledBytes = 512
	o.tune.sealBytes = 3000
	o.tune.filesMax = 3
	o.tune.waveLogs = 2
	o.tune.groupBytes = 2 << 10
	o.tune.carryRanges = 3
	o.tune.ackBytes = 100
	o.tune.stepLogs = 1
	o.tune.aheadBytes = 4 << 10
}

func newHistory(t *rapid.T) *history {
	h := &history{t: t, disk: newMemDisk(), clock: newFakeClock(), models: map[uint64]*logModel{}}
	journalBytes := rapid.SampledFrom([]int64{1, 2 << 10, 16 << 10, 1 << 20}).Draw(t, "journal")
	heldBytes := rapid.SampledFrom([]int64{1, 16 << 10, 1 << 20}).Draw(t, "held")
	bypassBytes := rapid.SampledFrom([]int64{1, 500, 4 << 10}).Draw(t, "bypass")
	carryBytes := rapid.SampledFrom([]int64{1, 200, 2 << 10}).Draw(t, "carry")
	h.options = testOptions{disk: h.disk, clock: h.clock, segment: 4 << 10, os: rapid.Bool().Draw(t, "os"), journal: true, change: func(o *Options) {
		smallLimits(o)
		o.JournalBytes, o.HeldBytes = journalBytes, heldBytes
		o.tune.bypassBytes, o.tune.carryBytes = bypassBytes, carryBytes
	}}
	h.open()
	return h
}

func (h *history) open() {
	h.s = openTest(h.t, h.options)
	h.logs, h.readers = map[uint64]*Log{}, map[uint64]*Reader{}
	for id := uint64(1); id <= 3; id++ {
		h.logs[id] = h.s.log(id, false)
		h.readers[id] = h.logs[id].NewReader()
		if h.models[id] == nil {
			h.models[id] = newLogModel()
		}
	}
}

func (h *history) stop(how string) {
	for _, r := range h.readers {
		r.Close()
	}
	if how == "close" {
		h.s.close()
	} else {
		h.s.crash()
		h.disk.revive()
	}
}

func (h *history) step() {
	t := h.t
	id := rapid.Uint64Range(1, 3).Draw(t, "log")
	l, m, r := h.logs[id], h.models[id], h.readers[id]
	switch rapid.IntRange(0, 11).Draw(t, "operation") {
	case 0, 1, 2:
		n := rapid.IntRange(1, 12).Draw(t, "records")
		size := rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(0, 700), rapid.Just(5000)).Draw(t, "size")
		base := h.s.appendN(l, n, size)
		for i := range uint64(n) {
			m.size[base+i] = size
		}
		m.next = base + uint64(n)
	case 3, 4:
		if m.next == 0 {
			return
		}
		first := rapid.Uint64Range(0, m.next-1).Draw(t, "first")
		if rapid.Bool().Draw(t, "inOrder") {
			first = l.Low()
		}
		count := rapid.OneOf(rapid.Just(uint64(1)), rapid.Uint64Range(0, 30)).Draw(t, "count")
		l.Settle(first, count)
		for o := first; o < min(first+count, m.next); o++ {
			m.settled[o] = true
		}
	case 5:
		h.s.tick()
	case 6:
		l.WantDurable()
		h.s.urge()
		if err := l.Err(); err != nil {
			t.Fatalf("fenced: %v", err)
		}
		if l.Durable() != l.Next() {
			t.Fatalf("durable %d after a group commit, next %d", l.Durable(), l.Next())
		}
	case 7:
		h.s.syncTick()
	case 8:
		from := uint64(0)
		if m.next > 0 {
			from = rapid.Uint64Range(0, m.next-1).Draw(t, "from")
		}
		h.checkReads(id, r, from, min(m.next, from+40))
	case 9:
		h.checkRuns(id, rapid.Uint64Range(1, 20).Draw(t, "limit"))
	case 10:
		m.cursor = rapid.Uint64Range(0, m.next).Draw(t, "cursor")
		l.SetCursor(m.cursor)
	case 11:
		r.Close()
	}
	h.checkCounts(id)
}

func (h *history) checkReads(id uint64, r *Reader, from, to uint64) {
	h.t.Helper()
	found := map[uint64]bool{}
	for _, o := range h.s.readAll(r, from, to) {
		found[o] = true
	}
	m := h.models[id]
	for o := from; o < to; o++ {
		if !found[o] && !m.settled[o] {
			h.t.Fatalf("log %d: unsettled record %d cannot be read", id, o)
		}
	}
}

func (h *history) checkRuns(id, limit uint64) {
	h.t.Helper()
	l, want := h.logs[id], h.models[id].unsettled()
	var got []uint64
	for from := uint64(0); ; {
		first, count := l.NextUnsettled(from, limit)
		if count == 0 {
			break
		}
		if first < from || count > limit {
			h.t.Fatalf("NextUnsettled(%d, %d) = %d, %d", from, limit, first, count)
		}
		for i := range count {
			got = append(got, first+i)
		}
		from = first + count
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		h.t.Fatalf("log %d: unsettled %v, want %v", id, got, want)
	}
}

func (h *history) checkCounts(id uint64) {
	h.t.Helper()
	l, m := h.logs[id], h.models[id]
	want := m.unsettled()
	low := m.next
	if len(want) > 0 {
		low = want[0]
	}
	if l.Next() != m.next || l.Low() != low || l.Unsettled() != uint64(len(want)) || l.Cursor() != m.cursor {
		h.t.Fatalf("log %d: next %d low %d unsettled %d cursor %d, want %d %d %d %d",
			id, l.Next(), l.Low(), l.Unsettled(), l.Cursor(), m.next, low, len(want), m.cursor)
	}
	if l.Durable() > l.Next() || l.Durable() < l.Low() && h.s.flusher.lastSync.IsZero() {
		h.t.Fatalf("durable %d, next %d", l.Durable(), l.Next())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settled.checkShape(h.t)
	l.pending.checkShape(h.t)
	bytes := int64(0)
	for i, c := range l.chunks {
		if c.base >= c.next || i > 0 && c.base < l.chunks[i-1].next || c.used > len(c.data) || c.saved > c.used || c.flushed > c.saved {
			h.t.Fatalf("log %d chunk %d: %+v", id, i, c)
		}
		bytes += int64(c.used - c.saved)
	}
	if bytes != l.unwritten {
		h.t.Fatalf("log %d: unwritten %d, counted %d", id, l.unwritten, bytes)
	}
}

func (h *history) checkAll() {
	h.t.Helper()
	for id := uint64(1); id <= uint64(len(h.logs)); id++ {
		l := h.logs[id]
		h.checkCounts(id)
		h.checkRuns(id, 7)
		r := l.NewReader()
		h.checkReads(id, r, 0, l.Next())
		r.Close()
	}
	for _, line := range h.s.lines.all() {
		h.t.Fatalf("unexpected log line: %s", line)
	}
}

// TestStore_RandomHistoriesWithCleanStops: a closed store is what it was.
func TestStore_RandomHistoriesWithCleanStops(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			for range rapid.IntRange(1, 60).Draw(t, "steps") {
				h.step()
			}
			h.checkAll()
			h.stop("close")
			h.open()
			// A log that never owned a file starts again at 0 when it was emptied.
			for id, m := range h.models {
				if l := h.logs[id]; l.Next() < m.next && len(m.unsettled()) == 0 {
					if l.Next() != 0 || h.disk.find(l.dir()) != nil {
						t.Fatalf("log %d: next %d after reopening, was %d", id, l.Next(), m.next)
					}
					h.models[id] = newLogModel()
				}
			}
			h.checkAll()
		}
		h.stop("close")
	})
}

// afterCrash compares what a crash left with what was promised and takes it
// over into the models. durable are the values of Durable before the crash.
func (h *history) afterCrash(durable map[uint64]uint64) {
	h.t.Helper()
	for id, m := range h.models {
		l := h.logs[id]
		if l.Next() > m.next {
			h.t.Fatalf("log %d: next %d after the crash, was %d, durable %d", id, l.Next(), m.next, durable[id])
		}
		r := l.NewReader()
		found := map[uint64]bool{}
		for _, o := range h.s.readAll(r, 0, l.Next()) {
			found[o] = true
		}
		r.Close()
		for o := range m.next {
			switch {
			case o < l.Next() && found[o]:
				// It is there. It may have lost its settlement, never gained one.
				if l.isSettled(o, o+1) && !m.settled[o] {
					h.t.Fatalf("log %d: record %d was not settled, now it is", id, o)
				}
			case o < durable[id] && !m.settled[o]:
				h.t.Fatalf("log %d: durable record %d is lost; durable %d, next %d", id, o, durable[id], l.Next())
			}
			m.settled[o] = l.isSettled(o, o+1)
			if !m.settled[o] && !found[o] && o < l.Next() {
				for _, seg := range l.segments {
					data := h.disk.content(l.path(segmentName(seg.base)))
					h.t.Logf("segment %+v, file of %d bytes", *seg, len(data))
					for pos := segmentHeaderBytes; pos < len(data); {
						n, err := checkBatch(data[pos:])
						if err != nil {
							h.t.Logf("at %d: %v", pos, err)
							break
						}
						h.t.Logf("at %d: [%d, %d)", pos, batchBase(data[pos:]), batchEnd(data[pos:]))
						pos += n
					}
				}
				h.t.Logf("files %v, log %v", h.disk.names(l.dir()), h.s.lines.all())
				h.t.Fatalf("log %d: record %d is neither readable nor settled", id, o)
			}
		}
		for o := l.Next(); o < m.next; o++ {
			delete(m.settled, o)
			delete(m.size, o)
		}
		m.next, m.cursor = l.Next(), l.Cursor()
	}
}

func (h *history) durables() map[uint64]uint64 {
	d := map[uint64]uint64{}
	for id, l := range h.logs {
		d[id] = l.Durable()
	}
	return d
}

// TestStore_RandomHistoriesWithKills: the process dies in the middle of a
// write or between two; what the disk was told stays.
func TestStore_RandomHistoriesWithKills(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		for range rapid.IntRange(1, 4).Draw(t, "lives") {
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				h.step()
			}
			if rapid.Bool().Draw(t, "midway") {
				h.disk.left = rapid.IntRange(0, 12).Draw(t, "left")
				for range 3 {
					h.s.syncTick()
				}
			}
			durable := h.durables()
			h.stop("crash")
			h.open()
			h.afterCrash(durable)
			h.checkAllQuietly()
		}
		h.stop("close")
	})
}

// TestStore_RandomHistoriesWithPowerLoss: of what was not synced, a random part
// is gone. Durable records are not.
func TestStore_RandomHistoriesWithPowerLoss(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory(t)
		h.options.os = false
		h.stop("close")
		h.open()
		for range rapid.IntRange(1, 4).Draw(t, "lives") {
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				h.step()
			}
			durable := h.durables()
			h.stop("crash")
			rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			odds := rng.IntN(5)
			h.disk.losePower(func() bool { return rng.IntN(4) < odds })
			h.open()
			h.afterCrash(durable)
			h.checkAllQuietly()
		}
		h.stop("close")
	})
}

// checkAllQuietly is checkAll for a store that had something to report.
func (h *history) checkAllQuietly() {
	h.t.Helper()
	for _, line := range h.s.lines.all() {
		if strings.Contains(line, "fenced") {
			h.t.Fatalf("unexpected log line: %s", line)
		}
	}
	h.s.lines.mu.Lock()
	h.s.lines.lines = nil
	h.s.lines.mu.Unlock()
	h.checkAll()
}
