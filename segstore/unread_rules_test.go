package segstore

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
)

// TestLog_UnreadIsDeleted: an operator who gives up a log that cannot be read gets
// rid of all of it, also of what the journal has.
func TestLog_UnreadIsDeleted(t *testing.T) {
	for _, how := range []string{"at once", "kept", "after a restart"} {
		d, has := unreadDisk(t, false)
		small := func(o *Options) { o.JournalBytes = 8 << 10 }
		d.breakLog("read", segmentName(0))
		s := openTest(t, testOptions{disk: d, journal: true, change: small})
		l, other := s.log(1, false), s.log(2, false)
		switch how {
		case "kept":
			s.turnJournals(other)
		case "after a restart":
			s.turnJournals(other)
			s.crash()
			d.revive()
			d.breakLog("read", segmentName(0))
			s = openTest(t, testOptions{disk: d, journal: true, change: small})
			l, other = s.log(1, false), s.log(2, false)
		}
		if how != "at once" && len(s.journal.w.KeptLogs()) == 0 {
			t.Fatalf("%s: nothing is kept", how)
		}
		if err := l.Delete(); err != nil {
			t.Fatal(err)
		}
		s.urge()
		if st := s.Stats(); st.FencedLogs != 0 || st.UnreadLogs != 0 || d.find(l.dir()) != nil || len(s.journal.w.KeptLogs()) != 0 {
			t.Errorf("%s: %+v, kept %v", how, st, s.journal.w.KeptLogs())
		}
		if err := l.Reread(); !errors.Is(err, ErrDeleted) {
			t.Errorf("%s: Reread: %v", how, err)
		}
		if other.Next() < has.next {
			t.Errorf("%s: the other log: next %d", how, other.Next())
		}
		s.crash()
		d.revive()
		s = openTest(t, testOptions{disk: d, journal: true})
		if l := s.log(1, false); l.Next() != 0 || l.Unread() != nil {
			t.Errorf("%s: it is back: next %d, %v", how, l.Next(), l.Unread())
		}
		s.close()
	}
}

// TestLog_UnreadBelongsToNobody: it stays where it is, and is listed.
func TestLog_UnreadBelongsToNobody(t *testing.T) {
	d, has := unreadDisk(t, false)
	d.breakLog("open", settledName)
	s := openTest(t, testOptions{disk: d, journal: true})
	if err := s.Quarantine(1); !errors.Is(err, ErrUnread) {
		t.Errorf("Quarantine: %v", err)
	}
	if ids, err := s.ListLogs(); err != nil || !slices.Equal(ids, []uint64{1, 2}) {
		t.Errorf("logs %v, %v", ids, err)
	}
	s.crash()
	d.revive()
	s = openTest(t, testOptions{disk: d, journal: true})
	defer s.close()
	s.checkRead(s.log(1, false), has)
}

// TestLog_UnreadStreamLeavesOutOffsets: those that a retained log skips after a
// crash are skipped when it is read.
func TestLog_UnreadStreamLeavesOutOffsets(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d})
	l := s.log(1, false)
	s.appendN(l, 3, 10)
	l.WantDurable()
	s.urge()
	s.crash()
	d.revive()
	d.breakLog("readdir", "1")
	s = openTest(t, testOptions{disk: d})
	defer s.close()
	l, err := s.OpenLog(1, LogOptions{Retained: &RetainedOptions{Skip: 1000}})
	if err != nil || l.Unread() == nil || l.Next() != 0 {
		t.Fatalf("%v, %v, next %d", err, l.Unread(), l.Next())
	}
	d.mend()
	if err := l.Reread(); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	if l.Next() != 1003 || l.Unsettled() != 3 {
		t.Errorf("next %d, %d unsettled", l.Next(), l.Unsettled())
	}
	if at := s.appendN(l, 1, 10); at != 1003 {
		t.Errorf("appended at %d", at)
	}
}

// TestLog_WithheldIsOpenedAgain: what its owner could not use is complete.
func TestLog_WithheldIsOpenedAgain(t *testing.T) {
	d, has := unreadDisk(t, false)
	s := openTest(t, testOptions{disk: d, journal: true})
	defer s.close()
	l := s.log(1, false)
	l.Withhold(errBroken)
	l.Withhold(errors.New("another reason"))
	if l.Err() != errBroken || l.Unread() != nil || s.Stats().FencedLogs != 1 {
		t.Fatalf("%v, %v, %+v", l.Err(), l.Unread(), s.Stats())
	}
	s.mendLog("withheld", l, has)
}

// TestOpen_HeadlessSegmentIsNotSetAsideOfAnUnreadLog: its name is all that tells
// which offsets were in use.
func TestOpen_HeadlessSegmentIsNotSetAsideOfAnUnreadLog(t *testing.T) {
	d, _ := unreadDisk(t, true)
	name := ""
	for file := range d.contents("logs/0000000000000001") {
		if strings.HasSuffix(file, segmentSuffix) {
			name = max(name, file)
		}
	}
	node := d.find("logs/0000000000000001/" + name)
	copy(node.data, bytes.Repeat([]byte{0xFF}, segmentHeaderBytes))
	d.breakLog("read", settledName)
	s := openTest(t, testOptions{disk: d, journal: true})
	if l := s.log(1, false); l.Unread() == nil || d.find("logs/0000000000000001/"+name) != node {
		t.Errorf("%v; %v", l.Unread(), s.lines.all())
	}
	s.crash()
	d.revive()
	s = openTest(t, testOptions{disk: d, journal: true})
	defer s.close()
	if l := s.log(1, false); l.Unread() != nil || d.find("logs/0000000000000001/"+name) != nil {
		t.Errorf("%v; %v", l.Unread(), s.lines.all())
	}
}
