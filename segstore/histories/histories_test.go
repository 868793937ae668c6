package histories

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"math/rand/v2"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "run the one history of this seed and tell its steps")
	countFlag = flag.Int("histories", 0, "how many histories to run; 0 is 10,000, less with -short and the race detector")
)

// punchingHistories counts the histories in which the store made holes.
var punchingHistories atomic.Uint64

// reopenings counts the fenced logs that were opened again, and those of them that
// had something to write anew.
var reopenings, remakings atomic.Uint64

// rereadings counts the logs that could not be read at a start and were read later,
// and keepings those of them for which a file of the journal had been put aside.
var rereadings, keepings atomic.Uint64

// historySecondsMax is how long one history may take before the test says
// which one hangs. They take milliseconds.
const historySecondsMax = 60

// TestHistories runs 10,000 histories, or as many as BASALTMQ_SOAK (a duration)
// gives time for.
func TestHistories(t *testing.T) {
	if *seedFlag != 0 {
		tell := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
		p := newProgram(*seedFlag)
		tell("%+v", p.config)
		if err := runHistory(t, p, new(arena.Pool), tell); err != "" {
			report(t, p, err, new(arena.Pool))
		}
		return
	}
	count := *countFlag
	switch {
	case count > 0:
	case testing.Short():
		count = 1000
	case raceEnabled:
		count = 2000
	default:
		count = 10000
	}
	var deadline time.Time
	first := uint64(1)
	if soak := os.Getenv("BASALTMQ_SOAK"); soak != "" {
		d, err := time.ParseDuration(soak)
		if err != nil {
			t.Fatalf("BASALTMQ_SOAK: %v", err)
		}
		deadline = time.Now().Add(d)
		first = rand.Uint64() >> 20
	}
	next := new(atomic.Uint64)
	next.Store(first - 1)
	var failed atomic.Bool
	var group sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			pool := new(arena.Pool)
			for !failed.Load() && !t.Failed() {
				seed := next.Add(1)
				if deadline.IsZero() && seed-first >= uint64(count) || !deadline.IsZero() && time.Now().After(deadline) {
					return
				}
				p := newProgram(seed)
				if err := runHistory(t, p, pool, nil); err != "" && !failed.Swap(true) {
					report(t, p, err, pool)
				}
			}
		})
	}
	group.Wait()
	histories, punching := next.Load()-first, punchingHistories.Load()
	t.Logf("%d histories, %d of them with holes; %d fenced logs opened again, %d of them with records; %d unread logs with records read again, %d of them from kept files",
		histories, punching, reopenings.Load(), remakings.Load(), rereadings.Load(), keepings.Load())
	if !failed.Load() && histories >= 1000 && (rereadings.Load() < histories/100 || keepings.Load() == 0) {
		t.Errorf("unread logs were read again %d times in %d histories, %d times from kept files", rereadings.Load(), histories, keepings.Load())
	}
	if !failed.Load() && histories >= 1000 && punching < histories/50 {
		t.Errorf("holes were made in %d of %d histories", punching, histories)
	}
	if !failed.Load() && histories >= 1000 && remakings.Load() < histories/100 {
		t.Errorf("fenced logs with records were opened again %d times in %d histories", remakings.Load(), histories)
	}
}

// runHistory runs a program in a bubble of its own and returns the promise it
// found broken, or "".
func runHistory(t *testing.T, p *program, pool *arena.Pool, trace func(string, ...any)) (broken string) {
	watchdog := time.AfterFunc(historySecondsMax*time.Second, func() {
		debug.SetTraceback("all")
		panic(fmt.Sprintf("the history of seed %d hangs: %s", p.seed, reproduction(p.seed)))
	})
	defer watchdog.Stop()
	defer func() {
		if e := recover(); e != nil {
			fmt.Fprintf(os.Stderr, "seed %d: %s\n", p.seed, reproduction(p.seed))
			panic(e)
		}
	}()
	inUse := pool.Stats().InUse
	synctest.Test(t, func(*testing.T) {
		w := newWorld(p, pool, trace)
		defer func() {
			if e := recover(); e != nil {
				broken = explain(e)
				w.abandon()
			}
		}()
		w.run()
	})
	if now := pool.Stats().InUse; now != inUse && broken == "" {
		broken = fmt.Sprintf("promise 13: %d bytes of the arena are still in use", now-inUse)
	}
	return broken
}

