package journal

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// A group that a crash left behind a torn one is not taken for the successor
// of the group that is written over the torn one, whatever their lengths.
func TestJournal_LeftoverGroupsStayDead(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1<<20)
	u.write(batch(0, "kept"))
	at := u.Pos()
	u.write(batch(1, "torn"))
	u.write(batch(2, "left over"))
	u.close()
	data, _ := d.ReadFile("journal/0")
	data[at+3] ^= 0xFF
	d = sim.New(sim.Options{})
	put(t, d, "journal/0", data)
	u = openOn(t, d, 1<<20)
	u.want(batch(0, "kept"))
	u.write(batch(1, "over")) // as long as the torn one
	u.close()
	u = openOn(t, d, 1<<20)
	u.want(batch(0, "kept"), batch(1, "over"))
	u.close()
}

// Nor is it when nothing sound is left of the life that wrote it, neither in the
// file it began in nor in the other one: the next life must not count on from the
// same number.
func TestJournal_LeftoversOfALifeWithoutSoundGroups(t *testing.T) {
	for _, row := range []struct {
		what  string
		turn  bool // the life's first group begins a generation
		again bool // in a file that was used before
		from  int  // bytes of the torn group that did not arrive
	}{
		{"the header did not arrive", false, false, 0},
		{"the body did not arrive", false, false, GroupHeaderBytes},
		{"the header of a new generation did not arrive", true, false, 0},
		{"the body of a new generation did not arrive", true, false, GroupHeaderBytes},
		{"the header of a new generation did not arrive in a used file", true, true, 0},
		{"the body of a new generation did not arrive in a used file", true, true, GroupHeaderBytes},
	} {
		t.Run(row.what, func(t *testing.T) {
			d := sim.New(sim.Options{})
			u := openOn(t, d, 1<<20)
			kept := batch(0, "kept")
			if row.again {
				for range 2 {
					for range 5 {
						u.write(batch(9, "an old group"))
					}
					u.sync()
					u.Switch()
				}
			}
			u.write(Entry{Kind: Done, ID: u.Generation() - 1}, kept)
			u.sync()
			u.close()
			want := texts(Entry{Kind: Done, ID: u.Generation() - 1}, kept)
			switchNow := func() {
				if row.turn {
					u.Switch()
				}
			}

			u = openOn(t, d, 1<<20)
			switchNow()
			at, name := u.Pos(), u.Name(u.Current())
			before, _ := d.ReadFile(name)
			u.write(batch(1, "torn"))
			end := u.Pos()
			u.write(batch(2, "left over"))
			u.write(batch(3, "left over too"))
			u.close()
			data, _ := d.ReadFile(name)
			for pos := at + int64(row.from); pos < end; pos++ {
				data[pos] = 0
				if pos < int64(len(before)) {
					data[pos] = before[pos]
				}
			}
			put(t, d, name, data)

			u = openOn(t, d, 1<<20)
			if got := u.entries(); !slices.Equal(got, want) {
				t.Fatalf("after the crash %q, want %q", got, want)
			}
			switchNow()
			if u.Name(u.Current()) != name || u.Pos() != at {
				t.Fatalf("the next life goes on at %d of %s, not at %d of %s", u.Pos(), u.Name(u.Current()), at, name)
			}
			u.write(batch(1, "over")) // as long as the torn one
			u.close()
			u = openOn(t, d, 1<<20)
			if got := u.entries(); !slices.Equal(got, append(want, text(&Entry{Kind: Batch, ID: 1, Data: []byte("over")}))) {
				t.Fatalf("after the next life %q", got)
			}
			u.close()
		})
	}
}

// TestJournal_PowerCutsBetweenEqualGroups: when groups are all of one size, those
// of a life end where those of the lives before ended, and what these left behind
// stands where a successor would; or what is torn of one is completed by the same
// bytes of another.
func TestJournal_PowerCutsBetweenEqualGroups(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	for seed := range uint64(500) {
		d := sim.New(sim.Options{Seed: seed, SectorBytes: 512})
		var written []string // entries that may come back
		serial := uint64(0)
		for range 6 {
			u := openOn(t, d, 1<<20)
			found := u.entries()
			if len(found) > len(written) || !slices.Equal(found, written[:len(found)]) {
				t.Fatalf("seed %d: found %d entries that are none of %d:\n%.40q\n%.40q", seed, len(found), len(written), found, written)
			}
			if len(u.lines.text) > 0 {
				t.Fatalf("seed %d: %v", seed, u.lines.text)
			}
			written = found
			if err := u.Refresh(); err != nil {
				t.Fatal(err)
			}
			u.sync()
			for range 1 + rng.IntN(3) {
				serial++
				body := "the same"
				if seed%2 == 0 {
					body = fmt.Sprintf("%08d", serial)
				}
				e := batch(serial, strings.Repeat(body, 125))
				u.write(e)
				written = append(written, text(&e))
			}
			u.close()
			d = d.PowerCut()
		}
	}
}
