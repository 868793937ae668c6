package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
)

// isExternal is the mark that these tests use.
func isExternal(properties []byte) bool { return bytes.Equal(properties, []byte("external")) }

func externalBody(id uint64) []byte { return bytes.Repeat([]byte{byte(id), 1, 2}, 700*int(id)) }

func refOf(id uint64) bodies.Ref {
	b := externalBody(id)
	return bodies.Ref{ID: id, Size: uint64(len(b)), Sum: crc32.Checksum(b, castagnoli)}
}

// largeFiles are those of a store with log 1, whose records 1, 3 and 5 have
// bodies 1 to 3 in files; record 1 is settled. If killed, the last one is in the
// journal only.
func largeFiles(t *testing.T, killed bool) fstest.MapFS {
	t.Helper()
	dir := t.TempDir()
	s := openStore(t, dir, 1<<20)
	l := s.log(1)
	add := func(id uint64) {
		b := segstore.NewBatch(s.pool)
		defer b.Release()
		b.Reset(1)
		b.Add(b.Template(nil, []byte("small"), []byte("others")), refOf(id).Append(nil)) // looks like a reference
		b.Add(b.Template(nil, []byte("large"), []byte("external")), refOf(id).Append(nil))
		if _, err := l.Append(b); err != nil {
			t.Fatal(err)
		}
		s.durable(l)
	}
	add(1)
	s.close()
	s = openStore(t, dir, 1<<20)
	l = s.log(1)
	add(2)
	l.Settle(1, 1)
	s.close()
	s = openStore(t, dir, 1<<20)
	l = s.log(1)
	add(3)
	var files fstest.MapFS
	if killed {
		s.Crash()
		files = load(t, dir)
	} else {
		s.close()
		files = load(t, dir)
		files[CleanStopName] = &fstest.MapFile{}
	}
	for id := uint64(2); id <= 3; id++ {
		files[BodyFile(1, refOf(id))] = &fstest.MapFile{Data: externalBody(id)}
	}
	return files
}

func verifyLarge(t *testing.T, files fstest.MapFS, workers int) *Report {
	t.Helper()
	p := new(Progress)
	r, err := Verify(context.Background(), files, Options{Workers: workers, Progress: p, External: isExternal})
	if err != nil {
		t.Fatal(err)
	}
	done, total := p.Bytes()
	filesDone, filesTotal := p.Files()
	if done != total || filesDone < filesTotal {
		t.Errorf("progress %d of %d bytes, %d of %d files", done, total, filesDone, filesTotal)
	}
	return r
}

func TestBodies(t *testing.T) {
	second, third := BodyFile(1, refOf(2)), BodyFile(1, refOf(3))
	changed := func(id uint64, change func(b []byte) []byte) []byte { return change(bytes.Clone(externalBody(id))) }
	shorter := changed(2, func(b []byte) []byte { return b[:len(b)-1] })
	flipped := changed(3, func(b []byte) []byte { b[100] ^= 1; return b })
	zeroed := changed(3, func(b []byte) []byte { clear(b[512:1024]); return b })
	for _, c := range []struct {
		name     string
		file     string
		data     []byte // nil: removed
		bodies   int
		clean    Level // "": nothing is found
		unclean  Level
		finding  string // about this file
		contains string
	}{
		{"sound", "", nil, 2, "", "", "", ""},
		{"missing", second, nil, 2, Damage, Unfinished, second, "has no body"},
		{"missing, in the journal", third, nil, 2, Damage, Unfinished, third, "the message at offset 5"},
		{"cut short", second, shorter, 2, Damage, Unfinished, second, "4199 bytes instead of 4200"},
		{"too long", second, append(externalBody(2), 1), 2, Damage, Damage, second, "4201 bytes instead of 4200"},
		{"flipped", third, flipped, 2, Damage, Damage, third, "checksum"},
		{"a sector of zeros", third, zeroed, 2, Damage, Unfinished, third, "checksum"},
		{"of a settled message", BodyFile(1, refOf(1)), externalBody(1), 2, Note, Note, BodyDir(1), "1 bodies of 2100 bytes"},
		{"of no message", BodyFile(1, bodies.Ref{ID: 9}), []byte("x"), 2, Note, Note, BodyDir(1), "such as 0000000000000009"},
		{"of another log", BodyFile(7, refOf(2)), externalBody(2), 2, Note, Note, BodyDir(7), "no message that is left"},
		{"a stranger", BodyDir(1) + "/README", []byte("x"), 2, Note, Note, BodyDir(1) + "/README", "not a message body"},
		{"a strange directory", "bodies/1/x", []byte("x"), 2, Note, Note, "bodies/1", "not a directory of message bodies"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, killed := range []bool{false, true} {
				level := c.clean
				if killed {
					level = c.unclean
				}
				files := largeFiles(t, killed)
				if c.file != "" {
					files = with(files, c.file, c.data)
				}
				r := verifyLarge(t, files, 1)
				if r.Bodies != c.bodies {
					t.Errorf("killed %v: %d bodies", killed, r.Bodies)
				}
				if level == "" {
					if len(r.Findings) != 0 {
						t.Errorf("killed %v: %+v", killed, r.Findings)
					}
				} else {
					wantFinding(t, r, level, c.finding, c.contains)
				}
				if again := verifyLarge(t, files, 5); !reflect.DeepEqual(again, r) {
					t.Errorf("with other workers: %+v, not %+v", again, r)
				}
			}
		})
	}
}

