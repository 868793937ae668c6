package histories

import (
	"strings"
	"testing"
)

func records(serials ...uint64) (list []Record) {
	for _, s := range serials {
		list = append(list, Record{Serial: s})
	}
	return list
}

// found makes a Found from a string with a letter for each offset: u unsettled,
// s settled.
func found(offsets string) Found {
	f := Found{Next: uint64(len(offsets)), Durable: uint64(len(offsets))}
	for _, c := range offsets {
		f.Unsettled = append(f.Unsettled, c == 'u')
	}
	return f
}

// TestLogModel_NamesTheBrokenPromise: the model is only worth something if it
// objects. Each case is a log of four records, some durable, the first settled.
func TestLogModel_NamesTheBrokenPromise(t *testing.T) {
	for _, c := range []struct {
		name    string
		durable uint64
		rested  Loss
		stop    Loss
		found   string
		broken  string
	}{
		{"all there after a clean stop", 0, LossNone, LossNone, "suuu", ""},
		{"lost after a clean stop", 0, LossNone, LossNone, "suus", "promise 4"},
		{"cut off after a clean stop", 0, LossNone, LossNone, "suu", "promise 4"},
		{"back after a clean stop", 0, LossNone, LossNone, "uuuu", "promise 4"},
		{"nothing was durable at a power cut", 0, LossNone, LossPower, "", ""},
		{"a durable record lost at a power cut", 2, LossNone, LossPower, "s", "promise 3"},
		{"a durable record hidden at a power cut", 2, LossNone, LossPower, "ssuu", "promise 3"},
		{"a durable record kept", 2, LossNone, LossPower, "su", ""},
		{"an ack lost at a power cut", 2, LossNone, LossPower, "uu", ""},
		{"an old ack lost at a power cut", 2, LossPower, LossPower, "uuuu", "promise 5"},
		{"an old record lost at a kill", 0, LossKill, LossKill, "suu", "promise 3"},
		{"an old record lost at a power cut", 0, LossKill, LossPower, "suu", ""},
		{"records from nowhere", 0, LossNone, LossKill, "suuuu", "promise 6"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := NewLogModel(1, false)
			m.Append(records(1, 2, 3, 4))
			m.Settle(0, 1)
			if err := m.ObserveDurable(c.durable, LossPower); err != nil {
				t.Fatal(err)
			}
			m.Rested(c.rested)
			m.Stop(c.stop)
			f := found(c.found)
			err := m.Expect(f.Next)
			if err == nil {
				err = m.Adopt(f, false)
			}
			check(t, err, c.broken)
		})
	}
}

func check(t *testing.T, err error, broken string) {
	t.Helper()
	switch {
	case err == nil && broken != "":
		t.Fatalf("no objection, want %s", broken)
	case err != nil && (broken == "" || !strings.Contains(err.Error(), broken)):
		t.Fatalf("%v, want %q", err, broken)
	}
}

// TestLogModel_DurableAndFenced: Durable only rises, and not once fenced.
func TestLogModel_DurableAndFenced(t *testing.T) {
	m := NewLogModel(1, false)
	m.Append(records(1, 2, 3))
	check(t, m.ObserveDurable(2, LossPower), "")
	check(t, m.ObserveDurable(1, LossPower), "promise 2")
	check(t, m.ObserveDurable(4, LossPower), "promise 2")
	m.ObserveFenced()
	check(t, m.ObserveDurable(2, LossPower), "")
	check(t, m.ObserveDurable(3, LossPower), "promise 2")
}

