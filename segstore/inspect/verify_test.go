package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"testing/fstest"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore"
)

const (
	log1    = "logs/0000000000000001/"
	segment = log1 + "00000000000000000000.seg" // the first, sealed
)

func TestVerify_CleanStore(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	r := verify(t, files)
	if len(r.Findings) != 0 || r.Logs != 2 || r.Batches != 13 || r.Records != 37 || r.Unsettled != 32 || r.Sealed == 0 || r.Sealed == r.Segments {
		t.Errorf("%+v", r)
	}
	var total int64
	for _, f := range files {
		total += int64(len(f.Data))
	}
	p := new(Progress)
	again, err := Verify(context.Background(), files, Options{Workers: 7, Progress: p})
	if err != nil || !reflect.DeepEqual(again, r) {
		t.Errorf("with other workers: %+v %v", again, err)
	}
	if done, all := p.Bytes(); done != total || all != total || r.Bytes != total {
		t.Errorf("progress %d of %d, %d in the report, want %d", done, all, r.Bytes, total)
	}
}

// Every bit of every file is covered by some checksum or by a rule.
func TestVerify_FlippedBitsAreFoundInTheirFile(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	delete(files, journal0) // TestJournal_FlipsAreFound
	all := slices.Sorted(maps.Keys(files))
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(all).Draw(t, "file")
		data := bytes.Clone(files[name].Data)
		bit := rapid.IntRange(0, 8*len(data)-1).Draw(t, "bit")
		data[bit/8] ^= 1 << (bit % 8)
		r := verify(t, with(files, name, data))
		if len(r.Findings) == 0 {
			t.Fatalf("bit %d of %s: nothing found", bit, name)
		}
		for _, f := range r.Findings {
			if f.File != name || f.Pos > int64(len(data)) {
				t.Fatalf("bit %d of %s: %+v", bit, name, f)
			}
		}
		if r.Count(Damage) == 0 && r.Findings[0].Level != Unfinished {
			t.Fatalf("bit %d of %s: %+v", bit, name, r.Findings)
		}
	})
}

func TestVerify_EachFlipOfASealedSegmentIsDamage(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	sound := files[segment].Data
	for pos := range sound {
		data := bytes.Clone(sound)
		data[pos] ^= 0x10
		r := verify(t, with(files, segment, data))
		if r.Count(Damage) == 0 {
			t.Errorf("byte %d: %+v", pos, r.Findings)
		}
	}
}

// Cut anywhere, the files are either sound or the finding names them. Only the
// ends of whole batches and settled records can't be told from a shorter life.
func TestVerify_TruncatedAtEveryByte(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	delete(files, journal0) // TestJournal_CutAtEveryByte
	for name, f := range files {
		sealed := bytes.Contains(f.Data, []byte("BASALEND"))
		sound := 0
		for size := range len(f.Data) {
			r := verify(t, with(files, name, f.Data[:size]))
			for _, found := range r.Findings {
				if found.File != name {
					t.Errorf("%s cut at %d: %+v", name, size, found)
				}
			}
			if len(r.Findings) == 0 {
				sound++
			}
		}
		if sound == 0 || sealed && sound > 20 {
			t.Errorf("%s (sealed %v): sound at %d sizes", name, sealed, sound)
		}
	}
}

