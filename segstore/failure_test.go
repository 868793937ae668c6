package segstore

import (
	"errors"
	"strings"
	"testing"
)

func TestLog_DeleteDropsEverything(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d})
	defer s.close()
	l, other := s.log(1, false), s.log(2, false)
	s.appendN(l, 100, 100)
	s.appendN(other, 1, 1)
	l.WantDurable()
	s.urge()
	r := l.NewReader()
	defer r.Close()
	if err := r.Seek(3, nil); err != nil {
		t.Fatal(err)
	}
	var rec Record
	r.Next(&rec)
	if err := l.Delete(); err != nil {
		t.Fatal(err)
	}
	if string(rec.Body) != string(bodyOf(3, 100)) {
		t.Error("a pinned record changed")
	}
	b := NewBatch(s.arena)
	defer b.Release()
	if _, err := l.Append(b); !errors.Is(err, ErrDeleted) {
		t.Errorf("append: %v", err)
	}
	if err := r.Seek(3000, nil); !errors.Is(err, ErrDeleted) {
		t.Errorf("seek: %v", err)
	}
	if err := l.Delete(); !errors.Is(err, ErrDeleted) {
		t.Errorf("second delete: %v", err)
	}
	if _, err := s.OpenLog(1, LogOptions{}); err == nil {
		t.Error("the id was free before its directory was gone")
	}
	l.Settle(0, 10)
	l.WantDurable()
	s.urge()
	if d.find(l.dir()) != nil || d.find(trashDir) != nil {
		t.Error("the directory is still there")
	}
	if l := s.log(1, false); l.Next() != 0 {
		t.Errorf("next %d of a new log", l.Next())
	}
}

func TestStore_AFailedWriteFencesOneLog(t *testing.T) {
	broken := errors.New("input/output error")
	for _, what := range []string{"write", "sync", "create", "syncdir", "mkdir", "open"} {
		t.Run(what, func(t *testing.T) {
			d := newMemDisk()
			commits := 0
			s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.OnCommit = func() { commits++ } }})
			bad, good := s.log(1, false), s.log(2, false)
			d.fail = func(kind, p string) error {
				if kind == what && strings.Contains(p, "0000000000000001") {
					return broken
				}
				return nil
			}
			for _, l := range []*Log{bad, good} {
				s.appendN(l, 5, 10)
				l.WantDurable()
			}
			s.urge()
			if good.Durable() != 5 || good.Err() != nil {
				t.Errorf("the healthy log: durable %d, %v", good.Durable(), good.Err())
			}
			if bad.Durable() != 0 || !errors.Is(bad.Err(), broken) || commits != 1 {
				t.Errorf("the broken log: durable %d, %v, %d commits", bad.Durable(), bad.Err(), commits)
			}
			b := NewBatch(s.arena)
			defer b.Release()
			if _, err := bad.Append(b); !errors.Is(err, broken) {
				t.Errorf("append: %v", err)
			}
			lines := s.lines.all()
			if len(lines) != 1 || !strings.Contains(lines[0], "fenced") || !strings.Contains(lines[0], "logs/0000000000000001") {
				t.Errorf("log lines: %v", lines)
			}
			r := bad.NewReader()
			if got := s.readAll(r, 0, 5); len(got) != 5 {
				t.Errorf("readable after the failure: %v", got)
			}
			r.Close()
			bad.WantDurable()
			s.urge()
			if commits != 2 {
				t.Error("who waits for a fenced log is not told")
			}
			bad.Settle(0, 5)
			s.tick()
			if st := s.Stats(); st.FencedLogs != 1 || st.UnwrittenBytes != 0 {
				t.Errorf("%+v", st)
			}
			d.mu.Lock()
			d.fail = nil
			d.mu.Unlock()
			if err := s.Close(); !errors.Is(err, broken) {
				t.Errorf("close: %v", err)
			}
			s.checkEmpty()
		})
	}
}
