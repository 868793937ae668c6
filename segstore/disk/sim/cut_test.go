package sim

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// fileOracle knows of one file what a cut may leave, from first principles:
// each byte is one it was since the last sync, or zero; the size is within
// those it had.
type fileOracle struct {
	live             []byte
	allowed          []map[byte]bool // by position, beyond the end too
	sizeMin, sizeMax int
}

const oracleBytes = 40 << 10

func newFileOracle() *fileOracle {
	o := &fileOracle{allowed: make([]map[byte]bool, oracleBytes)}
	o.synced()
	return o
}

func (o *fileOracle) at(pos int) byte {
	if pos < len(o.live) {
		return o.live[pos]
	}
	return 0
}

func (o *fileOracle) synced() {
	o.sizeMin, o.sizeMax = len(o.live), len(o.live)
	for pos := range o.allowed {
		o.allowed[pos] = map[byte]bool{o.at(pos): true}
	}
}

func (o *fileOracle) changed(from, to int) {
	o.sizeMin, o.sizeMax = min(o.sizeMin, len(o.live)), max(o.sizeMax, len(o.live))
	for pos := from; pos < to; pos++ {
		o.allowed[pos][o.at(pos)] = true
	}
}

func (o *fileOracle) check(t failer, got []byte) {
	t.Helper()
	if len(got) < o.sizeMin || len(got) > o.sizeMax {
		t.Fatalf("size %d after the cut, had %d to %d", len(got), o.sizeMin, o.sizeMax)
	}
	for pos, b := range got {
		if !o.allowed[pos][b] {
			t.Fatalf("byte %d is %d after the cut, may be %v", pos, b, o.allowed[pos])
		}
	}
}

func TestPowerCut_FileContent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New(Options{Seed: rapid.Uint64().Draw(t, "seed"), Order: rapid.SampledFrom([]Order{Ordered, Shuffled}).Draw(t, "order")})
		f := durableFile(t, d, "f", nil)
		o := newFileOracle()
		for step := range rapid.IntRange(0, 25).Draw(t, "steps") {
			op := &disk.Op{File: f, Kind: rapid.SampledFrom([]disk.Kind{disk.Write, disk.Write, disk.Write, disk.Sync, disk.Truncate, disk.Punch}).Draw(t, "kind")}
			op.Pos = int64(rapid.IntRange(0, oracleBytes/2).Draw(t, "pos"))
			length := rapid.IntRange(1, 12000).Draw(t, "length")
			var fault *Injection
			if rapid.IntRange(0, 9).Draw(t, "fault") == 0 {
				fault = d.Inject(Rule{Calls: CallSync})
			}
			switch op.Kind {
			case disk.Write:
				op.Buf = bytes.Repeat([]byte{byte(step) + 1}, length)
			case disk.Truncate:
				op.Pos /= 2
			case disk.Punch:
				op.Len = int64(length)
			}
			err := disk.Run(d, op)
			if (err != nil) != (op.Kind == disk.Sync && fault != nil) {
				t.Fatalf("%v: %v", op.Kind, err)
			}
			if fault != nil {
				fault.Remove()
			}
			pos := int(op.Pos)
			switch op.Kind {
			case disk.Write:
				if grow := pos + length - len(o.live); grow > 0 {
					o.live = append(o.live, make([]byte, grow)...)
				}
				copy(o.live[pos:], op.Buf)
				o.changed(pos, pos+length)
			case disk.Truncate:
				if pos <= len(o.live) {
					o.live = o.live[:pos:pos]
				} else {
					o.live = append(o.live, make([]byte, pos-len(o.live))...)
				}
				o.changed(pos, oracleBytes)
			case disk.Punch:
				end := min(len(o.live), pos+length)
				if pos < end {
					clear(o.live[pos:end])
					o.changed(pos, end)
				}
			case disk.Sync:
				if err == nil && d.Stats().SyncsFailed == 0 {
					o.synced() // after a failed one, nothing is promised any more
				}
			}
			if got := contentOf(t, d, "f"); !bytes.Equal(got, o.live) {
				t.Fatalf("step %d, %v: the process sees something else than it did", step, op.Kind)
			}
		}
		alive := d.Kill()
		if !bytes.Equal(contentOf(t, alive, "f"), o.live) {
			t.Fatal("a kill lost data")
		}
		o.check(t, contentOf(t, alive.PowerCut(), "f"))
		for range 3 {
			after := d.PowerCut()
			got := contentOf(t, after, "f")
			o.check(t, got)
			if again := contentOf(t, after.PowerCut(), "f"); !bytes.Equal(again, got) {
				t.Fatal("a second cut with nothing done changed the file")
			}
		}
	})
}

