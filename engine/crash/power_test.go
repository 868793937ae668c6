package crash

import (
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqptest"
)

// powerAckGrace is generous: the sync of acks every second may itself take a
// while on a loaded machine. An ack that has once survived a cut has to stay
// in any case.
const powerAckGrace = 10 * time.Second

// TestPowerLoss cuts the power of file systems under the broker; now and then
// it is only killed, so that recovered but not yet synced data meets a cut.
func TestPowerLoss(t *testing.T) {
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		kind string
		mode CutMode
		cuts int
	}{
		{"xfs shutdown", "xfs", Shutdown, 10},
		{"ext4 shutdown", "ext4", Shutdown, 10},
		{"ext4 snapshot", "ext4", Snapshot, 4},
		{"xfs snapshot", "xfs", Snapshot, 4},
	} {
		t.Run(test.name, func(t *testing.T) {
			seed, until := setup(t, 0.125)
			work := dataDir(t)
			mount, err := NewMount(work, test.kind, test.mode)
			if errors.Is(err, ErrNoMount) {
				t.Skipf("SKIPPED: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if t.Failed() {
					keep(t, mount.Dir, filepath.Join(work, "data"))
				}
				if err := mount.Close(); err != nil {
					t.Error(err)
				}
			})
			ios := backends(t, binary)
			s := NewSession(Config{
				Binary: binary, DataDir: filepath.Join(mount.Dir, "data"), Seed: seed, Logf: t.Logf, Power: true,
				Rules: Rules{AckGrace: powerAckGrace, Transactions: transactionsAtomic},
			})
			r := rand.New(rand.NewPCG(seed, 3))
			cuts := test.cuts
			if testing.Short() || raceEnabled || buildTags == "" {
				cuts = 2
			}
			for n := 0; n < cuts || time.Now().Before(until) || !busy(s.Counts()) && n < 10*cuts; {
				ending := Ending{After: time.Duration(50+r.IntN(1400)) * time.Millisecond}
				if r.IntN(4) > 0 {
					ending.Outage = mount
					n++
				}
				if err := s.Life(ios[n%len(ios)], ending); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Verify(ios[0]); err != nil {
				t.Fatal(err)
			}
			wantBusy(t, s.Counts())
		})
	}
}

// keep copies the data directory of a failed test out of its image.
func keep(t *testing.T, from, to string) {
	if err := amqptest.CopyDir(to, from); err != nil {
		t.Logf("the data could not be kept: %v", err)
	}
}
