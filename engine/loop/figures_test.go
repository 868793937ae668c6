package loop

import (
	"testing"
	"time"
)

// TestLoop_Figures: others see what a loop has done once it sleeps, and that it
// sleeps while it does.
func TestLoop_Figures(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		began := time.Now()
		before := l.Figures()
		on(l, func() {})
		deadline := time.Now().Add(patience)
		for f := l.Figures(); f.Turns == before.Turns || f.Sleeps == 0 || f.Slept == 0; f = l.Figures() {
			if time.Now().After(deadline) {
				t.Fatalf("figures %+v, before %+v", f, before)
			}
		}
		last := l.Figures()
		for range 1000 {
			l.Post(RunnerFunc(func() {}))
			f := l.Figures()
			if f.Slept < last.Slept-time.Second || f.Slept > time.Since(began)+time.Second {
				t.Fatalf("slept %v after %v, before %v", f.Slept, time.Since(began), last.Slept)
			}
			last = f
		}
		gate := make(chan struct{})
		entered := make(chan struct{})
		l.Post(RunnerFunc(func() { close(entered); <-gate }))
		<-entered
		for range 5 {
			l.Post(RunnerFunc(func() {}))
		}
		if f := l.Figures(); f.Backlog != 5 {
			t.Errorf("backlog %d of a loop that is held up, want 5", f.Backlog)
		}
		close(gate)
		on(l, func() {})
		if f := l.Figures(); f.Backlog != 0 || f.Conns != 0 {
			t.Errorf("in the end %+v", f)
		}
	})
}
