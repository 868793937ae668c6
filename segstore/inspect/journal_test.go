package inspect

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

const (
	journal0 = JournalDir + "/0"
	journal1 = JournalDir + "/1"
)

// simStore opens a store on a simulated disk, with a small journal.
func simStore(t tester, d *sim.Disk, o segstore.Options) *store {
	t.Helper()
	pool, committed := new(arena.Pool), make(chan struct{}, 1)
	o.Disk, o.Arena = d, pool
	o.OnCommit = func() {
		select {
		case committed <- struct{}{}:
		default:
		}
	}
	s, err := segstore.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return &store{s, t, pool, d, committed}
}

// image is what is on a simulated disk.
func image(t tester, d *sim.Disk) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{segstore.LogsDir: {Mode: 0o750 | fs.ModeDir}}
	for _, name := range d.Files() {
		data, err := d.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = &fstest.MapFile{Data: data, Mode: 0o640}
	}
	return out
}

func metaOf(t tester, fsys fstest.MapFS) (records []string) {
	t.Helper()
	j, err := ReadJournal(context.Background(), fsys)
	if err == nil {
		err = j.Meta(context.Background(), func(m MetaRecord) error {
			records = append(records, fmt.Sprintf("%d %s", m.Seq, m.Data))
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// killed is the image of a store that was killed: log 1 has offsets 0 to 5 in a
// segment and 6 to 9 in the journal, of which 1, 4 and 7 are settled; log 2 has
// one record in the journal; log 3 was deleted; there are three meta records.
func killed(t tester) fstest.MapFS {
	t.Helper()
	d := sim.New(sim.Options{})
	o := segstore.Options{FlushInterval: time.Hour, SyncInterval: time.Hour}
	s := simStore(t, d, o)
	l := s.log(1)
	for range 3 {
		s.add(l, "key", []byte("one"), []byte("two"))
	}
	s.close()
	d = d.Kill()
	s = simStore(t, d, o)
	l = s.log(1)
	s.add(l, "key", []byte("three"), []byte("four"))
	s.AppendMeta(1, []byte("a"))
	s.add(s.log(2), "other", []byte("alone"))
	gone := s.log(3)
	s.add(gone, "gone", []byte("never seen again"))
	if err := gone.Delete(); err != nil {
		t.Fatal(err)
	}
	s.AppendMeta(2, []byte("b"))
	err := s.Commit([]segstore.TxPart{{Log: l, First: 1, Count: 1}, {Log: l, First: 4, Count: 1}, {Log: l, First: 7, Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	s.AppendMeta(3, []byte("c"))
	for s.MetaDurable() < 3 || s.TxDurable() < 1 {
		<-s.committed
	}
	s.add(l, "key", []byte("five"), []byte("six"))
	d = d.Kill()
	s.Crash()
	return image(t, d)
}

func TestJournal_RecordsThatOnlyItHas(t *testing.T) {
	t.Parallel()
	files := killed(t)
	r := verify(t, files)
	if len(r.Findings) != 0 || r.Records != 11 || r.Unsettled != 8 || r.Logs != 2 || !slices.Equal(r.LogIDs, []uint64{1, 2}) {
		t.Errorf("%+v", r)
	}
	if j := r.Journal; j.Files != 1 || j.Records != 5 || j.Meta != 3 || j.Groups == 0 || j.Entries < 10 {
		t.Errorf("%+v", j)
	}
	for from := range uint64(12) {
		got, findings := visited(t, files, 1, RecordOptions{From: from, Settled: true})
		if want := offsetsBut(from, 10); !slices.Equal(got, want) || len(findings) > 0 {
			t.Errorf("from %d: %v, want %v; %v", from, got, want, findings)
		}
		got, _ = visited(t, files, 1, RecordOptions{From: from})
		if want := offsetsBut(from, 10, 1, 4, 7); !slices.Equal(got, want) {
			t.Errorf("unsettled from %d: %v, want %v", from, got, want)
		}
	}
	var lines []string
	err := Records(context.Background(), files, 1, RecordOptions{From: 5, Visit: func(r *Record) error {
		lines = append(lines, fmt.Sprintf("%d %s %s %s", r.Offset, r.RoutingKey, r.Body, r.File))
		return nil
	}})
	want := []string{"5 key two " + segment, "6 key three journal/0", "8 key five journal/0", "9 key six journal/0"}
	if err != nil || !slices.Equal(lines, want) {
		t.Errorf("%v %q, want %q", err, lines, want)
	}
	if got := metaOf(t, files); !slices.Equal(got, []string{"1 a", "2 b", "3 c"}) {
		t.Errorf("meta records %q", got)
	}
	if got, _ := visited(t, files, 2, RecordOptions{}); !slices.Equal(got, []uint64{0}) {
		t.Errorf("log 2: %v", got)
	}
	if err := Records(context.Background(), files, 3, RecordOptions{}); err == nil {
		t.Error("a deleted log has records")
	}
}

// groupsOf lists the positions of the sound groups of a file, and the end.
func groupsOf(t tester, data []byte) (at []int) {
	t.Helper()
	pos := 0
	for {
		at = append(at, pos)
		g, err := journal.DecodeGroup(data[pos:])
		if err != nil || g.Check(data[pos:]) != nil {
			return at
		}
		pos += int(g.Bytes)
	}
}

// TestJournal_FlipsAreFound flips each byte. Only the header of the last group
// cannot be told from what was there before it; behind it nothing matters.
func TestJournal_FlipsAreFound(t *testing.T) {
	t.Parallel()
	files := killed(t)
	sound := files[journal0].Data
	at := groupsOf(t, sound)
	end, last := at[len(at)-1], at[len(at)-2]
	proven := 0
	for pos := range end + 64 {
		data := bytes.Clone(sound)
		data[pos] ^= 0x10
		r := verify(t, with(files, journal0, data))
		switch {
		case pos >= end || pos >= last && pos < last+journal.GroupHeaderBytes && len(r.Findings) == 0:
			if len(r.Findings) != 0 {
				t.Errorf("byte %d, behind the end: %+v", pos, r.Findings)
			}
		case len(r.Findings) == 0:
			t.Errorf("byte %d of %d: nothing found", pos, end)
		case r.Findings[0].File != journal0 || r.Findings[0].Pos > int64(pos):
			t.Errorf("byte %d: %+v", pos, r.Findings)
		case r.Count(Damage) > 0:
			proven++
		case pos < at[len(at)-3]:
			t.Errorf("byte %d is followed by two synced groups: %+v", pos, r.Findings)
		}
	}
	if proven == 0 {
		t.Error("no damage")
	}
}

// TestJournal_CutAtEveryByte: what a crash leaves is not damage.
func TestJournal_CutAtEveryByte(t *testing.T) {
	t.Parallel()
	files := killed(t)
	sound := files[journal0].Data
	at := groupsOf(t, sound)
	end := at[len(at)-1]
	for size := range end + 1 {
		for _, rest := range [][]byte{nil, make([]byte, end-size), bytes.Repeat([]byte{0xA5}, end-size)} {
			r := verify(t, with(files, journal0, append(bytes.Clone(sound[:size]), rest...)))
			if r.Count(Damage) > 0 || len(r.Findings) > 1 {
				t.Fatalf("cut at %d, with %d bytes behind: %+v", size, len(rest), r.Findings)
			}
			if boundary := slices.Contains(at, size); boundary && len(r.Findings) > 0 {
				t.Fatalf("cut at %d, between groups: %+v", size, r.Findings)
			}
		}
	}
}

// TestJournal_StaleGenerations: bytes of older generations behind the end, and
// a whole older file, are no findings and count for nothing.
func TestJournal_StaleGenerations(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	s := simStore(t, d, segstore.Options{FlushInterval: time.Millisecond, JournalBytes: 8 << 10})
	s.SetMetaCheckpoint(func() error { return nil })
	l := s.log(1)
	for round := 0; s.Stats().Checkpoints < 5; round++ {
		s.add(l, "key", bytes.Repeat([]byte{byte(round)}, 500))
		s.AppendMeta(uint64(round+1), []byte("old"))
	}
	next := l.Next()
	d = d.Kill()
	s.Crash()
	files := image(t, d)
	r := verify(t, files)
	if len(r.Findings) != 0 || r.Records != next || r.Unsettled != next || r.Journal.Files != 2 {
		t.Errorf("%+v, want %d records", r, next)
	}
	if got, _ := visited(t, files, 1, RecordOptions{}); !slices.Equal(got, offsetsBut(0, next)) {
		t.Errorf("%v, want all of %d", got, next)
	}
}

// TestJournal_LargeGroup: a group and an entry beyond the window are streamed.
func TestJournal_LargeGroup(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	s := simStore(t, d, segstore.Options{FlushInterval: time.Hour, SyncInterval: time.Hour})
	l := s.log(1)
	body := bytes.Repeat([]byte("0123456789abcdef"), 2*windowBytes/16)
	b := segstore.NewBatch(s.pool)
	defer b.Release()
	b.Reset(1)
	b.Add(b.Template(nil, []byte("key"), []byte{0, 0}), []byte("before"))
	b.Add(b.Template(nil, []byte("key"), []byte{0, 0}), body)
	parts := []segstore.TxPart{{Log: l, Batch: b}} // transactions never by-pass the journal
	if err := s.Commit(parts); err != nil {
		t.Fatal(err)
	}
	for s.TxDurable() < parts[0].Ticket {
		<-s.committed
	}
	s.AppendMeta(1, []byte("after"))
	for s.MetaDurable() < 1 {
		<-s.committed
	}
	d = d.Kill()
	s.Crash()
	files := image(t, d)
	if r := verify(t, files); len(r.Findings) != 0 || r.Records != 2 || r.Journal.Records != 2 || r.Journal.Meta != 1 {
		t.Errorf("%+v", r)
	}
	var sizes []int
	err := Records(context.Background(), files, 1, RecordOptions{Visit: func(r *Record) error {
		sizes = append(sizes, len(r.Body))
		if len(r.Body) > 100 && !bytes.Equal(r.Body, body) {
			t.Error("another body")
		}
		return nil
	}})
	if err != nil || !slices.Equal(sizes, []int{6, len(body)}) {
		t.Errorf("%v %v", sizes, err)
	}
	for _, pos := range []int{70, windowBytes, len(body)} {
		data := bytes.Clone(files[journal0].Data)
		data[pos] ^= 1
		if r := verify(t, with(files, journal0, data)); len(r.Findings) != 1 || r.Records != 0 {
			t.Errorf("byte %d flipped: %+v", pos, r)
		}
	}
}

func TestJournal_Findings(t *testing.T) {
	t.Parallel()
	files := killed(t)
	later := bytes.Clone(files[journal0].Data)
	later[8] = 9 // version
	sum := crc32.Update(crc32.Update(0, castagnoli, later[:12]), castagnoli, later[16:journal.GroupHeaderBytes])
	binary.LittleEndian.PutUint32(later[12:], sum)
	cases := []struct {
		name, file string
		data       []byte
		level      Level
		text       string
	}{
		{"a copy of it", journal1, files[journal0].Data, Damage, "does not belong together"},
		{"a newer version", journal0, later, Damage, "unknown format version"},
		{"an empty file", journal1, []byte{}, "", ""},
		{"zeros", journal1, make([]byte, 100<<10), "", ""},
		{"rubbish", journal1, bytes.Repeat([]byte("BASALJRN"), 1000), "", ""},
		{"kept for a log", JournalDir + "/00000000000000000001-0000000000000002.kept", files[journal0].Data, "", ""},
		{"a stranger", JournalDir + "/notes", []byte("x"), Note, "leaves it alone"},
		{"a quarantined part", journal0 + ".1-0.quarantine", []byte("x"), Note, "yours to inspect"},
	}
	for _, c := range cases {
		r := verify(t, with(files, c.file, c.data))
		if c.level == "" {
			if len(r.Findings) != 0 || r.Records != 11 {
				t.Errorf("%s: %+v", c.name, r)
			}
			continue
		}
		wantFinding(t, r, c.level, c.file, c.text)
	}
}
