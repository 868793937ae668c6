package segstore

import (
	"fmt"
	"strings"
	"testing"
)

// In a cycle of many waves, who asks for durability meanwhile is served before
// the rest.
func TestStore_UrgentLogsPassBetweenWaves(t *testing.T) {
	const urgentID = 99
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.tune.waveLogs = 2 }})
	defer s.close()
	for id := range uint64(10) {
		s.appendN(s.log(id, false), 1, 16)
	}
	urgent := s.log(urgentID, false)
	s.appendN(urgent, 1, 16)
	s.tick()
	var order []string
	d.fail = func(what, p string) error {
		if what == "write" && strings.HasSuffix(p, segmentSuffix) {
			if len(order) == 0 {
				urgent.WantDurable()
			}
			order = append(order, p)
		}
		return nil
	}
	s.tick()
	at := -1
	for i, p := range order {
		if strings.Contains(p, fmt.Sprintf("%016x", urgentID)) {
			at = i
			break
		}
	}
	if at < 0 || at > 4 { // two logs with a header and an extent each come before
		t.Errorf("the urgent log was write %d of %d: %v", at, len(order), order)
	}
	if urgent.Durable() != 1 {
		t.Errorf("durable %d", urgent.Durable())
	}
}

// A log on several lists is visited once and stays on no list twice.
func TestStore_ListsHoldALogOnce(t *testing.T) {
	s := openTest(t, testOptions{change: func(o *Options) { o.tune.waveLogs = 1 }})
	defer s.close()
	l, other := s.log(1, false), s.log(2, false)
	for range 20 {
		s.appendN(l, 1, 16)
		s.appendN(other, 1, 16)
		l.WantDurable()
		l.Settle(l.Low(), 1)
		s.syncTick()
		for name, list := range map[string][]*Log{"dirty": s.dirty, "urgent": s.urgent, "slow": s.slow} {
			if len(list) > 2 {
				t.Fatalf("%d logs on the %s list", len(list), name)
			}
		}
	}
}

// A segment with more holes than its footer lists is looked through at the
// next start.
func TestRecovery_MoreHolesThanTheFooterLists(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d})
	l := s.log(1, false)
	for range segmentHolesMax + 10 {
		base := s.appendN(l, 1, 1)
		s.appendN(l, 1, 1)
		l.Settle(base, 1)
	}
	s.appendN(l, 1, 2<<20) // large enough for Close to seal it
	want := l.Unsettled()
	s.close()
	if err := d.Remove(l.path(settledName)); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, testOptions{disk: d})
	defer s.close()
	l = s.log(1, false)
	if seg := l.segments[0]; !seg.sealed || seg.holeCount != holesUnlisted {
		t.Fatalf("sealed %v, %d holes", seg.sealed, seg.holeCount)
	}
	if l.Unsettled() != want {
		t.Errorf("unsettled %d, want %d", l.Unsettled(), want)
	}
}

// An Append that succeeded before Close is in the file after it, and one that
// comes later says so.
func TestClose_RefusesWhatItCannotKeep(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d})
	l := s.log(1, false)
	s.appendN(l, 3, 16)
	var late error
	d.fail = func(what, p string) error {
		if what == "write" {
			b := NewBatch(s.arena)
			b.Reset(0)
			b.Add(b.Template(nil, nil, nil), nil)
			_, late = l.Append(b)
			b.Release()
		}
		return nil
	}
	s.close()
	if late != ErrClosed {
		t.Errorf("append during Close: %v", late)
	}
	d.revive()
	s = openTest(t, testOptions{disk: d})
	defer s.close()
	if l := s.log(1, false); l.Next() != 3 {
		t.Errorf("next %d", l.Next())
	}
}
