package broker

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// crowdModel says who is served next: the members of each ring in turn, the
// highest ring first, and with a single active consumer nobody else. Each takes one
// message at a time.
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
	ready    int
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
	if c.attached {
		m.able[c] = true
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

func (m *crowdModel) publish(t *rapid.T) {
	n := rapid.IntRange(1, 3).Draw(t, "count")
	m.e.publish(m.q, slices.Repeat([]string{"m"}, n)...)
	m.ready += n
}

// take lets somebody try; only the one whose turn it is gets something.
func (m *crowdModel) take(t *rapid.T) {
	c := rapid.SampledFrom(m.all).Draw(t, "consumer")
	if rapid.Bool().Draw(t, "in turn") && len(m.top()) > 0 {
		c = m.top()[0]
	}
	run, more := m.q.Take(c, 1, 0)
	top := m.top()
	if want := len(top) > 0 && top[0] == c && m.ready > 0; (run.Count == 1) != want {
		t.Fatalf("%s took %+v; its turn: %v", c.Tag, run, want)
	}
	if run.Count == 0 {
		return
	}
	owner(c).setTold(more)
	m.ready--
	m.unacked = append(m.unacked, run)
	m.rings[c.Priority] = append(slices.Clone(top[1:]), c)
}

func (m *crowdModel) giveBack(t *rapid.T) {
	if len(m.unacked) == 0 {
		return
	}
	run := m.unacked[len(m.unacked)-1]
	m.unacked = m.unacked[:len(m.unacked)-1]
	if rapid.Bool().Draw(t, "requeue") {
		m.q.Requeue(run)
		m.ready++
		return
	}
	m.q.Settle(run.First, run.Count)
}

func (m *crowdModel) check(t *rapid.T) {
	top := m.top()
	if m.q.ringLen != len(top) || len(top) > 0 && m.q.ring != top[0] {
		t.Fatalf("%d in the ring that is served, want %d", m.q.ringLen, len(top))
	}
	if len(top) > 0 && m.ready > 0 && (m.q.woken != top[0] || !owner(top[0]).isTold()) {
		t.Fatalf("%s should have been told to take", top[0].Tag)
	}
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
		m := &crowdModel{e: e, single: single, able: map[*Consumer]bool{}, rings: map[int64][]*Consumer{}}
		name := fmt.Sprint("q", number)
		m.q = e.queue(QueueDeclare{Name: name, Arguments: values("x-single-active-consumer", single)}, nil)
		for i := range 5 {
			p := rapid.Int64Range(-2, 2).Draw(rt, "priority")
			m.all = append(m.all, &Consumer{Queue: m.q, Owner: &fakeOwner{}, Tag: fmt.Sprint("c", i), Priority: p, Wary: true})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"attach": m.attach, "attach2": m.attach, "detach": m.detach, "enter": m.enter, "enter2": m.enter, "enter3": m.enter,
			"leave": m.leave, "pause": m.pause, "publish": m.publish, "publish2": m.publish, "take": m.take, "take2": m.take, "take3": m.take,
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
