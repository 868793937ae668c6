package crash

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqptest"
)

// The tests here make sure that the harness notices: they break a promise on
// purpose.

// A broker that finds the data of an earlier life has lost what came since.
func TestOldDataIsNoticed(t *testing.T) {
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for after := 200 * time.Millisecond; ; after *= 4 { // a busy machine may get nothing done that could be lost
		work := t.TempDir()
		dir, old := filepath.Join(work, "data"), filepath.Join(work, "old")
		s := NewSession(Config{Binary: binary, DataDir: dir, Seed: 1, Rules: Rules{AckGrace: ackGrace}})
		ending := Ending{After: after, Clean: true}
		if err := s.Life("posix", ending); err != nil {
			t.Fatal(err)
		}
		if err := amqptest.CopyDir(old, dir); err != nil {
			t.Fatal(err)
		}
		if err := s.Life("posix", ending); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.RemoveAll(dir), os.Rename(old, dir)); err != nil {
			t.Fatal(err)
		}
		err := s.Verify("posix")
		if err != nil && strings.Contains(err.Error(), "invariant 1: lost") {
			t.Logf("noticed: %.1000s", err)
			return
		}
		if err != nil || after > 10*time.Second {
			t.Fatalf("the loss of a whole life was not noticed: %v", err)
		}
	}
}

// A broker that confirms what is in the page cache loses it with the power.
func TestPowerLossIsNoticed(t *testing.T) {
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []CutMode{Shutdown, Snapshot} {
		t.Run(mode.String(), func(t *testing.T) {
			mount, err := NewMount(t.TempDir(), "ext4", mode)
			if errors.Is(err, ErrNoMount) {
				t.Skipf("SKIPPED: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := mount.Close(); err != nil {
					t.Error(err)
				}
			})
			s := NewSession(Config{
				Binary: binary, DataDir: filepath.Join(mount.Dir, "data"), Seed: 2, Power: true,
				Args: []string{"--durability", "os"}, Rules: Rules{AckGrace: powerAckGrace},
			})
			// The queues themselves are to survive.
			if err := s.Life("posix", Ending{After: 50 * time.Millisecond, Clean: true}); err != nil {
				t.Fatal(err)
			}
			const cuts = 30 // each, until it is noticed, loses what was confirmed within the last second
			for range cuts {
				err = s.Life("posix", Ending{After: 300 * time.Millisecond, Outage: mount})
				if err != nil {
					break
				}
			}
			if err == nil || !strings.Contains(err.Error(), "invariant 1: lost") {
				t.Fatalf("the loss was not noticed: %v", err)
			}
			t.Logf("noticed: %.1000s", err)
		})
	}
}
