package journal

import (
	"bytes"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

var update = flag.Bool("update", false, "write testdata anew")

// fill writes a few groups of different sizes and returns where each ends.
func fill(u *journalUnderTest, sizes []int) (entries []Entry, ends []int64) {
	for i, n := range sizes {
		e := batch(uint64(i), strings.Repeat(string(rune('a'+i)), n))
		u.write(e)
		entries, ends = append(entries, e), append(ends, u.Pos())
	}
	return entries, ends
}

func put(t tester, d disk.Disk, name string, data []byte) {
	t.Helper()
	err := d.MkdirAll(Dir)
	var f disk.File
	if err == nil {
		f, err = d.Open(name, disk.Create)
	}
	if err == nil {
		err = disk.Run(d, &disk.Op{Kind: disk.Truncate, File: f}, &disk.Op{Kind: disk.Write, File: f, Buf: data})
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestJournal_CutAtEveryByte(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1<<20)
	entries, ends := fill(u, []int{3, 100, 1, 40})
	u.close()
	data, err := d.ReadFile("journal/0")
	if err != nil {
		t.Fatal(err)
	}
	for cut := range int(ends[3]) + 1 {
		for _, tail := range [][]byte{nil, make([]byte, 300), bytes.Repeat([]byte{0xA5}, 300)} {
			d := sim.New(sim.Options{})
			put(t, d, "journal/0", append(slices.Clone(data[:cut]), tail...))
			u := openOn(t, d, 1<<20)
			whole, image := 0, append(slices.Clone(data[:cut]), tail...)
			for whole < len(ends) && int64(len(image)) >= ends[whole] && bytes.Equal(image[:ends[whole]], data[:ends[whole]]) {
				whole++
			}
			u.want(entries[:whole]...)
			u.write(batch(9, "new"))
			u.close()
			u = openOn(t, d, 1<<20)
			u.want(append(slices.Clone(entries[:whole]), batch(9, "new"))...)
			if len(u.lines.text) != 0 {
				t.Fatalf("cut at %d: %v", cut, u.lines.text)
			}
			u.close()
		}
	}
}

// A flipped bit in a group that a later one says was synced costs that group
// and is reported; in the last synced one, or one that never was, it looks like
// a torn tail.
func TestJournal_EveryFlippedBit(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1<<20)
	u.write(batch(0, "first"))
	u.sync()
	first := u.Pos()
	u.write(batch(1, "second"))
	second := u.Pos()
	u.write(batch(2, "third"))
	end := u.Pos()
	u.close()
	data, err := d.ReadFile("journal/0")
	if err != nil {
		t.Fatal(err)
	}
	for bit := range int(end) * 8 {
		flipped := slices.Clone(data)
		flipped[bit/8] ^= 1 << (bit % 8)
		d := sim.New(sim.Options{})
		put(t, d, "journal/0", flipped)
		u := openOn(t, d, 1<<20)
		switch pos := int64(bit / 8); {
		case pos < first:
			u.want(batch(1, "second"), batch(2, "third"))
			if len(u.lines.text) != 1 || u.Damaged() != 1 || !strings.Contains(u.lines.text[0], "damaged") {
				t.Fatalf("bit %d: %v", bit, u.lines.text)
			}
			if kept, err := d.ReadFile("journal/0.1-0.quarantine"); err != nil || !bytes.Equal(kept, flipped[:first]) {
				t.Fatalf("bit %d: copy of %d bytes, %v", bit, len(kept), err)
			}
		case pos < second:
			u.want(batch(0, "first"))
		default:
			u.want(batch(0, "first"), batch(1, "second"))
		}
		u.close()
	}
}

// On a full disk damaged bytes are reported without a copy: a start must not
// need space.
func TestJournal_DamageOnAFullDisk(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1<<20)
	u.write(batch(0, "first"))
	u.sync()
	u.write(batch(1, "second"))
	u.close()
	if err := d.Flip("journal/0", 20, 1); err != nil {
		t.Fatal(err)
	}
	d.SetBudget(d.Used())
	u = openOn(t, d, 1<<20)
	defer u.close()
	u.want(batch(1, "second"))
	if len(u.lines.text) != 1 || !strings.Contains(u.lines.text[0], "copy=none: the disk is full") || len(d.Files()) != 1 {
		t.Errorf("%v, files %v", u.lines.text, d.Files())
	}
}

// The body of a message that looks like a group is not taken for one, even
// behind a torn group.
func TestJournal_ForgedGroupsAreNotBelieved(t *testing.T) {
	forged := make([]byte, GroupHeaderBytes)
	forged = appendEntry(forged, &Entry{Kind: Deleted, ID: 1})
	g := Group{Identity: 1, Generation: 1, Sequence: 1<<40 + 9, Synced: 1 << 30, Entries: 1}
	g.seal(forged)
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1<<20)
	u.write(batch(0, "kept"))
	at := u.Pos()
	u.write(batch(1, "padding!"+string(forged)))
	u.close()
	data, _ := d.ReadFile("journal/0")
	data[at+3] ^= 0xFF
	d = sim.New(sim.Options{})
	put(t, d, "journal/0", data)
	u = openOn(t, d, 1<<20)
	u.want(batch(0, "kept"))
	u.close()
}