// TestPowerCut_SectorsAreImages: each sector is one that the cache held.
func TestPowerCut_SectorsAreImages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sectorBytes := rapid.SampledFrom([]int64{512, pageBytes}).Draw(t, "sector")
		d := New(Options{Seed: rapid.Uint64().Draw(t, "seed"), SectorBytes: sectorBytes})
		live := make([]byte, 8*pageBytes)
		f := durableFile(t, d, "f", live)
		images := [][]byte{slices.Clone(live)}
		for step := range rapid.IntRange(1, 10).Draw(t, "steps") {
			pos := rapid.IntRange(0, len(live)-1).Draw(t, "pos")
			data := bytes.Repeat([]byte{byte(step) + 1}, rapid.IntRange(1, len(live)-pos).Draw(t, "length"))
			must(t, write(d, f, int64(pos), data))
			copy(live[pos:], data)
			images = append(images, slices.Clone(live))
		}
		got := contentOf(t, d.PowerCut(), "f")
		for pos := int64(0); pos < int64(len(live)); pos += sectorBytes {
			sector := got[pos : pos+sectorBytes]
			if !slices.ContainsFunc(images, func(image []byte) bool { return bytes.Equal(image[pos:pos+sectorBytes], sector) }) {
				t.Fatalf("the sector at %d was never in the cache", pos)
			}
		}
	})
}

// TestPowerCut_ReachesEveryOutcome: the model is not too kind.
func TestPowerCut_ReachesEveryOutcome(t *testing.T) {
	const old, first, second = 2 * pageBytes, 3 * pageBytes, 4 * pageBytes
	seen := map[string]int{}
	for seed := range uint64(400) {
		d := New(Options{Seed: seed})
		f := durableFile(t, d, "f", bytes.Repeat([]byte{1}, old))
		must(t, write(d, f, 0, bytes.Repeat([]byte{2}, first)))
		must(t, write(d, f, first, bytes.Repeat([]byte{3}, second-first)))
		must(t, open(t, d, "new").Close())
		must(t, d.Rename("f", "g"))
		after := d.PowerCut()
		name := "f"
		if slices.Contains(after.Files(), "g") {
			name = "g"
			seen["renamed"]++
		} else {
			seen["not renamed"]++
		}
		if slices.Contains(after.Files(), "new") {
			seen["created"]++
		} else {
			seen["not created"]++
		}
		got := contentOf(t, after, name)
		overwritten := bytes.Count(got[:old], []byte{2})
		switch {
		case overwritten == 0:
			seen["overwrite lost"]++
		case overwritten == old:
			seen["overwrite kept"]++
		case got[0] == 1:
			seen["overwrite torn, the front lost"]++
		default:
			seen["overwrite torn"]++
		}
		switch {
		case len(got) == old:
			seen["old size"]++
		case len(got) == second:
			seen["new size"]++
		case len(got) == first:
			seen["size between two writes"]++
		default:
			seen["size inside a write"]++
		}
		if bytes.Contains(got, []byte{0}) {
			seen["zeros"]++
		}
		if len(got) == second && got[second-1] == 3 && overwritten == 0 {
			seen["later without earlier"]++
		}
		if len(got) == second && overwritten == old && !bytes.Contains(got, []byte{0}) {
			seen["everything"]++
		}
		if len(got) == old && overwritten == 0 {
			seen["nothing"]++
		}
	}
	for _, outcome := range []string{"renamed", "not renamed", "created", "not created", "overwrite lost", "overwrite kept", "overwrite torn", "overwrite torn, the front lost",
		"old size", "new size", "size between two writes", "size inside a write", "zeros", "later without earlier", "everything", "nothing"} {
		if seen[outcome] == 0 {
			t.Errorf("%q never happened in 400 cuts", outcome)
		}
	}
}

