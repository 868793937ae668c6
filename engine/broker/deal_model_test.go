package broker

import "slices"

// dealModel is what the models of queues have in common: of several consumers that
// can take, the one that has waited longest gets the next message, always. It hears
// of each deal; the model then goes through them one by one (replay).
type dealModel struct {
	turns  []*Consumer // who take turns, the next one first
	out    map[*Consumer]bool
	room   map[*Consumer]uint64
	shares map[*Consumer][]uint64
	taking *Consumer // has fetched its share meanwhile
	events []dealEvent
}

type dealEvent struct {
	step   dealStep
	offset uint64
	of     *Queue
	c      *Consumer
}

func (d *dealModel) watch(q *Queue, step dealStep, run Run, c *Consumer) {
	if step == stepExpelled {
		d.events = append(d.events, dealEvent{step: step, c: c})
		return
	}
	c = q.ring
	for i := range run.Count {
		e := dealEvent{step: step, offset: run.offset(i), of: run.Queue}
		if step == stepDealt {
			e.c, c = c, c.next
		}
		d.events = append(d.events, e)
	}
}

func (d *dealModel) forget() { *d = dealModel{} }

func (d *dealModel) enter(c *Consumer) {
	if !c.attached || c.able {
		return
	}
	d.set(c, 1)
	delete(d.out, c)
	d.turns = append(d.turns, c)
}

func (d *dealModel) set(c *Consumer, room uint64) {
	if d.room == nil {
		d.room, d.shares, d.out = map[*Consumer]uint64{}, map[*Consumer][]uint64{}, map[*Consumer]bool{}
	}
	d.room[c] = room
}

func (d *dealModel) leave(c *Consumer) {
	delete(d.out, c)
	d.turns = slices.DeleteFunc(d.turns, func(o *Consumer) bool { return o == c })
}

func (d *dealModel) alone(c *Consumer) bool { return len(d.turns) == 1 && d.turns[0] == c }

// takes is the beginning of a Take, before the queue does it.
func (d *dealModel) takes(c *Consumer, limit uint64) {
	if d.out[c] {
		delete(d.out, c)
		d.turns = append(d.turns, c)
	}
	d.set(c, limit-min(limit, uint64(len(d.shares[c]))))
}

// took checks that a run is the beginning of the consumer's share, and ends that.
func (d *dealModel) took(t tb, c *Consumer, run Run) {
	t.Helper()
	share := d.shares[c]
	for i := range run.Count {
		if uint64(len(share)) <= i || share[i] != run.offset(i) {
			t.Fatalf("%s took %+v of its share %d", c.Tag, run, share)
		}
	}
	d.shares[c] = share[run.Count:]
}

// replay goes through what has happened. pop takes a message that must be the next
// one, back makes one available again.
func (d *dealModel) replay(t tb, pop func(offset uint64) bool, back func(offset uint64)) {
	t.Helper()
	for _, e := range d.events {
		switch e.step {
		case stepDealt:
			if len(d.turns) < 2 || d.turns[0] != e.c {
				t.Fatalf("%d went to %s out of turn", e.offset, e.c.Tag)
			}
			if !pop(e.offset) {
				t.Fatalf("%d went to %s before others", e.offset, e.c.Tag)
			}
			if d.room[e.c] == 0 {
				t.Fatalf("%d went to %s, which has no room", e.offset, e.c.Tag)
			}
			d.room[e.c]--
			d.shares[e.c] = append(d.shares[e.c], e.offset)
			d.turns = append(d.turns[1:], e.c)
		case stepUnsent:
			for c, share := range d.shares {
				d.shares[c] = slices.DeleteFunc(share, func(o uint64) bool { return o == e.offset })
			}
			back(e.offset)
		case stepExpelled:
			if d.room[e.c] > 0 || len(d.shares[e.c]) > 0 && d.taking != e.c || d.turns[0] != e.c {
				t.Fatalf("%s was passed over; it has room for %d and a share of %d", e.c.Tag, d.room[e.c], len(d.shares[e.c]))
			}
			d.leave(e.c)
			d.out[e.c] = true
		}
	}
	d.events = d.events[:0]
}

// idle looks for messages that wait although somebody can take them now.
func (d *dealModel) idle(t tb, q *Queue, ready int) {
	t.Helper()
	pending := false
	for c, share := range d.shares {
		if len(share) == 0 {
			continue
		}
		if pending = true; !owner(c).isTold() {
			t.Fatalf("%s was not told of its share", c.Tag)
		}
	}
	switch {
	case ready == 0 || len(d.turns) == 0:
	case len(d.turns) == 1 && (q.woken != d.turns[0] || !owner(q.woken).isTold()):
		t.Fatal("messages wait beside an idle consumer (invariant 3)")
	case len(d.turns) > 1 && !pending:
		t.Fatal("messages wait beside idle consumers (invariant 3)")
	}
}
