package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"
)

// transactionsAtomic: a transaction cut before its commit-ok takes effect
// wholly or not at all, and one that was answered keeps its acks: it is one
// group of the journal.
const transactionsAtomic = true

// deliveriesFlagged: what may have been delivered before a cut comes again with
// redelivered set. True since recovery takes everything for delivered that it
// finds after an unclean stop.
const deliveriesFlagged = true

// ackGrace: a consumer's ack is written after the flush interval, or after a sync
// that is under way; the rest is for a loaded machine with a slow disk.
const ackGrace = 5 * time.Second

// kills in an ordinary run.
const kills = 50

// setup reads the environment: BASALTMQ_CRASH_SEED repeats a run,
// BASALTMQ_SOAK (a duration) makes all tests together that long; share is this
// one's part.
func setup(t *testing.T, share float64) (seed uint64, until time.Time) {
	t.Helper()
	seed = rand.Uint64()
	if text := os.Getenv("BASALTMQ_CRASH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("BASALTMQ_CRASH_SEED: %v", err)
		}
	}
	if text := os.Getenv("BASALTMQ_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatalf("BASALTMQ_SOAK: %v", err)
		}
		until = time.Now().Add(time.Duration(float64(d) * share))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again with: BASALTMQ_CRASH_SEED=%d go test -tags '%s' -ldflags=%s -count=1 -v -run '^%s$' ./engine/crash", seed, buildTags, buildFlags, t.Name())
		}
	})
	t.Logf("seed %d", seed)
	return seed, until
}

// dataDir makes a directory that is kept if the test fails.
func dataDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "basaltmq-crash-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the data directory is kept: %s", dir)
			return
		}
		_ = os.RemoveAll(dir)
	})
	return dir
}

// backends returns what --io can be here; a missing one is said.
func backends(t *testing.T, binary string) []string {
	t.Helper()
	p, err := launch(binary, t.TempDir(), "uring", 1)
	if err != nil {
		t.Fatal(err)
	}
	err = p.awaitReady()
	if killErr := p.kill(); killErr != nil {
		t.Fatal(killErr)
	}
	switch {
	case err == nil:
		return []string{"posix", "uring"}
	case errors.Is(err, ErrNoUring) || buildTags == "":
		t.Logf("SKIPPED: --io uring: %v", err)
		return []string{"posix"}
	default:
		t.Fatal(err)
		return nil
	}
}

// randomLoad is how long a life lasts: mostly short, some beyond the grace of acks.
func randomLoad(r *rand.Rand) time.Duration {
	if r.IntN(20) == 0 {
		return ackGrace + time.Duration(r.IntN(1000))*time.Millisecond
	}
	return time.Duration(50+r.IntN(1200)) * time.Millisecond
}

func TestKill(t *testing.T) {
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	seed, until := setup(t, 0.5)
	ios := backends(t, binary)
	s := NewSession(Config{
		Binary: binary, DataDir: dataDir(t), Seed: seed, Logf: t.Logf,
		Rules: Rules{AckGrace: ackGrace, Flagged: deliveriesFlagged, Transactions: transactionsAtomic},
	})
	r := rand.New(rand.NewPCG(seed, 2))
	want := kills
	if testing.Short() || raceEnabled || buildTags == "" {
		want = 6
	}
	for n := 0; n < want || time.Now().Before(until) || !busy(s.Counts()) && n < 10*want; {
		ending := Ending{After: randomLoad(r), Clean: r.IntN(12) == 0}
		if err := s.Life(ios[n%len(ios)], ending); err != nil {
			t.Fatal(err)
		}
		if !ending.Clean {
			n++
		}
	}
	if err := s.Verify(ios[0]); err != nil {
		t.Fatal(err)
	}
	wantBusy(t, s.Counts())
}

// TestKill_StartsAgainOnThePort: who supervises a broker starts it again as soon as
// it is gone, on the same port. The sockets of an io_uring outlive their process
// by some milliseconds.
func TestKill_StartsAgainOnThePort(t *testing.T) {
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, backend := range backends(t, binary) {
		dir, port := dataDir(t), "0"
		for range 4 {
			p, err := launch(binary, dir, backend, 2, "-p", port, "--bind", "127.0.99.6") // where nobody else takes a port
			if err != nil {
				t.Fatal(err)
			}
			err = p.awaitReady()
			if killErr := p.kill(); killErr != nil {
				t.Fatal(killErr)
			}
			if err != nil {
				t.Fatalf("--io %s: %v", backend, err)
			}
			port = fmt.Sprint(p.Addr.Port())
		}
	}
}

// busy says whether a run has tried what it is for: on a busy machine that may
// take more lives.
func busy(c Counts) bool {
	return c.Confirmed > 0 && c.Delivered > 0 && c.Acked > 0 && c.Commits > 0 && c.Declares > 0 && c.Audited > 0
}

func wantBusy(t *testing.T, c Counts) {
	t.Helper()
	t.Logf("%+v", c)
	if !busy(c) {
		t.Errorf("some of the load has not run: %+v", c)
	}
}