func TestJournal_NewerVersionIsRefused(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1<<20)
	u.write(batch(0, "x"))
	u.close()
	data, _ := d.ReadFile("journal/0")
	newer := slices.Clone(data)
	newer[8] = 2
	h := newer[:GroupHeaderBytes]
	crc := headerCRC(h)
	h[groupCRCPos], h[groupCRCPos+1], h[groupCRCPos+2], h[groupCRCPos+3] = byte(crc), byte(crc>>8), byte(crc>>16), byte(crc>>24)
	d = sim.New(sim.Options{})
	put(t, d, "journal/0", newer)
	if _, err := Open(Options{Disk: d, Arena: new(arena.Pool), Logger: slog.New(new(lines)), LimitBytes: 1}); !errors.Is(err, ErrVersion) {
		t.Errorf("open: %v", err)
	}
}

func TestJournal_ForeignFilesAreRefused(t *testing.T) {
	one, two := sim.New(sim.Options{}), sim.New(sim.Options{})
	for _, d := range []*sim.Disk{one, two} {
		u := openOn(t, d, 1<<20)
		u.write(batch(0, "x"))
		u.close()
	}
	data, _ := two.ReadFile("journal/0")
	put(t, one, "journal/1", data)
	if _, err := Open(Options{Disk: one, Arena: new(arena.Pool), Logger: slog.New(new(lines)), LimitBytes: 1}); err == nil || !strings.Contains(err.Error(), "belong together") {
		t.Errorf("open: %v", err)
	}
}

// TestJournal_PowerCuts: whatever was synced comes back, in order, without
// anything else between; what comes back beyond it is a prefix.
func TestJournal_PowerCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := sim.New(sim.Options{Seed: rapid.Uint64().Draw(t, "seed")})
		var written []string // entries that may come back
		durable, serial := 0, 0
		for range rapid.IntRange(1, 5).Draw(t, "lives") {
			u := openOn(t, d, 1<<20)
			found := u.entries()
			if len(found) < durable || len(found) > len(written) || !slices.Equal(found, written[:len(found)]) {
				t.Fatalf("found %q, durable %d of %q", found, durable, written)
			}
			for _, line := range u.lines.text {
				t.Fatalf("log line: %s", line)
			}
			written = written[:len(found)]
			if err := u.Refresh(); err != nil {
				t.Fatal(err)
			}
			u.sync()
			durable = len(written)
			for range rapid.IntRange(0, 8).Draw(t, "groups") {
				var entries []Entry
				for range rapid.IntRange(1, 3).Draw(t, "entries") {
					serial++
					entries = append(entries, batch(uint64(serial), strings.Repeat("x", rapid.IntRange(0, 1500).Draw(t, "size"))))
				}
				u.write(entries...)
				written = append(written, texts(entries...)...)
				if rapid.Bool().Draw(t, "sync") {
					u.sync()
					durable = len(written)
				}
			}
			u.close()
			if rapid.Bool().Draw(t, "power") {
				d = d.PowerCut()
			} else {
				d = d.Kill()
			}
		}
	})
}

func TestGolden_FormatVersion1(t *testing.T) {
	golden := filepath.Join("testdata", "v1-journal")
	if *update {
		d := sim.New(sim.Options{})
		u := openOn(t, d, 1<<20)
		u.identity = 0x1122334455667788
		u.write(all...)
		u.sync()
		u.write(batch(9, "a second group"))
		data, _ := d.ReadFile("journal/0")
		if err := os.WriteFile(golden, data[:u.Pos()+64], 0o644); err != nil {
			t.Fatal(err)
		}
		u.close()
	}
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	d := sim.New(sim.Options{})
	put(t, d, "journal/0", data)
	u := openOn(t, d, 1<<20)
	u.want(append(slices.Clone(all), batch(9, "a second group"))...)
	if u.identity != 0x1122334455667788 || u.Generation() != 1 {
		t.Errorf("identity %x, generation %d", u.identity, u.Generation())
	}
	u.close()
}

// FuzzJournalReplay: any bytes open and replay, or give a typed error.
func FuzzJournalReplay(f *testing.F) {
	golden, err := os.ReadFile(filepath.Join("testdata", "v1-journal"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(golden, golden)
	f.Add(golden[:len(golden)-70], []byte{})
	f.Add([]byte("BASALJRN"), make([]byte, 100))
	f.Fuzz(func(t *testing.T, zero, one []byte) {
		zero, one = bytes.Clone(zero), bytes.Clone(one)
		for _, data := range [][]byte{zero, one} { // repair checksums, so that what is behind them is reached
			for pos := 0; pos+GroupHeaderBytes <= len(data); pos += groupAlign {
				if !bytes.HasPrefix(data[pos:], magicBytes) {
					continue
				}
				if n := int(data[pos+groupLengthPos]) | int(data[pos+groupLengthPos+1])<<8; n >= GroupHeaderBytes && pos+n <= len(data) {
					if g, err := DecodeGroup(data[pos:]); err == nil && g.Bytes == int64(n) {
						g.seal(data[pos : pos+n])
					}
				}
			}
		}
		d := sim.New(sim.Options{})
		put(t, d, "journal/0", zero)
		put(t, d, "journal/1", one)
		j, err := Open(Options{Disk: d, Arena: new(arena.Pool), Logger: slog.New(new(lines)), LimitBytes: 1 << 20})
		if err != nil {
			if !errors.Is(err, ErrVersion) && !strings.Contains(err.Error(), "belong together") {
				t.Fatalf("open: %v", err)
			}
			return
		}
		defer j.Close()
		if err := j.Replay(func(e *Entry, _ Source, _ uint64) error {
			if e.Kind < Batch || e.Kind > Done || e.Kind == Range && e.First >= e.End {
				t.Fatalf("entry %s", text(e))
			}
			return nil
		}); err != nil {
			t.Fatalf("replay: %v", err)
		}
	})
}