func explain(e any) string {
	if f, ok := e.(failure); ok {
		return string(f)
	}
	return fmt.Sprintf("panic: %v\n%s", e, debug.Stack())
}

// run is a whole history.
func (w *world) run() {
	rng := rand.New(rand.NewPCG(w.program.seed, 0x7e57))
	w.open(rng)
	for _, o := range w.program.ops {
		w.do(o)
		w.after(rng)
		if w.trace != nil {
			w.tellState()
		}
	}
	w.release()
	w.restart(pick(rng, LossNone, LossKill, LossPower), rng)
	w.checkContent()
	w.stop(LossNone, rng)
	w.batch.Release()
	if w.punches > 0 {
		punchingHistories.Add(1)
	}
}

// tellState prints where the open logs stand.
func (w *world) tellState() {
	for _, l := range w.logs {
		if l.log != nil && l.log.Next() > 0 {
			w.note("    log %d: low %d, unsettled %d, durable %d, next %d", l.model.ID, l.log.Low(), l.log.Unsettled(), l.log.Durable(), l.log.Next())
		}
	}
	w.note("    TxDurable %d, MetaDurable %d, %d operations on the disk", w.store.TxDurable(), w.store.MetaDurable(), w.disk.Changes())
}

// abandon ends the goroutines of a history that failed.
func (w *world) abandon() {
	w.disk.held.Store(false)
	go func() {
		w.disk.Kill()
		w.disk.drain()
		if w.store != nil {
			w.store.Crash()
		}
	}()
	synctest.Wait()
	w.closeReaders()
	w.batch.Release()
}

func reproduction(seed uint64) string {
	return fmt.Sprintf("go test ./segstore/histories -run TestHistories -seed=%d", seed)
}

// report prints a failing history, as small as it gets in a few seconds.
func report(t *testing.T, p *program, broken string, pool *arena.Pool) {
	small, broken := shrink(t, p, broken, pool)
	var told strings.Builder
	for range attempts {
		told.Reset()
		again := runHistory(t, small, pool, func(format string, args ...any) { fmt.Fprintf(&told, format+"\n", args...) })
		if again != "" {
			broken = again
			break
		}
		told.WriteString("(it did not fail when it was run again for this report)\n")
	}
	t.Errorf("%s\n%s\n%v\nshrunk to %d of %d operations:\n%s\n%s",
		broken, reproduction(p.seed), small, len(small.ops), len(p.ops), told.String(), broken)
}

// attempts is how often a program is run before it counts as sound: see the
// package comment about map order.
const attempts = 8

// shrink drops operations as long as the history breaks a promise.
func shrink(t *testing.T, p *program, broken string, pool *arena.Pool) (*program, string) {
	until := time.Now().Add(10 * time.Second)
	fails := func(p *program) (broken string) {
		for i := 0; i < attempts && broken == ""; i++ {
			broken = runHistory(t, p, pool, nil)
		}
		return broken
	}
	for size := max(1, len(p.ops)/2); ; size = max(1, size/2) {
		shrunk := false
		for from := 0; from < len(p.ops); {
			if time.Now().After(until) {
				return p, broken
			}
			smaller := &program{p.seed, p.config, slices.Delete(slices.Clone(p.ops), from, min(from+size, len(p.ops)))}
			if again := fails(smaller); again != "" {
				p, broken, shrunk = smaller, again, true
			} else {
				from += size
			}
		}
		if size == 1 && !shrunk {
			return p, broken
		}
	}
}
