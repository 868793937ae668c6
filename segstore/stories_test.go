package segstore

import (
	"fmt"
	"slices"
	"testing"
)

// Tests of bugs that other brokers had; docs/stories.md says which.

// After a power cut the file of settlings may know of records that the log has
// lost. They must not count for the records that get these offsets next.
func TestRecovery_SettledBeyondTheEndOfTheLog(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d})
	l := s.log(1, false)
	s.appendN(l, 5, 20)
	l.WantDurable()
	s.urge()
	short := slices.Clone(d.content(testSegment))
	s.appendN(l, 5, 20)
	l.WantDurable()
	s.urge()
	l.Settle(1, 2)
	l.Settle(6, 3)
	s.close()
	settled := d.content(testDir + "/" + settledName)
	if len(settled) == 0 || len(d.content(testSegment)) <= len(short) {
		t.Fatalf("%d bytes of settlings, the segment has %d", len(settled), len(d.content(testSegment)))
	}

	d = newMemDisk()
	d.put(testSegment, short)
	d.put(testDir+"/"+settledName, settled)
	base := uint64(0)
	for round := range 3 {
		s = openTest(t, testOptions{disk: d})
		l = s.log(1, false)
		if round == 0 {
			before := l.Unsettled()
			base = s.appendN(l, 5, 20)
			if n := l.Unsettled() - before; before != 3 || n != 5 {
				t.Fatalf("%d records were left, and %d of 5 new ones count, at %d", before, n, base)
			}
		}
		r := l.NewReader()
		first, count := l.NextUnsettled(base, 10)
		if got := s.readAll(r, base, l.Next()); len(got) != 5 || first != base || count != 5 || l.Unsettled() != 8 {
			t.Fatalf("start %d: records %v, of which %d from %d on are unsettled, %d in all", round, got, count, first, l.Unsettled())
		}
		r.Close()
		l.WantDurable()
		s.urge()
		s.close()
	}
}

// A log whose first segment is settled as a whole when it is opened, or gets so
// later: the reader that stands there goes on to what comes behind.
func TestReader_StandsInASegmentThatGoes(t *testing.T) {
	for _, settleFirst := range []bool{true, false} {
		t.Run(fmt.Sprintf("settled before the start %v", settleFirst), func(t *testing.T) {
			d := newMemDisk()
			s := openTest(t, testOptions{disk: d, segment: 1000})
			l := s.log(1, false)
			write := func(n int) {
				s.appendN(l, n, 100)
				l.WantDurable()
				s.urge()
				s.syncTick()
			}
			write(5)
			if settleFirst {
				l.Settle(0, 5)
				s.syncTick()
			}
			s.close()
			s = openTest(t, testOptions{disk: d, segment: 1000})
			defer s.close()
			l = s.log(1, false)
			r := l.NewReader()
			defer r.Close()
			if !settleFirst {
				if got := s.readAll(r, 0, 5); len(got) != 5 {
					t.Fatal(got)
				}
				l.Settle(0, 5)
			}
			for round := range 5 { // each rolls the segment
				base := l.Next()
				write(12)
				if got := s.readAll(r, base, l.Next()); len(got) != 12 || got[0] != base {
					t.Fatalf("round %d: %v", round, got)
				}
				l.Settle(base, 12)
				s.syncTick()
			}
		})
	}
}
