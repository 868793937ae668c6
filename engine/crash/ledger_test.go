package crash

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Each row is a history that a broker could show, and the invariant it breaks.
func TestLedger(t *testing.T) {
	t.Parallel()
	const q = "q"
	id := messageID{publisher: 1, sequence: 7}
	strict := Rules{AckGrace: time.Hour, Flagged: true, Transactions: true}
	noGrace := Rules{AckGrace: -time.Hour, Flagged: true}
	publish := func(l *ledger) { l.publish([]string{q}, id, 10, true, sent) }
	confirmed := func(l *ledger) { publish(l); l.confirm([]string{q}, id) }
	cut := func(l *ledger) { l.cut(time.Now(), true) }
	deliver := func(l *ledger, redelivered bool) { l.deliver(q, id, redelivered, map[uint16]uint64{}) }
	ack := func(l *ledger) { l.acking(q, id); l.acked(q, false, id) }
	tests := []struct {
		name    string
		rules   Rules
		history func(l *ledger)
		want    string // empty: all is well
	}{
		{"confirmed and there", strict, func(l *ledger) { confirmed(l); cut(l); deliver(l, false); l.compare(q, []messageID{id}) }, ""},
		{"confirmed and lost", strict, func(l *ledger) { confirmed(l); cut(l); l.compare(q, nil) }, "invariant 1"},
		{"unconfirmed and lost", strict, func(l *ledger) { publish(l); cut(l); l.compare(q, nil) }, ""},
		{"unconfirmed, seen, then lost", strict, func(l *ledger) { publish(l); cut(l); deliver(l, false); cut(l); l.compare(q, nil) }, "invariant 1"},
		{"unconfirmed, lost, then back", strict, func(l *ledger) { publish(l); cut(l); l.compare(q, nil); deliver(l, false) }, "invariant 2"},
		{"seen in the page cache, then lost", strict, func(l *ledger) {
			publish(l)
			l.cut(time.Now(), false)
			deliver(l, false)
			cut(l)
			l.compare(q, nil)
		}, ""},
		{"missing in the page cache, then back", strict, func(l *ledger) {
			confirmed(l)
			deliver(l, false)
			ack(l)
			l.cut(time.Now(), false)
			l.compare(q, nil)
			cut(l)
			deliver(l, true)
		}, ""},
		{"acked long ago and back", noGrace, func(l *ledger) { confirmed(l); deliver(l, false); ack(l); cut(l); deliver(l, true) }, "invariant 2"},
		{"acked just now and back, flagged", strict, func(l *ledger) { confirmed(l); deliver(l, false); ack(l); cut(l); deliver(l, true) }, ""},
		{"acked just now and back, not flagged", strict, func(l *ledger) { confirmed(l); deliver(l, false); ack(l); cut(l); deliver(l, false) }, "invariant 3"},
		{"acked just now and gone", strict, func(l *ledger) { confirmed(l); deliver(l, false); ack(l); cut(l); l.compare(q, nil) }, ""},
		{"acked, gone at an audit, then back", strict, func(l *ledger) {
			confirmed(l)
			deliver(l, false)
			ack(l)
			cut(l)
			l.compare(q, nil)
			cut(l)
			deliver(l, true)
		}, "invariant 2"},
		{"acked, back, then lost", strict, func(l *ledger) {
			confirmed(l)
			deliver(l, false)
			ack(l)
			cut(l)
			deliver(l, true)
			cut(l)
			l.compare(q, nil)
		}, "invariant 1"},
		{"ack not answered", noGrace, func(l *ledger) { confirmed(l); deliver(l, false); l.acking(q, id); cut(l); deliver(l, true) }, ""},
		{"never published", strict, func(l *ledger) { deliver(l, false) }, "invariant 4"},
		{"in another queue", strict, func(l *ledger) { confirmed(l); l.deliver("r", id, false, map[uint16]uint64{}) }, "invariant 4"},
		{"not committed", strict, func(l *ledger) { l.publish([]string{q}, id, 1, true, staged); deliver(l, false) }, "invariant 4"},
		{"never committed", strict, func(l *ledger) { l.publish([]string{q}, id, 1, true, staged); cut(l); deliver(l, false) }, "invariant 2"},
		{"twice", strict, func(l *ledger) { confirmed(l); deliver(l, false); deliver(l, true) }, "invariant 5"},
		{"after its ack", strict, func(l *ledger) { confirmed(l); deliver(l, false); ack(l); deliver(l, true) }, "invariant 5"},
		{"given back and flagged", strict, func(l *ledger) { confirmed(l); deliver(l, false); l.giveBack(q, id); deliver(l, true) }, ""},
		{"given back and not flagged", strict, func(l *ledger) { confirmed(l); deliver(l, false); l.giveBack(q, id); deliver(l, false) }, "invariant 5"},
		{"from a connection that was stopped first", strict, func(l *ledger) { confirmed(l); deliver(l, false); l.stop(); deliver(l, true) }, ""},
		{"from a connection that reads it after the one that got it next", strict, func(l *ledger) { confirmed(l); l.stop(); deliver(l, true); l.giveBack(q, id); deliver(l, false) }, ""},
		{"not flagged while the broker stops", strict, func(l *ledger) { confirmed(l); deliver(l, false); l.giveBack(q, id); l.stop(); deliver(l, false) }, "invariant 5"},
		{"processed before the stop", strict, func(l *ledger) { confirmed(l); deliver(l, false); ack(l); l.stop(); deliver(l, true) }, "invariant 5"},
		{"out of order", strict, func(l *ledger) { confirmed(l); l.deliver(q, id, false, map[uint16]uint64{1: 8}) }, "invariant 6"},
		{"redelivered out of order", strict, func(l *ledger) { confirmed(l); l.deliver(q, id, true, map[uint16]uint64{1: 8}) }, ""},
		{"confirmed while the disk goes", strict, func(l *ledger) { publish(l); l.outage(false); l.confirm([]string{q}, id); cut(l); l.compare(q, nil) }, ""},
		{"confirmed without a disk", strict, func(l *ledger) { l.outage(false); l.outage(true); confirmed(l) }, "invariant 10"},
		{"acked without a disk", strict, func(l *ledger) {
			l.outage(false)
			l.outage(true)
			publish(l)
			ack(l)
			l.confirm([]string{q}, id)
		}, ""},
		{"transient and lost", strict, func(l *ledger) {
			l.publish([]string{q}, id, 10, false, sent)
			l.confirm([]string{q}, id)
			cut(l)
			l.compare(q, nil)
		}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			l := newLedger(test.rules)
			test.history(l)
			got := strings.Join(l.problems, "\n")
			if test.want == "" && got != "" || !strings.Contains(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestLedgerOfTransactions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name                     string
		publishes, acked, atomic bool // what the audit finds
		want                     string
	}{
		{"all", true, true, true, ""},
		{"nothing", false, false, true, ""},
		{"only the publishes", true, false, true, "invariant 7"},
		{"only the acks", false, true, true, "invariant 7"},
		{"only the acks, not promised", false, true, false, ""},
	} {
		for _, settled := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, settled %t", test.name, settled), func(t *testing.T) {
				t.Parallel()
				l := newLedger(Rules{AckGrace: time.Hour, Transactions: test.atomic})
				older, newer := messageID{1, 1}, messageID{1, 2}
				l.publish([]string{"a"}, older, 1, true, sent)
				l.confirm([]string{"a"}, older)
				l.deliver("a", older, false, map[uint16]uint64{})
				l.publish([]string{"b"}, newer, 1, true, staged)
				tx := &transaction{publishes: []place{{"b", newer}}, acks: []place{{"a", older}}}
				l.committing(tx)
				l.cut(time.Now(), settled)
				find := func(queue string, id messageID, there bool) {
					var ids []messageID
					if there {
						l.deliver(queue, id, true, map[uint16]uint64{})
						ids = append(ids, id)
					}
					l.compare(queue, ids)
				}
				find("a", older, !test.acked)
				find("b", newer, test.publishes)
				l.checkTransaction(tx)
				got := strings.Join(l.problems, "\n")
				if test.want == "" && got != "" || !strings.Contains(got, test.want) {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		}
	}
}

func TestUnconfirmed(t *testing.T) {
	t.Parallel()
	u := unconfirmed{first: 1}
	for n := range uint64(6) {
		u.add(messageID{1, n + 1})
	}
	for _, step := range []struct {
		tag      uint64
		multiple bool
		want     int // -1: error
	}{{3, false, 1}, {3, false, -1}, {2, true, 2}, {1, false, -1}, {9, false, -1}, {5, true, 2}, {6, false, 1}, {6, true, -1}} {
		ids, err := u.take(step.tag, step.multiple)
		if step.want < 0 {
			if err == nil {
				t.Errorf("tag %d multiple=%t: %v, want an error", step.tag, step.multiple, ids)
			}
		} else if err != nil || len(ids) != step.want {
			t.Errorf("tag %d multiple=%t: %v %v, want %d", step.tag, step.multiple, ids, err, step.want)
		}
	}
}

func TestChurnCheck(t *testing.T) {
	t.Parallel()
	declare := func(q string) operation { return operation{verb: "declare", queue: q} }
	answered := topology{"q:a": true, "x:e": true, "b:e>a": true}
	pending := []operation{declare("b"), {verb: "delete", queue: "a"}}
	for _, test := range []struct {
		name  string
		found topology
		ok    bool
	}{
		{"none of the pending", topology{"q:a": true, "x:e": true, "b:e>a": true}, true},
		{"the first", topology{"q:a": true, "q:b": true, "x:e": true, "b:e>a": true}, true},
		{"both", topology{"q:b": true, "x:e": true}, true},
		{"only the second", topology{"x:e": true}, false},
		{"a binding without its queue", topology{"q:b": true, "x:e": true, "b:e>a": true}, false},
		{"an exchange lost", topology{"q:a": true}, false},
	} {
		h := churner{answered: answered, pending: pending}
		if err := h.check(test.found); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
