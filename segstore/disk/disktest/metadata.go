package disktest

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

func openFlags(t *testing.T, d disk.Disk) {
	for _, flag := range []disk.Flag{disk.ReadOnly, disk.ReadWrite} {
		if _, err := d.Open("missing", flag); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("flag %d on a missing file: %v", flag, err)
		}
	}
	f, err := d.Open("f", disk.Create)
	must(t, err)
	if f.Name() != "f" {
		t.Errorf("name %q", f.Name())
	}
	write(t, d, f, 0, []byte("kept"))
	must(t, f.Close())
	if _, err := d.Open("f", disk.CreateNew); !errors.Is(err, fs.ErrExist) {
		t.Errorf("CreateNew on an existing file: %v", err)
	}
	for _, flag := range []disk.Flag{disk.ReadOnly, disk.ReadWrite, disk.Create} {
		f, err := d.Open("f", flag)
		must(t, err)
		if got := read(t, d, f, 0, 10); string(got) != "kept" {
			t.Errorf("flag %d: read %q", flag, got)
		}
		must(t, f.Close())
	}
	if _, err := d.Open("f", disk.Flag(99)); err == nil {
		t.Error("an unknown flag was accepted")
	}
	if _, err := d.Open("no/directory/f", disk.Create); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("create in a missing directory: %v", err)
	}
}

func renameLinkRemove(t *testing.T, d disk.Disk) {
	f := create(t, d, "old")
	defer f.Close()
	write(t, d, f, 0, []byte("content"))
	must(t, d.Link("old", "linked"))
	if err := d.Link("old", "linked"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("link over an existing file: %v", err)
	}
	must(t, create(t, d, "target").Close())
	must(t, d.Rename("old", "target"))
	if _, err := d.Open("old", disk.ReadOnly); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old name still opens: %v", err)
	}
	for _, path := range []string{"target", "linked"} {
		g, err := d.Open(path, disk.ReadOnly)
		must(t, err)
		if got := read(t, d, g, 0, 10); string(got) != "content" {
			t.Errorf("%s: read %q", path, got)
		}
		must(t, g.Close())
		must(t, d.Remove(path))
	}
	if err := d.Remove("target"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("remove of a missing file: %v", err)
	}
	err := d.Rename("missing", "x")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("rename of a missing file: %v", err)
	}
	// An open file outlives its name.
	if got := read(t, d, f, 0, 10); string(got) != "content" {
		t.Errorf("a removed, still open file reads %q", got)
	}
	must(t, d.SyncDir("."))
}

func directories(t *testing.T, d disk.Disk) {
	must(t, d.MkdirAll("logs/0001"))
	must(t, d.MkdirAll("logs/0001"))
	must(t, create(t, d, "logs/0001/b").Close())
	must(t, create(t, d, "logs/0001/a").Close())
	must(t, d.SyncDir("logs/0001"))
	must(t, d.SyncDir("logs"))
	must(t, d.SyncDir(""))
	entries, err := d.ReadDir("logs/0001")
	must(t, err)
	if len(entries) != 2 || entries[0].Name() != "a" || entries[1].Name() != "b" || entries[0].IsDir() {
		t.Errorf("entries %v", entries)
	}
	entries, err = d.ReadDir(".")
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != "logs" || !entries[0].IsDir() {
		t.Errorf("entries of the root %v", entries)
	}
	if err := d.Remove("logs/0001"); err == nil {
		t.Error("Remove took a directory that was not empty")
	}
	if err := d.MkdirAll("logs/0001/a"); err == nil {
		t.Error("MkdirAll accepted a file")
	}
	must(t, d.Rename("logs/0001", "logs/0002"))
	must(t, d.RemoveAll("logs"))
	must(t, d.RemoveAll("logs"))
	if _, err := d.ReadDir("logs"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("ReadDir of a removed directory: %v", err)
	}
	if err := d.SyncDir("logs"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("SyncDir of a removed directory: %v", err)
	}
	free, err := d.Free()
	must(t, err)
	if free <= 0 {
		t.Errorf("free space %d", free)
	}
}

func pathsStayInside(t *testing.T, d disk.Disk) {
	must(t, create(t, d, "f").Close())
	for _, path := range []string{"..", "../x", "/etc", "a/../../x", "a//b", "./f"} {
		if _, err := d.Open(path, disk.Create); !errors.Is(err, fs.ErrInvalid) {
			t.Errorf("Open(%q): %v", path, err)
		}
		for _, err := range []error{d.MkdirAll(path), d.Remove(path), d.RemoveAll(path), d.Rename("f", path), d.Rename(path, "g"), d.Link("f", path), d.SyncDir(path)} {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("%q: %v", path, err)
			}
		}
	}
	for _, root := range []string{"", "."} {
		for _, err := range []error{d.Remove(root), d.RemoveAll(root), d.Rename(root, "x"), d.Rename("f", root), d.Link("f", root)} {
			if !errors.Is(err, fs.ErrInvalid) {
				t.Errorf("the root as %q: %v", root, err)
			}
		}
	}
	f, err := d.Open("f", disk.ReadOnly)
	must(t, err)
	must(t, f.Close())
}