// TestTransactions_ComeApart: records and settlements of one transaction share
// their fate.
func TestTransactions_ComeApart(t *testing.T) {
	for _, c := range []struct{ name, a, b, broken string }{
		{"neither", "uu", "", ""},
		{"both", "us", "u", ""},
		{"the record without the settlement", "uu", "u", "promise 10"},
		{"the settlement without the record", "us", "", "promise 10"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, b := NewLogModel(1, false), NewLogModel(2, false)
			logs := func(id uint64) *LogModel { return map[uint64]*LogModel{1: a, 2: b}[id] }
			a.Append(records(1, 2))
			check(t, a.ObserveDurable(2, LossPower), "")
			var x Transactions
			a.Settle(1, 1)
			b.Append(records(3))
			x.Add(1, []Piece{{2, 0, 3}}, []Piece{{1, 1, 2}})
			a.Stop(LossPower)
			b.Stop(LossPower)
			x.Stop()
			check(t, a.Adopt(found(c.a), false), "")
			check(t, b.Adopt(found(c.b), false), "")
			check(t, x.Adopted(logs), c.broken)
		})
	}
}

// TestTransactions_OneLogStaysClosed: a record that is settled after a stop that may
// have cost it proves nothing, not after a later stop either.
func TestTransactions_OneLogStaysClosed(t *testing.T) {
	for durable, broken := range map[uint64]string{0: "", 2: "promise 10"} {
		a, b := NewLogModel(1, false), NewLogModel(2, false)
		a.Append(records(1, 2))
		check(t, a.ObserveDurable(durable, LossPower), "")
		var x Transactions
		a.Settle(1, 1)
		b.Append(records(3))
		x.Add(1, []Piece{{2, 0, 3}}, []Piece{{1, 1, 2}})
		a.Stop(LossKill)
		b.Stop(LossKill)
		x.Stop()
		check(t, a.Adopt(found("us"), false), "")
		check(t, x.Adopted(func(id uint64) *LogModel { return map[uint64]*LogModel{1: a}[id] }), "")
		a.Stop(LossNone)
		x.Stop()
		check(t, a.Adopt(found("us"), false), "")
		check(t, b.Adopt(found(""), false), "")
		check(t, x.Adopted(func(id uint64) *LogModel { return map[uint64]*LogModel{1: a, 2: b}[id] }), broken)
	}
}

// TestMetaModel_Adopt: in order, without gaps, nothing durable missing.
func TestMetaModel_Adopt(t *testing.T) {
	for _, c := range []struct {
		name      string
		durable   uint64
		elsewhere uint64
		found     []uint64
		broken    string
	}{
		{"all", 2, 0, []uint64{1, 2, 3}, ""},
		{"the durable ones", 2, 0, []uint64{1, 2}, ""},
		{"one durable is lost", 2, 0, []uint64{1}, "is lost"},
		{"a gap", 0, 0, []uint64{1, 3}, "missing"},
		{"taken over", 2, 2, []uint64{3}, ""},
		{"taken over and still there", 2, 2, []uint64{2}, ""},
		{"out of order", 0, 0, []uint64{2, 1}, "promise 11"},
		{"twice", 0, 0, []uint64{1, 1}, "promise 11"},
		{"from nowhere", 0, 0, []uint64{1, 2, 3, 4}, "promise 11"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m MetaModel
			for range 3 {
				m.Append([]byte{1})
			}
			check(t, m.ObserveDurable(c.durable, LossPower), "")
			m.TookOver(c.elsewhere)
			m.Stop(LossPower)
			var list []MetaRecord
			for _, seq := range c.found {
				list = append(list, MetaRecord{seq, []byte{1}})
			}
			check(t, m.Adopt(list), c.broken)
		})
	}
}

// TestModel_Skip: a log that leaves out offsets after a crash must do so, and
// must not leave out any that survived.
func TestModel_Skip(t *testing.T) {
	stopped := func(survives Loss) *LogModel {
		m := NewLogModel(1, false)
		m.Append(make([]Record, 3))
		m.Records[2].Serial, m.Records[2].survives = 9, survives
		m.Skip = 10
		m.Stop(LossKill)
		return m
	}
	for _, c := range []struct {
		next     uint64
		survives Loss
		ok       bool
	}{{13, LossPower, true}, {12, LossNone, true}, {12, LossPower, false}, {9, LossNone, false}, {14, LossNone, false}} {
		if err := stopped(c.survives).Expect(c.next); (err == nil) != c.ok {
			t.Errorf("next %d, the last record survives %s: %v", c.next, c.survives, err)
		}
	}
}