// TestPowerCut_EveryPointOfAProtocol cuts a small log and a replaced file at every
// operation: what was acknowledged is there, and the file is an old or a new one.
func TestPowerCut_EveryPointOfAProtocol(t *testing.T) {
	const recordBytes, rounds = 700, 5
	run := func(d *Disk) (acknowledged, replaced int) {
		// Any error ends the run: in this test it is the crash.
		if d.MkdirAll("data") != nil || d.SyncDir("") != nil {
			return
		}
		log, err := d.Open("data/log", disk.Create)
		if err != nil || d.SyncDir("data") != nil {
			return
		}
		for i := range rounds {
			if write(d, log, int64(i)*recordBytes, bytes.Repeat([]byte{byte(i) + 1}, recordBytes)) != nil || syncFile(d, log) != nil {
				return
			}
			acknowledged = i + 1
			temporary, err := d.Open("data/state.tmp", disk.Create)
			if err != nil {
				return
			}
			state := binary.LittleEndian.AppendUint64(nil, uint64(i+1))
			if write(d, temporary, 0, bytes.Repeat(state, 1000)) != nil || syncFile(d, temporary) != nil ||
				d.Rename("data/state.tmp", "data/state") != nil || d.SyncDir("data") != nil {
				return
			}
			replaced = i + 1
		}
		return
	}
	whole := New(Options{})
	if acknowledged, replaced := run(whole); acknowledged != rounds || replaced != rounds {
		t.Fatalf("without a crash: %d, %d", acknowledged, replaced)
	}
	for point := range whole.Changes() {
		for seed := range uint64(5) {
			d := New(Options{Seed: seed})
			d.CrashAfter(point + 1)
			acknowledged, replaced := run(d)
			for name, after := range map[string]*Disk{"cut": d.PowerCut(), "kill": d.Kill(), "kill and cut": d.Kill().PowerCut()} {
				where := fmt.Sprintf("%s at %d, seed %d", name, point, seed)
				if acknowledged > 0 {
					got := contentOf(t, after, "data/log")
					for i := range acknowledged {
						if !bytes.Equal(got[i*recordBytes:(i+1)*recordBytes], bytes.Repeat([]byte{byte(i) + 1}, recordBytes)) {
							t.Fatalf("%s: record %d of %d is lost", where, i, acknowledged)
						}
					}
				}
				state, err := after.ReadFile("data/state")
				if err != nil {
					if replaced > 0 {
						t.Fatalf("%s: %v", where, err)
					}
					continue
				}
				version := int(binary.LittleEndian.Uint64(state))
				if !bytes.Equal(state, bytes.Repeat(state[:8], 1000)) || version < replaced || version > replaced+1 {
					t.Fatalf("%s: the state is version %d of %d bytes, replaced %d times", where, version, len(state), replaced)
				}
			}
		}
	}
}

func TestKill_OpsInFlightArePartlyDone(t *testing.T) {
	partly, wholly, none := 0, 0, 0
	for seed := range uint64(200) {
		d := New(Options{Seed: seed, Order: Manual})
		f := open(t, d, "f")
		var results []error
		done := func(op *disk.Op) { results = append(results, op.Err) }
		d.Submit([]*disk.Op{{Kind: disk.Write, File: f, Pos: 510, Buf: make([]byte, 5), Done: done}, {Kind: disk.Sync, File: f, Done: done}})
		switch len(contentOf(t, d.Kill(), "f")) {
		case 0:
			none++
		case 515:
			wholly++
		default:
			partly++
		}
		for d.Step() {
		}
		if len(results) != 2 || !errors.Is(results[0], ErrPowerCut) || !errors.Is(results[1], ErrPowerCut) {
			t.Fatalf("results %v", results)
		}
	}
	if partly == 0 || wholly == 0 || none == 0 {
		t.Errorf("partly %d, wholly %d, not at all %d", partly, wholly, none)
	}
}

// TestPowerCut_NothingStale: bytes beyond an earlier end of the file, or cut
// off by a truncation, never come back as something else than what they were.
func TestPowerCut_NothingStale(t *testing.T) {
	for seed := range uint64(300) {
		d := New(Options{Seed: seed})
		f := durableFile(t, d, "f", bytes.Repeat([]byte{1}, 3*pageBytes))
		must(t, disk.Run(d, &disk.Op{Kind: disk.Truncate, File: f}))
		must(t, write(d, f, 2*pageBytes, bytes.Repeat([]byte{2}, 2*pageBytes)))
		after := d.PowerCut()
		got := contentOf(t, after, "f")
		if bytes.Contains(got, []byte{1}) && bytes.Contains(got, []byte{2}) {
			t.Fatalf("seed %d: data from before and after a truncation in one file", seed)
		}
		g, err := after.Open("f", disk.ReadWrite)
		must(t, err)
		must(t, disk.Run(after, &disk.Op{Kind: disk.Truncate, File: g, Pos: 10 * pageBytes}))
		if rest := contentOf(t, after, "f")[len(got):]; bytes.Count(rest, []byte{0}) != len(rest) {
			t.Fatalf("seed %d: extending the file shows what was beyond its end", seed)
		}
		if used := after.Used(); used > 4*pageBytes {
			t.Fatalf("seed %d: %d bytes used", seed, used)
		}
	}
}
