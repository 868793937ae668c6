package loop

import (
	"sync/atomic"
	"time"
)

// publishEvery is how many turns a busy loop makes between two updates of what
// others see; one that goes to sleep updates it first.
const publishEvery = 64

// published are a loop's figures for other goroutines. Only the loop writes.
type published struct {
	turns, sleeps, wakeups, read, sent atomic.Uint64
	// slept is the time slept, in nanoseconds. Of a loop that sleeps it is that
	// less the time at which it fell asleep, which makes it negative: one number,
	// so that readers never see a sleep twice or not at all.
	slept atomic.Int64
}

func (p *published) publish(s *Stats) {
	p.turns.Store(s.Turns)
	p.sleeps.Store(s.Sleeps)
	p.wakeups.Store(s.Wakeups)
	p.read.Store(s.BytesRead)
	p.sent.Store(s.BytesSent)
}

func (p *published) fallAsleep(s *Stats, now time.Time) {
	p.slept.Store(int64(s.Slept) - now.UnixNano())
}

func (p *published) awake(s *Stats) { p.slept.Store(int64(s.Slept)) }

// Figures are what a loop did and how it is.
type Figures struct {
	Stats       // as of some turns ago
	Backlog int // posts not worked off
	Conns   int
}

// Figures returns them without disturbing the loop. Any goroutine.
func (l *Loop) Figures() Figures {
	p := &l.figures
	f := Figures{Conns: l.Conns()}
	f.Turns, f.Sleeps, f.Wakeups = p.turns.Load(), p.sleeps.Load(), p.wakeups.Load()
	f.BytesRead, f.BytesSent = p.read.Load(), p.sent.Load()
	slept := p.slept.Load()
	if slept < 0 {
		slept += time.Now().UnixNano()
	}
	f.Slept = time.Duration(max(0, slept))
	l.mu.Lock()
	f.Backlog = len(l.inbox)
	l.mu.Unlock()
	return f
}
