package broker

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// crowdModel says who is served next: the members of each ring in turn, the
// highest ring first, and with a single active consumer nobody else.
type crowdModel struct {
	e        *env
	q        *Queue
	single   bool
	paused   bool
	all      []*Consumer
	attached []*Consumer // in order
	able     map[*Consumer]bool
	active   *Consumer
	rings    map[int64][]*Consumer
	out      map[*Consumer]bool // passed over
	blocked  map[*Consumer]bool
	taking   *Consumer // has fetched its share meanwhile
	room     map[*Consumer]uint64
	shares   map[*Consumer][]uint64
	ready    []uint64 // ascending
	came     map[uint64]bool
	end      uint64
	deals    dealModel // its events only
	unacked  []Run
}

func (m *crowdModel) top() []*Consumer {
	for p := int64(2); p >= -2; p-- {
		if len(m.rings[p]) > 0 {
			return m.rings[p]
		}
	}
	return nil
}

func (m *crowdModel) join(c *Consumer) {
	if !m.paused && m.able[c] && (!m.single || m.active == c) && !slices.Contains(m.rings[c.Priority], c) {
		m.rings[c.Priority] = append(m.rings[c.Priority], c)
	}
}

func (m *crowdModel) part(c *Consumer) {
	delete(m.able, c)
	delete(m.out, c)
	m.rings[c.Priority] = slices.DeleteFunc(m.rings[c.Priority], func(o *Consumer) bool { return o == c })
}

func (m *crowdModel) attach(t *rapid.T) {
	c := rapid.SampledFrom(m.all).Draw(t, "consumer")
	if c.attached {
		return
	}
	if err := m.q.Attach(c); err != nil {
		t.Fatal(err)
	}
	m.attached = append(m.attached, c)
	if m.active == nil {
		m.active = c
	}
}

func (m *crowdModel) detach(t *rapid.T) {
	c := rapid.SampledFrom(m.all).Draw(t, "consumer")
	owner(c).setTold(false)
	m.q.Detach(c)
	m.part(c)
	m.attached = slices.DeleteFunc(m.attached, func(o *Consumer) bool { return o == c })
	if m.active != c {
		return
	}
	m.active = nil
	for _, o := range m.attached {
		if m.active == nil || o.Priority > m.active.Priority {
			m.active = o
		}
	}
	if m.active != nil {
		m.join(m.active)
	}
}

func (m *crowdModel) enter(t *rapid.T) {
	c := rapid.SampledFrom(m.all).Draw(t, "consumer")
	if m.q.Enter(c) {
		owner(c).setTold(true)
	}
	if c.attached && !m.able[c] {
		m.able[c], m.room[c], m.blocked[c] = true, 1, false
		delete(m.out, c)
		m.join(c)
	}
}

// pause pauses the queue or lets it go on: nobody is served in between.
func (m *crowdModel) pause(t *rapid.T) {
	if m.paused = rapid.Bool().Draw(t, "paused"); m.paused {
		m.rings = map[int64][]*Consumer{}
		for _, c := range m.all {
			owner(c).setTold(false)
		}
	}
	if _, err := m.e.vh.PauseQueue(m.q, m.paused); err != nil {
		t.Fatal(err)
	}
	for _, c := range m.attached {
		m.join(c)
	}
}

func (m *crowdModel) leave(t *rapid.T) {
	c := rapid.SampledFrom(m.all).Draw(t, "consumer")
	owner(c).setTold(false)
	m.q.Leave(c)
	m.part(c)
}

// stall is for a consumer whose connection cannot send: others wait for it as long
// as its share is not large, and without others it leaves.
func (m *crowdModel) stall(t *rapid.T) {
	c := rapid.SampledFrom(m.all).Draw(t, "consumer")
	blocked := rapid.Bool().Draw(t, "blocked")
	stays := len(m.top()) > 1 && slices.Contains(m.top(), c)
	m.blocked[c] = stays && blocked
	if !stays {
		owner(c).setTold(false)
	}
	if m.q.Stall(c, blocked) == stays {
		t.Fatalf("%s: it stays: %v", c.Tag, stays)
	}
	if !stays {
		m.part(c)
	}
}

func (m *crowdModel) publish(t *rapid.T) {
	n := rapid.IntRange(1, 9).Draw(t, "count")
	if rapid.IntRange(0, 30).Draw(t, "many") == 30 {
		n = 3*shareMax + 100
	}
	m.e.publish(m.q, slices.Repeat([]string{"m"}, n)...)
	for range n {
		m.ready = append(m.ready, m.end)
		m.end++
	}
}

// take lets somebody try; it gets its share, or what it likes if it is alone.
func (m *crowdModel) take(t *rapid.T) {
	c := rapid.SampledFrom(m.all).Draw(t, "consumer")
	if rapid.Bool().Draw(t, "in turn") && len(m.top()) > 0 {
		c = m.top()[0]
	}
	limit := rapid.Uint64Range(1, 2*shareMax).Draw(t, "limit")
	m.blocked[c] = false
	if m.out[c] {
		delete(m.out, c)
		m.able[c] = true
		m.join(c)
	}
	m.room[c] = limit - min(limit, uint64(len(m.shares[c])))
	run, more := m.q.Take(c, limit, 0)
	owner(c).setTold(more)
	m.taking = c
	m.follow(t)
	m.taking = nil
	switch share := m.shares[c]; {
	case run.Count == 0 && len(share) > 0 && !more:
		t.Fatalf("%s did not get its share of %d", c.Tag, len(share))
	case run.Count == 0 && len(m.top()) == 1 && m.top()[0] == c && len(m.ready) > 0 && !more:
		t.Fatalf("%s, which is alone, gets nothing", c.Tag)
	case run.Count == 0:
		return
	case len(share) > 0:
		m.shares[c] = m.takeFrom(t, c, run, share)
	case len(m.top()) == 1 && m.top()[0] == c:
		m.ready = m.takeFrom(t, c, run, m.ready)
		m.room[c] = limit - run.Count
	default:
		t.Fatalf("%s took %+v out of turn", c.Tag, run)
	}
	m.unacked = append(m.unacked, run)
}

