package inspect

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// tester is what *testing.T, *testing.F and *rapid.T share.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// store is an open store in a directory of its own.
type store struct {
	*segstore.Store
	t         tester
	pool      *arena.Pool
	disk      disk.Disk
	committed chan struct{} // capacity 1: something may have become durable
}

// openStore opens a store in dir, with small segments.
func openStore(t tester, dir string, segmentBytes int64) *store {
	t.Helper()
	d, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	pool, committed := new(arena.Pool), make(chan struct{}, 1)
	s, err := segstore.Open(segstore.Options{
		Disk: d, Arena: pool, SegmentBytes: segmentBytes,
		FlushInterval: time.Hour, SyncInterval: time.Hour, // only when it is wanted
		OnCommit: func() {
			select {
			case committed <- struct{}{}:
			default:
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &store{s, t, pool, d, committed}
}

func (s *store) close() {
	s.t.Helper()
	if err := s.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
	if err := s.disk.Close(); err != nil {
		s.t.Errorf("close: %v", err)
	}
}

func (s *store) log(id uint64) *segstore.Log {
	s.t.Helper()
	l, err := s.OpenLog(id, segstore.LogOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// add appends one batch of records with these bodies and waits until it is
// durable.
func (s *store) add(l *segstore.Log, key string, bodies ...[]byte) {
	s.t.Helper()
	b := segstore.NewBatch(s.pool)
	defer b.Release()
	b.Reset(1_700_000_000_000 + int64(l.Next()))
	for i, body := range bodies {
		if i == 1 {
			b.SetTime(1_700_000_100_000)
		}
		b.Add(b.Template([]byte("exchange"), []byte(key), []byte{0, 0}), body)
	}
	if _, err := l.Append(b); err != nil {
		s.t.Fatal(err)
	}
	s.durable(l)
}

func (s *store) durable(l *segstore.Log) {
	s.t.Helper()
	l.WantDurable()
	for l.Durable() < l.Next() {
		if err := l.Err(); err != nil {
			s.t.Fatal(err)
		}
		<-s.committed
	}
}

// small fills dir with two logs: 1 with several segments, some sealed, and
// settled offsets, 2 with one record.
func small(t tester, dir string) {
	t.Helper()
	s := openStore(t, dir, 1500)
	l := s.log(1)
	for i := range 12 {
		s.add(l, "key", bytes.Repeat([]byte{byte(i)}, 100), []byte("second"), bytes.Repeat([]byte{7}, 50*i))
	}
	other := s.log(2)
	s.add(other, "other", []byte("alone"))
	s.close()
	s = openStore(t, dir, 1500) // what is settled before it is in a segment never gets there
	l = s.log(1)
	l.Settle(0, 2)
	l.Settle(9, 3)
	l.SetCursor(12)
	s.log(2)
	s.close()
}

// smallFiles is the content of such a directory.
func smallFiles(t tester, dir string) fstest.MapFS {
	t.Helper()
	small(t, dir)
	return load(t, dir)
}

// load reads a directory tree into memory.
func load(t tester, dir string) fstest.MapFS {
	t.Helper()
	out := fstest.MapFS{}
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(dir, name)
		out[filepath.ToSlash(rel)] = &fstest.MapFile{Data: data, Mode: 0o640}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// with returns a copy of files in which name has other contents; nil removes it.
func with(files fstest.MapFS, name string, data []byte) fstest.MapFS {
	out := fstest.MapFS{}
	for k, v := range files {
		out[k] = v
	}
	if data == nil {
		delete(out, name)
	} else {
		out[name] = &fstest.MapFile{Data: data, Mode: 0o640}
	}
	return out
}

func verify(t tester, fsys fs.FS) *Report {
	t.Helper()
	r, err := Verify(context.Background(), fsys, Options{Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// names returns the files that end in suffix, sorted.
func names(files fstest.MapFS, suffix string) (out []string) {
	entries, _ := fs.Glob(files, "logs/*/*")
	for _, name := range entries {
		if strings.HasSuffix(name, suffix) {
			out = append(out, name)
		}
	}
	return out
}

// wantFinding checks that there is exactly one finding, with that level, about
// that file, whose text contains part.
func wantFinding(t *testing.T, r *Report, level Level, file, part string) {
	t.Helper()
	if len(r.Findings) != 1 || r.Findings[0].Level != level || r.Findings[0].File != file || !strings.Contains(r.Findings[0].Text, part) {
		t.Errorf("findings %+v, want one of level %s about %s: %q", r.Findings, level, file, part)
	}
}

// writeSim writes a file of a simulated disk.
func writeSim(t tester, d *sim.Disk, name string, data []byte) {
	t.Helper()
	err := d.MkdirAll(path.Dir(name))
	var file disk.File
	if err == nil {
		file, err = d.Open(name, disk.CreateNew)
	}
	if err == nil && len(data) > 0 {
		err = disk.Run(d, &disk.Op{Kind: disk.Write, File: file, Buf: data})
	}
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