func TestVerify_Findings(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	all := names(files, ".seg")
	last := all[len(all)-2] // of log 1, unsealed
	tail := func(extra ...byte) []byte { return append(bytes.Clone(files[last].Data), extra...) }
	edit := func(name string, change func([]byte)) []byte {
		data := bytes.Clone(files[name].Data)
		change(data)
		return data
	}
	secondBatch := func(data []byte) int64 {
		info, err := segstore.DecodeBatchHeader(data[segstore.SegmentHeaderBytes:])
		if err != nil {
			t.Fatal(err)
		}
		return segstore.SegmentHeaderBytes + info.Bytes
	}
	cases := []struct {
		name  string
		file  string
		data  []byte
		level Level
		text  string
	}{
		{"empty segment", log1 + "00000000000000000099.seg", []byte{}, Unfinished, "empty"},
		{"zeros after the last batch", last, tail(make([]byte, 600)...), Unfinished, "wrong magic"},
		{"a batch cut short", last, files[last].Data[:len(files[last].Data)-1], Unfinished, "beyond the end"},
		{"rubbish after the last batch", last, tail(bytes.Repeat([]byte("x"), 600)...), Damage, "wrong magic"},
		{"the last batch flipped", last, edit(last, func(d []byte) { d[len(d)-1] ^= 1 }), Damage, "checksum"},
		{"a batch in the middle", segment, edit(segment, func(d []byte) { d[secondBatch(d)+50] ^= 1 }), Damage, "offsets 3 to 5 are lost, 3 of them not settled"},
		{"a settled batch", all[2], edit(all[2], func(d []byte) { d[segstore.SegmentHeaderBytes+50] ^= 1 }), Damage, "not settled"},
		{"a footer cut short", segment, files[segment].Data[:len(files[segment].Data)-10], Unfinished, "footer"},
		{"a trailer flipped", segment, edit(segment, func(d []byte) { d[len(d)-1] ^= 1 }), Damage, "no record is lost"},
		{"another log's segment", "logs/0000000000000003/00000000000000000000.seg", files[segment].Data, Damage, "belongs to log 0x1"},
		{"another segment's name", log1 + "00000000000000000500.seg", files[segment].Data, Damage, ""},
		{"half a settled header", log1 + "settled", files[log1+"settled"].Data[:20], Unfinished, "header"},
		{"half a settled record", log1 + "settled", files[log1+"settled"].Data[:60], Unfinished, "without its end"},
		{"a settled record in the middle", log1 + "settled", edit(log1+"settled", func(d []byte) { d[40] ^= 1 }), Damage, "come again"},
		{"a settled record at the end", log1 + "settled", edit(log1+"settled", func(d []byte) { d[len(d)-1] ^= 1 }), Damage, "cuts them off"},
		{"a rewrite", log1 + "settled.tmp", []byte("x"), Unfinished, "removes it"},
		{"a quarantined segment", log1 + "00000000000000000000.seg.quarantine", []byte("x"), Note, "set aside by the broker"},
		{"a quarantined name", "logs/x.quarantine", []byte("x"), Note, "set aside by the broker"},
		{"a stranger in a log", log1 + "notes.txt", []byte("x"), Note, "not a file of a log"},
		{"a stranger among logs", "logs/readme", []byte("x"), Note, "not the directory of a log"},
		{"a stranger", "backup.tar", []byte("x"), Note, "leaves it alone"},
		{"an orphan", "quarantine/0000000000000009-1/x", []byte("x"), Note, "belonged to no queue"},
		{"cut definitions", "definitions.torn", []byte("x"), Note, "definitions"},
		{"transient logs", "transient/0000000000000009/x.seg", []byte("x"), "", ""},
		{"trash", "trash/x/x", []byte("x"), "", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := verify(t, with(files, c.file, c.data))
			switch {
			case c.level == "":
				if len(r.Findings) != 0 {
					t.Errorf("findings %+v", r.Findings)
				}
			case c.name == "another segment's name":
				if r.Count(Damage) == 0 {
					t.Errorf("findings %+v", r.Findings)
				}
			case c.name == "an orphan":
				wantFinding(t, r, c.level, "quarantine/0000000000000009-1", c.text)
			default:
				wantFinding(t, r, c.level, c.file, c.text)
			}
		})
	}
}

// Two segments that hold the same offsets: a copy under the next name.
func TestVerify_OverlappingSegments(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 1<<20)
	l := s.log(1)
	for range 4 {
		s.add(l, "key", []byte("one"), []byte("two"))
	}
	s.close()
	files := load(t, dir)
	inner := log1 + "00000000000000000004.seg"
	files = with(files, inner, files[segment].Data[:segstore.SegmentHeaderBytes])
	r := verify(t, files)
	found := false
	for _, f := range r.Findings {
		found = found || f.File == segment && f.Level == Damage
	}
	if !found {
		t.Errorf("findings %+v", r.Findings)
	}
}

func TestVerify_LargeBatchesAreStreamed(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 64<<20)
	l := s.log(1)
	large := bytes.Repeat([]byte("0123456789abcdef"), 5*windowBytes/2/16)
	s.add(l, "key", []byte("before"), large, []byte("after"))
	s.add(l, "key", []byte("small"))
	s.close()
	files := load(t, dir)
	if r := verify(t, files); len(r.Findings) != 0 || r.Records != 4 {
		t.Fatalf("%+v", r)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		data := bytes.Clone(files[segment].Data)
		pos := segstore.SegmentHeaderBytes + random.IntN(len(large))
		data[pos] ^= 1
		r := verify(t, with(files, segment, data))
		if len(r.Findings) != 1 || r.Findings[0].Pos != segstore.SegmentHeaderBytes || r.Count(Damage) != 1 || r.Records != 1 {
			t.Errorf("byte %d: %+v", pos, r)
		}
	}
}

