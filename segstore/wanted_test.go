package segstore

import "testing"

// A batch that asks for durability gets it from the next round, with or without the
// journal, without a tick and without WantDurable; a log that takes others as well
// is looked at by the ticks as before.
func TestBatch_WantDurable(t *testing.T) {
	for _, journal := range []bool{true, false} {
		s := openTest(t, testOptions{journal: journal})
		l, other := s.log(1, false), s.log(2, true)
		b := NewBatch(s.arena)
		add := func(to *Log, wanted bool) uint64 {
			b.Reset(1)
			b.Add(b.Template(nil, benchKey, nil), benchBody)
			if wanted {
				b.WantDurable()
			}
			base, err := to.Append(b)
			if err != nil {
				t.Fatal(err)
			}
			return base + 1
		}
		for range 3 {
			end := add(l, true)
			lists := l.lists.Load()
			if l.WantDurable(); lists&(listUrgent|listDirty) != listUrgent || l.lists.Load() != lists {
				t.Errorf("on lists %b, after WantDurable on %b; want the urgent one, and not the dirty one", lists, l.lists.Load())
			}
			if s.urge(); l.Durable() != end {
				t.Errorf("durable up to %d, want %d", l.Durable(), end)
			}
			// Reset has forgotten it: the next waits for its ticks.
			end = add(l, false)
			if s.urge(); l.Durable() >= end {
				t.Errorf("durable up to %d without being asked", l.Durable())
			}
			l.WantDurable()
			if s.urge(); l.Durable() != end {
				t.Errorf("durable up to %d, want %d", l.Durable(), end)
			}
			add(l, false)
			s.tick()
			s.tick()
			if l.unwritten != 0 {
				t.Errorf("%d bytes are unwritten after two ticks", l.unwritten)
			}
		}
		// A transient log has nothing to promise.
		if add(other, true); other.lists.Load() != listDirty {
			t.Errorf("a transient log is on lists %b", other.lists.Load())
		}
		b.Release()
		s.close()
	}
}

// What a wanted batch leaves behind when it is settled goes without a list of its own.
func TestBatch_WantDurable_TailIsReleased(t *testing.T) {
	s := openTest(t, testOptions{journal: true})
	l := s.log(1, false)
	b := NewBatch(s.arena)
	b.Reset(1)
	b.Add(b.Template(nil, benchKey, nil), benchBody)
	b.WantDurable()
	if _, err := l.Append(b); err != nil {
		t.Fatal(err)
	}
	s.urge()
	l.Settle(0, 1)
	for range 3 {
		s.tick()
	}
	if n := s.Stats().ResidentBytes; n != 0 {
		t.Errorf("%d bytes are resident of a settled log", n)
	}
	b.Release()
	s.close()
}
