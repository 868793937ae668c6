package sim

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// names finds every file by its content, which the tests keep unique.
func names(t failer, d *Disk) map[string][]string {
	found := map[string][]string{}
	for _, name := range d.Files() {
		id := string(contentOf(t, d, name))
		found[id] = append(found[id], name)
	}
	return found
}

// nameOracle knows for each file the names it may have after a cut: those it
// had since it was last certain. Directories a, b and a/c never move.
type nameOracle struct {
	now     map[string]string   // file -> name, "" removed
	may     map[string][]string // file -> names it may have, "" none
	changed map[string][]string // file -> directories that took part since it was certain
}

func (o *nameOracle) moved(file, to string) {
	from := o.now[file]
	for _, name := range []string{from, to} {
		if name != "" {
			o.changed[file] = append(o.changed[file], path.Dir(name))
		}
	}
	o.now[file] = to
	o.may[file] = append(o.may[file], to)
}

func (o *nameOracle) at(name string) string {
	for file, at := range o.now {
		if at == name {
			return file
		}
	}
	return ""
}

// synced is SyncDir: the last change of a file being certain, so are those before.
func (o *nameOracle) synced(directory string) {
	for file, now := range o.now {
		dirs := o.changed[file]
		if len(dirs) == 0 {
			continue
		}
		// The directories of the last change: the one the file is in, or was removed from.
		last := dirs[len(dirs)-1]
		if last == directory {
			o.may[file], o.changed[file] = []string{now}, nil
		}
	}
}

func TestPowerCut_Names(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New(Options{Seed: rapid.Uint64().Draw(t, "seed")})
		must(t, d.MkdirAll("a/c"))
		must(t, d.MkdirAll("b"))
		must(t, d.SyncDir("a"))
		must(t, d.SyncDir(""))
		o := &nameOracle{now: map[string]string{}, may: map[string][]string{}, changed: map[string][]string{}}
		directories := []string{"a", "b", "a/c"}
		name := func() string {
			return path.Join(rapid.SampledFrom(directories).Draw(t, "directory"), rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "name"))
		}
		for step := range rapid.IntRange(0, 30).Draw(t, "steps") {
			at := name()
			file := o.at(at)
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case kind == 0:
				directory := rapid.SampledFrom(directories).Draw(t, "directory")
				must(t, d.SyncDir(directory))
				o.synced(directory)
			case kind == 1 && file != "":
				must(t, d.Remove(at))
				o.moved(file, "")
			case file == "":
				f, err := d.Open(at, disk.CreateNew)
				must(t, err)
				id := fmt.Sprintf("file %d", step)
				must(t, write(d, f, 0, []byte(id)))
				must(t, syncFile(d, f)) // the content is certain, the name is not
				must(t, f.Close())
				o.may[id] = []string{""}
				o.moved(id, at)
			default:
				to := name()
				replaced := o.at(to)
				must(t, d.Rename(at, to))
				if replaced == file {
					break
				}
				if replaced != "" {
					o.moved(replaced, "")
				}
				o.moved(file, to)
			}
		}
		killed := names(t, d.Kill())
		for file, now := range o.now {
			if got := strings.Join(killed[file], " "); got != now {
				t.Fatalf("%s after a kill: %q, want %q", file, got, now)
			}
		}
		for range 4 {
			found := names(t, d.PowerCut())
			for file, may := range o.may {
				switch got := found[file]; {
				case len(got) > 1:
					t.Fatalf("%s has the names %q", file, got)
				case len(got) == 0 && !slices.Contains(may, ""):
					t.Fatalf("%s is lost, may be at %q", file, may)
				case len(got) == 1 && !slices.Contains(may, got[0]):
					t.Fatalf("%s is at %q, may be at %q", file, got, may)
				}
			}
		}
	})
}

