package inspect

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// holedFiles is a store that gave back the space of settled records: log 1 has
// 600, of which every hundredth is unsettled. It was stopped in good order, or
// killed.
func holedFiles(t *testing.T, killed bool) (files fstest.MapFS) {
	t.Helper()
	files = fstest.MapFS{}
	synctest.Test(t, func(t *testing.T) {
		d, pool := sim.New(sim.Options{Seed: 1}), new(arena.Pool)
		s, err := segstore.Open(segstore.Options{Disk: d, Arena: pool, SegmentBytes: 64 << 10, HeldBytes: 1 << 10, PunchBytes: 1})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.OpenLog(1, segstore.LogOptions{})
		if err != nil {
			t.Fatal(err)
		}
		b := segstore.NewBatch(pool)
		for range 150 {
			b.Reset(1_700_000_000_000)
			for range 4 {
				b.Add(b.Template([]byte("exchange"), []byte("key"), []byte{0, 0}), bytes.Repeat([]byte{byte(l.Next())}, 400))
			}
			if _, err := l.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		b.Release()
		time.Sleep(3 * time.Second)
		for o := uint64(1); o < 600; o += 100 {
			l.Settle(o, 99)
		}
		time.Sleep(10 * time.Second)
		if s.Stats().Punches == 0 {
			t.Fatal("no holes")
		}
		if !killed {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range d.Files() {
			data, err := d.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[name] = &fstest.MapFile{Data: data, Mode: 0o640}
		}
		s.Crash()
	})
	return files
}

func TestVerify_HolesAreSound(t *testing.T) {
	for _, killed := range []bool{false, true} {
		r := verify(t, holedFiles(t, killed))
		if len(r.Findings) > 0 || r.Holes < 4 || r.HoleBytes < 100<<10 || r.Unsettled != 6 {
			t.Errorf("killed %v: %+v", killed, r)
		}
	}
}

func TestRecords_AroundHoles(t *testing.T) {
	files := holedFiles(t, false)
	for from := uint64(0); from < 600; from += 37 {
		got, findings := visited(t, files, 1, RecordOptions{From: from})
		var want []uint64
		for o := uint64(0); o < 600; o += 100 {
			if o >= from {
				want = append(want, o)
			}
		}
		if !slices.Equal(got, want) || len(findings) > 0 {
			t.Errorf("from %d: %v, want %v; %v", from, got, want, findings)
		}
	}
}

// A damaged mark is damage, and so is a damaged batch beside a hole; nothing
// else is lost by either.
func TestVerify_DamageAtHoles(t *testing.T) {
	files := holedFiles(t, false)
	sound := files[segment].Data
	pos := bytes.Index(sound, []byte{segstore.BatchMagic[0], segstore.BatchMagic[1], segstore.BatchMagic[2], 16})
	info, found, err := segstore.DecodeHole(sound[max(pos, 0):])
	if pos < 0 || !found || err != nil {
		t.Fatalf("no mark: %v", err)
	}
	for i := range segstore.HoleMarkBytes {
		data := bytes.Clone(sound)
		data[pos+i] ^= 4
		r := verify(t, with(files, segment, data))
		if r.Count(Damage) == 0 || r.Unsettled != 6 || !strings.Contains(r.Findings[0].Text, "all of them settled") {
			t.Fatalf("byte %d of the mark: %+v", i, r)
		}
	}
	data := bytes.Clone(sound)
	data[pos+int(info.Bytes)+60] ^= 4
	r := verify(t, with(files, segment, data))
	if r.Count(Damage) != 1 || r.Unsettled != 5 || !strings.Contains(r.Findings[0].Text, "1 of them not settled") {
		t.Errorf("a batch after a hole: %+v", r)
	}
}

// What a hole says was settled, and nothing else says so, is lost.
func TestVerify_HoleOfUnsettledRecords(t *testing.T) {
	files := holedFiles(t, false)
	for name := range files {
		if strings.HasSuffix(name, segstore.SettledName) {
			delete(files, name)
		}
	}
	r := verify(t, files)
	if r.Count(Damage) == 0 || !strings.Contains(r.Findings[0].Text, "acknowledgements were lost") {
		t.Errorf("%+v", r)
	}
}
