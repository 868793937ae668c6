package segstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// A filter of these tests is one byte: bit k says that a record of kind k is in
// the batch. A record's kind is in its routing key.
func kindQuery(kind byte) *Query {
	return &Query{Wanted: func(f []byte) bool {
		if f == nil {
			return kind == 0
		}
		return f[0]&(1<<kind) != 0
	}}
}

func (s *testStore) openRetained(o RetainedOptions) *Log {
	s.t.Helper()
	l, err := s.OpenLog(1, LogOptions{Retained: &o})
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *testStore) appendKinds(l *Log, at int64, kinds []byte, size int) {
	s.t.Helper()
	b := NewBatch(s.arena)
	defer b.Release()
	b.Reset(at)
	filter := byte(0)
	for i, k := range kinds {
		b.Add(b.Template(nil, []byte{k}, nil), bodyOf(l.Next()+uint64(i), size))
		filter |= 1 << k
	}
	if filter > 1 { // kind 0 alone: no filter
		b.SetFilter([]byte{filter})
	}
	if _, err := l.Append(b); err != nil {
		s.t.Fatal(err)
	}
}

// trimTo settles whole segments from the front until at most keep are left.
func trimTo(l *Log, keep int) uint64 {
	segments := l.Segments(nil)
	low := l.Low()
	for len(segments) > keep {
		low = segments[0].Next
		segments = segments[1:]
	}
	if low > l.Low() {
		l.Settle(l.Low(), low-l.Low())
	}
	return l.Low()
}

// readKind reads all records of a kind from offset on, by its query.
func readKind(t tester, l *Log, from uint64, kind byte, query bool) (got []uint64, met int) {
	r := l.NewReader()
	defer r.Close()
	if query {
		r.SetQuery(kindQuery(kind))
	}
	var rec Record
	for at := from; at < l.Next(); {
		err := seek(r, at)
		var missing ErrMissing
		if errors.As(err, &missing) {
			if missing.Next <= at {
				t.Fatalf("offset %d is missing, next %d", at, missing.Next)
			}
			at = missing.Next
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for r.Next(&rec) {
			met++
			if rec.Offset != at || !bytes.Equal(rec.Body, bodyOf(at, len(rec.Body))) {
				t.Fatalf("offset %d: %+v", at, rec)
			}
			if r.Template(rec.Template).RoutingKey[0] == kind {
				got = append(got, rec.Offset)
			}
			at++
		}
	}
	return got, met
}

func TestRetained_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d, clock := newMemDisk(), newFakeClock()
		to := testOptions{disk: d, clock: clock, journal: rapid.Bool().Draw(t, "journal"), change: func(o *Options) {
			o.tune.indexBytes = 256
			o.tune.blockBytes = 1 << 10
			o.tune.frontBytes = 8 << 10
			o.tune.keptBytes = 8 << 10
			o.SegmentBytes = 1 << 20
		}}
		s := openTest(t, to)
		l := s.openRetained(RetainedOptions{SegmentBytes: 2000})
		kinds := map[uint64]byte{} // the model: what is there
		all := map[uint64]byte{}   // and everything that ever was
		last := uint64(0)          // no offset at or above it was given
		// After a crash nobody may be shown records before one of them is durable:
		// only then is it sure that offsets are not given again.
		gate := uint64(0)
		var low uint64
		now := int64(1000)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0, 1, 2, 3:
				now += int64(rapid.IntRange(0, 50).Draw(t, "ms"))
				ks := rapid.SliceOfN(rapid.ByteRange(0, 4), 1, 12).Draw(t, "kinds")
				if l.Next() < last {
					t.Fatalf("offset %d was given before (%d)", l.Next(), last)
				}
				for i, k := range ks {
					kinds[l.Next()+uint64(i)] = k
					all[l.Next()+uint64(i)] = k
				}
				s.appendKinds(l, now, ks, rapid.IntRange(0, 90).Draw(t, "size"))
				last = l.Next()
			case 4:
				s.tick()
			case 5:
				s.syncTick()
			case 6:
				l.Roll()
			case 7:
				low = trimTo(l, rapid.IntRange(1, 4).Draw(t, "keep"))
			case 8:
				s.close()
				s = openTest(t, to)
				l = s.openRetained(RetainedOptions{SegmentBytes: 2000})
				gate = 0
				if l.Low() < low || l.Next() != last && last > 0 {
					t.Fatalf("after a clean stop low %d (%d), next %d (%d)", l.Low(), low, l.Next(), last)
				}
			case 9:
				durable := l.Durable()
				shown := last
				if gate > 0 && durable <= gate {
					shown = gate - 1000
				}
				s.crash()
				s = openTest(t, to)
				l = s.openRetained(RetainedOptions{SegmentBytes: 2000, Skip: 1000})
				if l.Next() < shown {
					t.Fatalf("next %d after a crash: %d was shown", l.Next(), shown)
				}
				gate = l.Next()
				// What was not durable may be gone, what was dropped may be back.
				clear(kinds)
				r := l.NewReader()
				for o, k := range all {
					if o >= l.Low() && seek(r, o) == nil {
						kinds[o] = k
					} else if o >= l.Low() && o < durable {
						t.Fatalf("offset %d was durable (%d) and is gone", o, durable)
					} else if o >= l.Low() {
						delete(all, o)
					}
				}
				r.Close()
				low, last = l.Low(), l.Next()
			}
			for o := range kinds {
				if o < l.Low() {
					delete(kinds, o)
				}
			}
			if l.Unsettled() != uint64(len(kinds)) {
				t.Fatalf("%d records, want %d", l.Unsettled(), len(kinds))
			}
		}
		for kind := range byte(5) {
			want := 0
			for _, k := range kinds {
				if k == kind {
					want++
				}
			}
			for _, query := range []bool{true, false} {
				if got, _ := readKind(t, l, l.Low(), kind, query); len(got) != want {
					t.Fatalf("kind %d, query %t: %d of %d records: %v", kind, query, len(got), want, got)
				}
			}
		}
		s.close()
	})
}

