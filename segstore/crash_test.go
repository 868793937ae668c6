package segstore

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// crashScenario is a life that meets everything once: small batches, a by-pass,
// settling, transactions, meta records, spills and checkpoints. It
// returns what was promised when the power failed.
func crashScenario(t *testing.T, d *sim.Disk, options testOptions) (p promised) {
	options.disk = d
	s := openCrashing(options)
	if s == nil {
		return p
	}
	defer func() {
		p.note(s)
		s.Crash()
	}()
	var logs [3]*Log
	for i := range logs {
		l, err := s.OpenLog(uint64(i+1), LogOptions{})
		if err != nil {
			return p
		}
		logs[i] = l
		p.logs = append(p.logs, l)
	}
	batch := NewBatch(s.arena)
	defer batch.Release()
	fill := func(l *Log, n, size int) *Batch {
		batch.Reset(1)
		tm := batch.Template([]byte("exchange"), []byte("key"), nil)
		for i := range n {
			batch.Add(tm, bodyOf(l.Next()+uint64(i), size))
		}
		return batch
	}
	s.SetMetaCheckpoint(func() error { return nil })
	for round := range 6 {
		for i, l := range logs {
			_, _ = l.Append(fill(l, 2+i, 20+40*i))
			l.WantDurable()
		}
		s.cycle(pass{})
		p.note(s)
		if round%2 == 0 {
			_, _ = logs[2].Append(fill(logs[2], 4, 300))
			logs[2].WantDurable()
		}
		logs[0].Settle(logs[0].Next()-2, 1)
		s.cycle(pass{tick: true, step: true, sync: round%3 == 2})
		p.note(s)
		tx := []TxPart{{Log: logs[0], Batch: fill(logs[0], 1, 8)}, {Log: logs[1], First: uint64(3 * round), Count: 1}}
		if s.Commit(tx) == nil {
			p.txs = append(p.txs, promisedTx{tx[0].Base, uint64(3 * round), tx[0].Ticket})
		}
		s.AppendMeta(uint64(round+1), []byte("meta"))
		s.cycle(pass{step: true})
		p.note(s)
		select {
		case <-d.Crashed():
			return p
		default:
		}
	}
	return p
}

type promisedTx struct{ appended, settled, ticket uint64 }

type promised struct {
	logs    []*Log
	durable [3]uint64
	next    [3]uint64
	low     [3]uint64
	tx      uint64
	txs     []promisedTx
}

func (p *promised) note(s *Store) {
	for i, l := range p.logs {
		p.durable[i], p.next[i], p.low[i] = l.Durable(), l.Next(), l.Low()
	}
	p.tx = s.TxDurable()
}

func openCrashing(options testOptions) *Store {
	o := Options{Disk: options.disk, Arena: testArena, Logger: nil, SegmentBytes: options.segment, OnMeta: func(uint64, []byte) error { return nil },
		tune: tuning{manual: true, now: newFakeClock().Now}}
	options.change(&o)
	s, err := Open(o)
	if err != nil {
		return nil
	}
	return s
}

// TestCrash_AtEveryOperation cuts the power, and kills, at every operation of
// crashScenario, reopens (with another crash in the middle of that for some)
// and checks the promises.
func TestCrash_AtEveryOperation(t *testing.T) {
	options := testOptions{segment: 1 << 10, change: func(o *Options) {
		smallLimits(o)
		o.JournalBytes, o.HeldBytes = 2<<10, 8<<10
		o.tune.bypassBytes, o.tune.carryBytes = 1000, 300
	}}
	seeds := uint64(6)
	if testing.Short() {
		seeds = 1
	}
	d := sim.New(sim.Options{Seed: 1})
	crashScenario(t, d, options)
	operations := d.Changes()
	if operations < 100 {
		t.Fatalf("the scenario has %d operations", operations)
	}
	for n := int64(1); n <= operations; n++ {
		for seed := range seeds {
			d := sim.New(sim.Options{Seed: seed*1000 + uint64(n)})
			d.CrashAfter(n)
			p := crashScenario(t, d, options)
			name := fmt.Sprintf("operation %d of %d, seed %d", n, operations, seed)
			if seed%2 == 0 {
				d = d.PowerCut()
			} else {
				d = d.Kill()
			}
			if seed%3 == 2 { // recovery is cut too
				d.CrashAfter(1 + n%17)
				options.disk = d
				if s := openCrashing(options); s != nil {
					s.Crash()
				}
				d = d.PowerCut()
			}
			checkPromises(t, name, d, options, &p)
			if t.Failed() {
				return
			}
		}
	}
}

func checkPromises(t *testing.T, name string, d disk.Disk, options testOptions, p *promised) {
	t.Helper()
	options.disk, options.journal = d, true
	s := openTest(t, testOptions{disk: d, segment: options.segment, journal: true, change: func(o *Options) {
		options.change(o)
		o.OnMeta = func(uint64, []byte) error { return nil }
	}})
	s.SetMetaCheckpoint(func() error { return nil })
	defer s.close()
	found := [3]map[uint64]bool{}
	for i := range found {
		l := s.log(uint64(i+1), false)
		if l.Next() > p.next[i] {
			t.Errorf("%s: log %d: next %d, was %d", name, i+1, l.Next(), p.next[i])
		}
		if l.Next() < p.durable[i] && p.low[i] < p.durable[i] {
			t.Errorf("%s: log %d: next %d, durable %d", name, i+1, l.Next(), p.durable[i])
		}
		found[i] = map[uint64]bool{}
		r := l.NewReader()
		for _, o := range s.readAll(r, 0, l.Next()) {
			found[i][o] = !l.isSettled(o, o+1)
		}
		r.Close()
		for o := range l.Next() {
			if !l.isSettled(o, o+1) && !found[i][o] {
				t.Errorf("%s: log %d: record %d is neither there nor settled", name, i+1, o)
			}
		}
	}
	for o := range p.durable[2] { // log 3 settles nothing
		if !found[2][o] {
			t.Errorf("%s: log 3: durable record %d is gone; durable %d", name, o, p.durable[2])
		}
	}
	for _, tx := range p.txs {
		appended, settled := found[0][tx.appended], tx.settled < s.log2().Next() && !found[1][tx.settled]
		if tx.ticket <= p.tx && (!appended || !settled) {
			t.Errorf("%s: durable transaction %d: appended %v, settled %v", name, tx.ticket, appended, settled)
		}
		if appended && !settled {
			t.Errorf("%s: transaction %d happened in part", name, tx.ticket)
		}
	}
}

func (s *testStore) log2() *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[2]
}