// A directory that cannot be listed is one finding, and no message counts as lost.
func TestBodies_Unlisted(t *testing.T) {
	for _, killed := range []bool{false, true} {
		files := largeFiles(t, killed)
		for id := uint64(2); id <= 3; id++ {
			delete(files, BodyFile(1, refOf(id)))
		}
		files[BodyDir(1)] = &fstest.MapFile{Data: []byte("a file in its place")}
		r := verifyLarge(t, files, 1)
		if r.Bodies != 0 {
			t.Errorf("killed %v: %d bodies", killed, r.Bodies)
		}
		wantFinding(t, r, Damage, BodyDir(1), "the queue is closed until they can")
	}
}

// A bodies directory that is gone does not bury all else.
func TestBodies_FindingsAreBounded(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 1<<20)
	l := s.log(1)
	b := segstore.NewBatch(s.pool)
	b.Reset(1)
	for id := uint64(1); id <= 50; id++ {
		b.Add(b.Template(nil, nil, []byte("external")), bodies.Ref{ID: id, Size: 1}.Append(nil))
	}
	if _, err := l.Append(b); err != nil {
		t.Fatal(err)
	}
	b.Release()
	s.close()
	for _, clean := range []bool{true, false} {
		files, level := load(t, dir), Unfinished
		if clean {
			files, level = with(files, CleanStopName, []byte{}), Damage
		}
		r := verifyLarge(t, files, 3)
		if r.Bodies != 50 || len(r.Findings) != findingsPerFileMax+1 || r.Count(level) != len(r.Findings) ||
			r.Findings[0].File != BodyDir(1) || !strings.HasPrefix(r.Findings[0].Text, "30 more") {
			t.Errorf("clean %v: %d bodies, %d findings, the first %+v", clean, r.Bodies, len(r.Findings), r.Findings[0])
		}
	}
}

func TestReadBody(t *testing.T) {
	ref, name := refOf(2), BodyFile(1, refOf(2))
	files := fstest.MapFS{name: &fstest.MapFile{Data: externalBody(2)}}
	flipped := bytes.Clone(externalBody(2))
	flipped[4000] ^= 1
	for i, c := range []struct {
		files fstest.MapFS
		most  uint64
		want  []byte
		err   string
	}{
		{files, 0, externalBody(2), ""},
		{files, 10, externalBody(2)[:10], ""},
		{files, 1 << 40, externalBody(2), ""},
		{with(files, name, nil), 0, nil, "is missing"},
		{with(files, name, []byte("x")), 10, nil, "has 1 bytes instead of 4200"},
		{with(files, name, flipped), 10, flipped[:10], ""},
		{with(files, name, flipped), 0, flipped, "checksum"},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			data, err := ReadBody(c.files, 1, ref, c.most)
			if !slices.Equal(data, c.want) || (err == nil) != (c.err == "") || err != nil && (!errors.Is(err, ErrBody) || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%d bytes, %v", len(data), err)
			}
		})
	}
}