// Skipping reads nothing: of a million records in segments, a query that wants
// one batch meets that batch, and the store reads one block for it.
func TestRetained_QueryReadsOnlyWhatMayMatch(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOptions{change: func(o *Options) {
		o.tune.frontBytes, o.tune.keptBytes = 1, 1
		o.tune.indexBytes = 4 << 10
		o.tune.blockBytes = 4 << 10
	}})
	defer s.close()
	l := s.openRetained(RetainedOptions{SegmentBytes: 64 << 10})
	for i := range 400 {
		kind := byte(1)
		if i == 200 {
			kind = 2
		}
		s.appendKinds(l, 1000+int64(i), bytes.Repeat([]byte{kind}, 10), 100)
		if i%20 == 0 {
			l.WantDurable()
			s.urge()
		}
	}
	s.syncTick()
	s.syncTick()
	if n := len(l.Segments(nil)); n < 5 {
		t.Fatalf("%d segments", n)
	}
	got, met := readKind(t, l, 0, 2, true)
	if len(got) != 10 || met > 100 {
		t.Errorf("%d records of kind 2, %d met of 4000", len(got), met)
	}
	r := l.NewReader()
	defer r.Close()
	r.SetQuery(&Query{SinceMs: 1390})
	var missing ErrMissing
	if err := seek(r, 0); !errors.As(err, &missing) || missing.Next < 500 {
		t.Errorf("a query by time does not pass over the first segment: %v", err)
	}
	if at := l.Find(1300); at < 2000 || at > 3000 {
		t.Errorf("time 1300 is looked for from offset %d on", at)
	}
	if at := l.Find(0); at != 0 {
		t.Errorf("the beginning of time is at %d", at)
	}
}

// The tail stays in memory, not the front.
func TestRetained_KeepsTheNewest(t *testing.T) {
	t.Parallel()
	s := openTest(t, testOptions{change: func(o *Options) { o.tune.frontBytes = 300 << 10 }})
	defer s.close()
	sealed := 0
	l := s.openRetained(RetainedOptions{SegmentBytes: 256 << 10, Sealed: func() { sealed++ }})
	for range 40 {
		s.appendN(l, 50, 1000)
		s.tick()
	}
	s.syncTick()
	s.syncTick()
	l.mu.Lock()
	first, n := l.chunks[0].base, len(l.chunks)
	l.mu.Unlock()
	if first == 0 || n == 0 || l.Unsettled() != 2000 {
		t.Errorf("%d chunks from offset %d on", n, first)
	}
	if sealed == 0 {
		t.Error("nobody was told of sealed segments")
	}
	if at := l.LastBatch(); at != 1950 {
		t.Errorf("the last batch begins at %d", at)
	}
}

// Format version 2 as a file.
func TestGolden_FormatVersion2(t *testing.T) {
	const golden = "testdata/v2-sealed.seg"
	const name = "/00000000000000000000.seg"
	write := func(s *testStore) {
		l := s.openRetained(RetainedOptions{SegmentBytes: 700})
		for i := range 6 {
			s.appendKinds(l, 1_700_000_000_000+int64(i), []byte{byte(i % 3), byte(i % 2)}, 40)
			l.WantDurable()
			s.urge()
		}
		s.syncTick()
	}
	if *updateGolden {
		d := newMemDisk()
		s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.tune.indexBytes = 128 }})
		write(s)
		s.close()
		if err := os.WriteFile(filepath.FromSlash(golden), d.content(testDir+name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.FromSlash(golden))
	if err != nil {
		t.Fatal(err)
	}
	d := newMemDisk()
	d.put(testDir+name, data)
	s := openTest(t, testOptions{disk: d})
	defer s.close()
	l := s.openRetained(RetainedOptions{})
	if len(l.segments) != 1 || !l.segments[0].sealed || l.segments[0].filterBytes != 1 || l.segments[0].firstMs != 1_700_000_000_000 {
		t.Fatalf("%d segments, first %+v", len(l.segments), l.segments[0])
	}
	if got, _ := readKind(t, l, 0, 2, true); len(got) != 1 || got[0] != 4 {
		t.Errorf("records of kind 2: %v", got)
	}
}