// TestPowerCut_DirectoriesLoseNoFile moves files and directories about, without
// removing a file: those with a durable name always have exactly one.
func TestPowerCut_DirectoriesLoseNoFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := New(Options{Seed: rapid.Uint64().Draw(t, "seed")})
		for _, directory := range []string{"a/b", "a/c", "d"} {
			must(t, d.MkdirAll(directory))
		}
		for _, name := range []string{"a/1", "a/b/2", "a/c/3", "d/4"} {
			f := open(t, d, name)
			must(t, write(d, f, 0, []byte(name)))
			must(t, syncFile(d, f))
			must(t, f.Close())
		}
		for _, directory := range []string{"", "a", "a/b", "a/c", "d"} {
			must(t, d.SyncDir(directory))
		}
		pathName := rapid.Custom(func(t *rapid.T) string {
			return path.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 3).Draw(t, "path")...)
		})
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			from, to := pathName.Draw(t, "from"), pathName.Draw(t, "to")
			switch rapid.IntRange(0, 5).Draw(t, "kind") {
			case 0:
				_ = d.MkdirAll(to) // what the tree does not allow changes nothing
			case 1:
				_ = d.SyncDir(to)
			case 2:
				if entries, err := d.ReadDir(from); err == nil && len(entries) == 0 {
					must(t, d.Remove(from))
				}
			case 3:
				_ = d.Rename(path.Join(from, rapid.SampledFrom([]string{"1", "2", "3", "4"}).Draw(t, "file")), path.Join(to, rapid.SampledFrom([]string{"5", "6", "7"}).Draw(t, "free")+fmt.Sprint(d.Changes())))
			default:
				_ = d.Rename(from, to)
			}
		}
		for _, after := range []*Disk{d.Kill(), d.PowerCut(), d.PowerCut(), d.Kill().PowerCut()} {
			found := names(t, after)
			for _, file := range []string{"a/1", "a/b/2", "a/c/3", "d/4"} {
				if len(found[file]) != 1 {
					t.Fatalf("%s has the names %q; before the cut %q", file, found[file], names(t, d)[file])
				}
			}
		}
	})
}

func TestPowerCut_NewDirectoryNeedsItsParentSynced(t *testing.T) {
	lost, kept := 0, 0
	for seed := range uint64(100) {
		d := New(Options{Seed: seed})
		must(t, d.MkdirAll("logs"))
		f := open(t, d, "logs/f.tmp")
		must(t, syncFile(d, f))
		must(t, d.Rename("logs/f.tmp", "logs/f"))
		must(t, d.SyncDir("logs")) // not SyncDir("")
		if files := d.PowerCut().Files(); len(files) == 0 {
			lost++
		} else if slices.Equal(files, []string{"logs/f"}) {
			kept++
		} else {
			t.Fatalf("files %q", files)
		}
		must(t, d.Kill().SyncDir(""))
	}
	if lost == 0 || kept == 0 {
		t.Errorf("lost %d times, kept %d times", lost, kept)
	}
}

func TestPowerCut_LinkThenRemoveKeepsOne(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		d := New(Options{Seed: seed})
		must(t, durableFile(t, d, "old", []byte("content")).Close())
		must(t, d.MkdirAll("kept"))
		must(t, d.Link("old", "kept/new"))
		must(t, d.Remove("old"))
		files := d.PowerCut().Files()
		if len(files) == 0 {
			t.Fatalf("seed %d: the file is lost", seed)
		}
		seen[strings.Join(files, " ")] = true
	}
	if len(seen) != 3 {
		t.Errorf("outcomes %v, want the old name, both, and the new one", seen)
	}
}

func TestPowerCut_RemovedDirectoryTakesNoMovedFile(t *testing.T) {
	for seed := range uint64(50) {
		d := New(Options{Seed: seed})
		must(t, d.MkdirAll("a"))
		must(t, d.MkdirAll("b"))
		f := open(t, d, "a/f")
		must(t, d.SyncDir("a"))
		must(t, d.SyncDir(""))
		must(t, f.Close())
		must(t, d.Rename("a/f", "b/f"))
		must(t, d.Remove("a"))
		if seed%2 == 0 {
			must(t, d.SyncDir("")) // of the removal, and so of the move
		}
		files := d.PowerCut().Files()
		if len(files) != 1 || seed%2 == 0 && files[0] != "b/f" {
			t.Fatalf("seed %d: files %q", seed, files)
		}
	}
}
