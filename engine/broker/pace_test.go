package broker

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// fakePublisher counts how often it was told to go on.
type fakePublisher struct {
	mu       sync.Mutex
	relieved int
}

func (p *fakePublisher) Relieved() {
	p.mu.Lock()
	p.relieved++
	p.mu.Unlock()
}

func (p *fakePublisher) times() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.relieved
}

// backlog publishes until far more than behindBytes are ready, in records of
// about 16 KiB.
func (e *env) backlog(q *Queue) {
	body := strings.Repeat("x", 16<<10)
	for q.ready()*q.needPace().recordBytes < 3*behindBytes {
		e.publish(q, body, body, body, body)
	}
}

// TestPace_WhoIsHeldBack: only publishers to queues whose consumers could take,
// or take fast, and have too much to take.
func TestPace_WhoIsHeldBack(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	hold := func(now int64) bool { return q.HoldBack(&fakePublisher{}, now) }
	c := &Consumer{Queue: q, Owner: &fakeOwner{}}

	if hold(0) {
		t.Error("at an empty queue")
	}
	e.backlog(q)
	if hold(0) {
		t.Error("without consumers: absorbing bursts is what queues are for")
	}
	if err := q.Attach(c); err != nil {
		t.Fatal(err)
	}
	if hold(0) {
		t.Error("with a consumer out of credit")
	}
	q.Enter(c)
	if !hold(0) || !q.StillBehind(&fakePublisher{}, 0) {
		t.Error("not with a consumer that could take")
	}
	// The consumer takes fast, then is out of credit for a moment.
	now := int64(fastWindowMs)
	for range 3 { // 64 KiB each
		run, _ := q.Take(c, 4, now)
		q.Settle(run.First, run.Count)
	}
	now += fastWindowMs
	run, _ := q.Take(c, 12, now)
	q.Settle(run.First, run.Count)
	q.Leave(c)
	if !hold(now) || !q.StillBehind(&fakePublisher{}, now) {
		t.Error("not with a fast consumer that pauses")
	}
	if now += fastHoldsMs; hold(now) || q.StillBehind(&fakePublisher{}, now) {
		t.Error("with a consumer that was fast once")
	}
}

// TestPace_Relief: whatever ends the reason to hold publishers back tells each
// of them, once.
func TestPace_Relief(t *testing.T) {
	t.Parallel()
	reliefs := []struct {
		name string
		do   func(e *env, q *Queue, c *Consumer)
	}{
		{"take", func(_ *env, q *Queue, c *Consumer) {
			for q.StillBehind(&fakePublisher{}, 0) {
				q.Take(c, 1, 0)
			}
		}},
		{"purge", func(_ *env, q *Queue, _ *Consumer) { q.Purge() }},
		{"leave", func(_ *env, q *Queue, c *Consumer) { q.Leave(c) }},
		{"detach", func(_ *env, q *Queue, c *Consumer) { q.Detach(c) }},
		{"delete", func(e *env, q *Queue, _ *Consumer) {
			if _, _, err := e.vh.DeleteQueue([]byte(q.Name), false, false, nil); err != nil {
				e.t.Fatal(err)
			}
		}},
	}
	e := openDir(t, t.TempDir())
	defer e.close()
	for i, relief := range reliefs {
		q := e.queue(QueueDeclare{Name: fmt.Sprint("q", i)}, nil)
		c := attach(t, q, "c")
		e.backlog(q)
		publishers := []*fakePublisher{{}, {}, {}}
		for _, p := range publishers {
			if !q.HoldBack(p, 0) {
				t.Fatalf("%s: not held back", relief.name)
			}
		}
		relief.do(e, q, c)
		q.Take(c, 1, 0) // is no reason to tell anybody again
		q.Purge()
		for n, p := range publishers {
			if p.times() != 1 {
				t.Errorf("%s: publisher %d was told %d times", relief.name, n, p.times())
			}
		}
	}
}

// TestPace_Turns: while consumers are behind, publishers get their turns one by
// one, in the order in which they were held back.
func TestPace_Turns(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q"}, nil)
	c := attach(t, q, "c")
	e.backlog(q)
	publishers := []*fakePublisher{{}, {}}
	for _, p := range publishers {
		if !q.HoldBack(p, 0) {
			t.Fatal("not held back")
		}
	}
	taken := uint64(0)
	for turn, p := range publishers {
		for p.times() == 0 {
			if !q.StillBehind(&fakePublisher{}, 0) {
				t.Fatalf("publisher %d waits though nobody is behind", turn)
			}
			run, _ := q.Take(c, 1, 0)
			taken += run.Count * q.pace.recordBytes
		}
		if least := uint64(turn+1) * turnBytes; taken < least {
			t.Errorf("publisher %d got its turn after %d bytes, want %d", turn, taken, least)
		}
		for later, other := range publishers[turn+1:] {
			if other.times() > 0 {
				t.Errorf("publisher %d got the turn of %d", turn+1+later, turn)
			}
		}
	}
}
