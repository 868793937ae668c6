package segstore

import "testing"

// A crowd of logs may hold, on top of HeldBytes, what kept chunks leave of their
// bound; together they take no more than a few logs may.
func TestSpill_ACrowdHoldsWhatIsNotKept(t *testing.T) {
	t.Parallel()
	const bound = 1 << 20
	s := openTest(t, testOptions{journal: true, change: func(o *Options) { o.HeldBytes, o.tune.keptBytes = bound, bound }})
	defer s.close()
	var logs []*Log
	for id := range uint64(crowdLogs + 40) {
		logs = append(logs, s.log(id+1, false))
	}
	round := func() (held int64) {
		for _, l := range logs {
			s.appendN(l, 1, 1000)
			l.WantDurable()
		}
		s.urge()
		s.tick()
		return s.Stats().HeldBytes
	}
	most := int64(0)
	for range 40 {
		held, kept := round(), s.keptBytes.Load()
		if held+kept > 2*bound || kept > bound/2 {
			t.Fatalf("%d bytes held, %d kept", held, kept)
		}
		most = max(most, held)
	}
	if most <= bound {
		t.Errorf("a crowd held at most %d bytes", most)
	}
	for _, l := range logs[crowdLogs/2:] {
		if err := l.Delete(); err != nil {
			t.Fatal(err)
		}
	}
	logs = logs[:crowdLogs/2]
	for range 10 {
		if held := round(); held > bound {
			t.Fatalf("%d bytes held when there was no crowd any more", held)
		}
	}
}
