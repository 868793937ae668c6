package loop

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTimer_AgainstModel moves the clock by hand and compares with a sorted list.
func TestTimer_AgainstModel(t *testing.T) {
	type entry struct {
		timer int
		when  time.Time
		order int
	}
	rapid.Check(t, func(t *rapid.T) {
		l := &Loop{began: time.Unix(0, 0), now: time.Unix(1, 0)}
		timers := make([]Timer, 8)
		var model []entry
		var fired []int
		order := 0
		for i := range timers {
			timers[i].Fire = RunnerFunc(func() { fired = append(fired, i) })
		}
		remove := func(timer int) {
			model = slices.DeleteFunc(model, func(e entry) bool { return e.timer == timer })
		}
		t.Repeat(map[string]func(*rapid.T){
			"arm": func(t *rapid.T) {
				i := rapid.IntRange(0, len(timers)-1).Draw(t, "timer")
				d := time.Duration(rapid.IntRange(-1, 5).Draw(t, "duration"))
				l.Arm(&timers[i], d)
				remove(i)
				model = append(model, entry{i, l.now.Add(max(d, 0)), order})
				order++
			},
			"disarm": func(t *rapid.T) {
				i := rapid.IntRange(0, len(timers)-1).Draw(t, "timer")
				l.Disarm(&timers[i])
				remove(i)
			},
			"advance": func(t *rapid.T) {
				l.now = l.now.Add(time.Duration(rapid.IntRange(0, 4).Draw(t, "by")))
				slices.SortFunc(model, func(a, b entry) int {
					return cmp.Or(a.when.Compare(b.when), a.order-b.order)
				})
				var want []int
				for len(model) > 0 && !model[0].when.After(l.now) {
					want = append(want, model[0].timer)
					model = model[1:]
				}
				fired = nil
				l.fireTimers()
				if !slices.Equal(fired, want) {
					t.Fatalf("fired %v, want %v", fired, want)
				}
			},
			"": func(t *rapid.T) {
				if len(l.timers) != len(model) {
					t.Fatalf("%d timers armed, want %d", len(l.timers), len(model))
				}
			},
		})
	})
}

// TestTimer_RearmedAtOnceLetsOthersRun: a timer that arms itself with no delay
// fires once per turn.
func TestTimer_RearmedAtOnceLetsOthersRun(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		var eager Timer
		runs := 0
		eager.Fire = RunnerFunc(func() { runs++; l.Arm(&eager, 0) })
		on(l, func() { l.Arm(&eager, 0) })
		turns(l)
		on(l, func() {
			l.Disarm(&eager)
			if runs == 0 {
				t.Error("it never fired")
			}
		})
	})
}

func TestTimer_WakesASleepingLoop(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fired := make(chan struct{})
		var order []int
		timers := make([]Timer, 3)
		on(l, func() {
			for i, d := range []time.Duration{3, 1, 2} {
				timers[i].Fire = RunnerFunc(func() {
					if order = append(order, i); len(order) == 2 {
						close(fired)
					}
				})
				l.Arm(&timers[i], d*time.Millisecond)
			}
			l.Disarm(&timers[2])
			l.Disarm(&timers[2])
		})
		within(t, "timers", fired)
		on(l, func() {
			if !slices.Equal(order, []int{1, 0}) {
				t.Errorf("fired %v", order)
			}
		})
	})
}

// TestTimer_CountsFromTheWakeUp: Now does not stand still while the loop sleeps.
func TestTimer_CountsFromTheWakeUp(t *testing.T) {
	forBackends(t, func(t *testing.T, backend string) {
		l := newLoop(t, backend)
		fd, peer := pair(t, "unix")
		seen := make(chan time.Time, 1)
		adopt(t, l, fd, func(p *probe) { p.onInput = func([]byte) { seen <- l.Now() } })
		turns(l)
		before := time.Now()
		_, err := peer.Write([]byte("x"))
		check(t, err)
		if now := within(t, "Input", seen); now.Before(before) {
			t.Errorf("Now in Input is %v older than the input", before.Sub(now))
		}
	})
}