func (m *crowdModel) takeFrom(t *rapid.T, c *Consumer, run Run, list []uint64) (rest []uint64) {
	for i := range run.Count {
		if uint64(len(list)) <= i || list[i] != run.offset(i) || m.came[list[i]] != run.Redelivered {
			t.Fatalf("%s took %+v of %d", c.Tag, run, list)
		}
	}
	return list[run.Count:]
}

func (m *crowdModel) giveBack(t *rapid.T) {
	if len(m.unacked) == 0 {
		return
	}
	run := m.unacked[len(m.unacked)-1]
	m.unacked = m.unacked[:len(m.unacked)-1]
	switch rapid.IntRange(0, 3).Draw(t, "how") {
	case 0:
		m.q.Requeue(run)
		for i := range run.Count {
			m.came[run.offset(i)] = true
			m.available(run.offset(i))
		}
	case 1:
		m.q.Return(run) // of which follow hears
	default:
		m.q.SettleRun(run, 0)
	}
}

func (m *crowdModel) available(offset uint64) {
	if i, found := slices.BinarySearch(m.ready, offset); !found {
		m.ready = slices.Insert(m.ready, i, offset)
	}
}

// follow goes through what was dealt: always to the first of the highest ring, which
// then is the last, and always the first message.
func (m *crowdModel) follow(t *rapid.T) {
	for _, e := range m.deals.events {
		top := m.top()
		switch e.step {
		case stepDealt:
			if len(top) < 2 || top[0] != e.c || m.room[e.c] == 0 || len(m.ready) == 0 || m.ready[0] != e.offset {
				t.Fatalf("%d went to %s, which has room for %d, out of turn", e.offset, e.c.Tag, m.room[e.c])
			}
			m.room[e.c]--
			m.ready = m.ready[1:]
			m.shares[e.c] = append(m.shares[e.c], e.offset)
			m.rings[e.c.Priority] = append(slices.Clone(top[1:]), e.c)
		case stepUnsent:
			for c, share := range m.shares {
				if i := slices.Index(share, e.offset); i >= 0 {
					m.shares[c] = slices.Delete(share, i, i+1)
				}
			}
			m.available(e.offset)
		case stepExpelled:
			if !m.blocked[e.c] && (m.room[e.c] > 0 || len(m.shares[e.c]) > 0 && e.c != m.taking) {
				t.Fatalf("%s was passed over with room for %d", e.c.Tag, m.room[e.c])
			}
			m.part(e.c)
			m.blocked[e.c], m.out[e.c] = false, true
		}
	}
	m.deals.events = nil
}

func (m *crowdModel) check(t *rapid.T) {
	m.follow(t)
	top := m.top()
	if m.q.ringLen != len(top) || len(top) > 0 && m.q.ring != top[0] {
		t.Fatalf("%d in the ring that is served, want %d", m.q.ringLen, len(top))
	}
	if c := m.q.Counts(); c.Ready != uint64(len(m.ready)) {
		t.Fatalf("%d ready, want %d", c.Ready, len(m.ready))
	}
	m.deals.turns, m.deals.shares = top, m.shares
	m.deals.idle(t, m.q, len(m.ready))
	for _, c := range m.attached {
		if m.q.Active(c) != (!m.single || m.active == c) {
			t.Fatalf("%s active: %v", c.Tag, m.q.Active(c))
		}
	}
}

// TestCrowd_Model: who is served, by priority, in turn, and one at a time where
// that was asked for, whatever consumers do.
func TestCrowd_Model(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		number++
		single := rapid.Bool().Draw(rt, "single active")
		m := &crowdModel{e: e, single: single, able: map[*Consumer]bool{}, rings: map[int64][]*Consumer{}, out: map[*Consumer]bool{}, blocked: map[*Consumer]bool{}, room: map[*Consumer]uint64{}, shares: map[*Consumer][]uint64{}, came: map[uint64]bool{}}
		e.broker.watchDeals = m.deals.watch
		name := fmt.Sprint("q", number)
		m.q = e.queue(QueueDeclare{Name: name, Arguments: values("x-single-active-consumer", single)}, nil)
		for i := range 5 {
			p := rapid.Int64Range(-2, 2).Draw(rt, "priority")
			m.all = append(m.all, &Consumer{Queue: m.q, Owner: &fakeOwner{}, Tag: fmt.Sprint("c", i), Priority: p})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"attach": m.attach, "attach2": m.attach, "detach": m.detach, "enter": m.enter, "enter2": m.enter, "enter3": m.enter,
			"leave": m.leave, "stall": m.stall, "pause": m.pause, "publish": m.publish, "publish2": m.publish, "take": m.take, "take2": m.take, "take3": m.take,
			"give back": m.giveBack, "": m.check,
		})
		if _, _, err := e.vh.DeleteQueue([]byte(name), false, false, nil); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestCrowd_SingleActive_Refusals: an exclusive consumer has no place where one
// is active at a time.
func TestCrowd_SingleActive_Refusals(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Arguments: values("x-single-active-consumer", true)}, nil)
	err := q.Attach(&Consumer{Queue: q, Owner: &fakeOwner{}, Exclusive: true})
	wantError(t, err, 403, "ACCESS_REFUSED - queue 'q' in vhost '/' in exclusive use")
}