// A structure that contradicts itself under a good checksum is found by
// streaming as by segstore itself.
func TestWindow_LargeBatchStructure(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 64<<20)
	l := s.log(1)
	s.add(l, "key", make([]byte, 100), make([]byte, 2*windowBytes), []byte("x"))
	s.close()
	sound := load(t, dir)[segment].Data[segstore.SegmentHeaderBytes:]
	info, err := segstore.DecodeBatchHeader(sound)
	if err != nil {
		t.Fatal(err)
	}
	records := segstore.BatchHeaderBytes + info.TemplateBytes
	cases := []struct {
		name  string
		pos   int
		value byte
		good  bool
	}{
		{"sound", 2, sound[2], true},
		{"one record less", 20, 2, false},
		{"one record more", 20, 4, false},
		{"template beyond its area", segstore.BatchHeaderBytes, 0x7F, false},
		{"template area too long", 36, sound[36] + 1, false},
		{"unknown template", records, 0x40, false},
		{"first body too long", records + 1, sound[records+1] + 1, false},
	}
	for _, c := range cases {
		data := bytes.Clone(sound)
		data[c.pos] = c.value
		reseal(data)
		w := &window{ctx: context.Background(), progress: new(Progress)}
		w.open(bytes.NewReader(data), int64(len(data)))
		_, err := w.batch(0)
		_, want := segstore.VerifyBatch(data)
		if (err == nil) != c.good || (want == nil) != c.good {
			t.Errorf("%s: %v; segstore says %v", c.name, err, want)
		}
	}
}

func TestVerify_NotADataDirectory(t *testing.T) {
	for name, fsys := range map[string]fs.FS{
		"empty": fstest.MapFS{}, "strangers": fstest.MapFS{"a/b": {Data: []byte("x")}},
	} {
		if _, err := Verify(context.Background(), fsys, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestVerify_StopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Verify(ctx, smallFiles(t, t.TempDir()), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// failingFS fails to read one file from a position on, or to open it.
type failingFS struct {
	fstest.MapFS
	name string
	open error
	read error
}

type failingFile struct {
	fs.File
	err error
}

func (f failingFile) ReadAt([]byte, int64) (int, error) { return 0, f.err }

func (f failingFS) Open(name string) (fs.File, error) {
	file, err := f.MapFS.Open(name)
	if err != nil || name != f.name {
		return file, err
	}
	if f.open != nil {
		file.Close()
		return nil, &fs.PathError{Op: "open", Path: name, Err: f.open}
	}
	return failingFile{file, f.read}, nil
}

func TestVerify_FilesThatCannotBeRead(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	for _, name := range []string{segment, log1 + "settled"} {
		wantFinding(t, verify(t, failingFS{files, name, fs.ErrPermission, nil}), Unreadable, name, "permission")
		r := verify(t, failingFS{files, name, nil, errors.New("input/output error")})
		wantFinding(t, r, Damage, name, "input/output error")
		if r.Segments != 5 {
			t.Errorf("%d segments", r.Segments)
		}
	}
}

func TestVerify_ManyFindingsAreCounted(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 1<<20)
	l := s.log(1)
	for range 60 {
		s.add(l, "key", []byte("body"))
	}
	s.close()
	files := load(t, dir)
	data := bytes.Clone(files[segment].Data)
	size := (len(data) - segstore.SegmentHeaderBytes) / 60
	for i := 0; i < 60; i += 2 {
		data[segstore.SegmentHeaderBytes+i*size+size-1] ^= 1
	}
	r := verify(t, with(files, segment, data))
	if len(r.Findings) != findingsPerFileMax || r.NotReported != 30-findingsPerFileMax || r.Count(Damage) != 30 || r.Records != 30 {
		t.Errorf("%d findings, %d not reported, %d records: %s", len(r.Findings), r.NotReported, r.Records, fmt.Sprint(r.Findings))
	}
}

// A write that a crash kept from arriving, though a later one did, is unfinished.
func TestVerify_OvertakenWrite(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 1<<20)
	l := s.log(1)
	for _, size := range []int{300, 3000, 10} {
		s.add(l, "key", bytes.Repeat([]byte{7}, size))
	}
	s.close()
	files := load(t, dir)
	whole := files[segment].Data
	length := func(pos int) int {
		info, err := segstore.VerifyBatch(whole[pos:])
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Bytes)
	}
	from := segstore.SegmentHeaderBytes + length(segstore.SegmentHeaderBytes)
	to := from + length(from)
	sector := to &^ (sectorBytes - 1)
	for i, c := range []struct {
		from, to int // zeros
		level    Level
	}{
		{from, to, Unfinished},
		{sector - 1024, sector - 512, Unfinished},
		{sector, to, Unfinished},
		{sector - 700, sector - 400, Damage},
		{sector, to - 1, Damage},
	} {
		data := bytes.Clone(whole)
		clear(data[c.from:c.to])
		r := verify(t, with(files, segment, data))
		if len(r.Findings) != 1 || r.Findings[0].Level != c.level || r.Findings[0].Pos != int64(from) || r.Records != 2 {
			t.Errorf("%d: %d records, %+v", i, r.Records, r.Findings)
		}
	}
}

// A directory where a segment should be: the broker cannot read the log.
func TestVerify_DirectoryForASegment(t *testing.T) {
	name := log1 + "00000000000000009999.seg"
	r := verify(t, with(smallFiles(t, t.TempDir()), name+"/x", []byte("x")))
	wantFinding(t, r, Damage, name, "not a file")
}
