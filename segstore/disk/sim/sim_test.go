package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/disktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestDisk_Conformance(t *testing.T) {
	for _, order := range []Order{Ordered, Shuffled} {
		t.Run(fmt.Sprint(order), func(t *testing.T) {
			t.Parallel()
			disktest.Run(t, func(testing.TB, string) disk.Disk { return New(Options{Order: order}) })
		})
	}
}

// failer is *testing.T or *rapid.T.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
}

func must(t failer, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t failer, d disk.Disk, path string) disk.File {
	t.Helper()
	f, err := d.Open(path, disk.Create)
	must(t, err)
	return f
}

func write(d disk.Disk, f disk.File, pos int64, data []byte) error {
	return disk.Run(d, &disk.Op{Kind: disk.Write, File: f, Pos: pos, Buf: data})
}

func syncFile(d disk.Disk, f disk.File) error {
	return disk.Run(d, &disk.Op{Kind: disk.Sync, File: f})
}

// durableFile makes a file at the root that survives everything.
func durableFile(t failer, d *Disk, path string, data []byte) disk.File {
	t.Helper()
	f := open(t, d, path)
	must(t, write(d, f, 0, data))
	must(t, syncFile(d, f))
	must(t, d.SyncDir(""))
	return f
}

func contentOf(t failer, d *Disk, path string) []byte {
	t.Helper()
	data, err := d.ReadFile(path)
	must(t, err)
	return data
}

func TestDisk_DirectoryErrors(t *testing.T) {
	d := New(Options{})
	must(t, d.MkdirAll("a/b"))
	must(t, open(t, d, "f").Close())
	must(t, open(t, d, "a/b/g").Close())
	_, openDirectory := d.Open("a", disk.ReadOnly)
	_, readFile := d.ReadDir("f")
	for name, tc := range map[string]struct{ got, want error }{
		"open a directory":       {openDirectory, syscall.EISDIR},
		"readdir of a file":      {readFile, syscall.ENOTDIR},
		"syncdir of a file":      {d.SyncDir("f"), syscall.ENOTDIR},
		"below a file":           {d.Rename("f", "f/x"), syscall.ENOTDIR},
		"into itself":            {d.Rename("a", "a/b/c"), syscall.EINVAL},
		"file over directory":    {d.Rename("f", "a"), syscall.EEXIST},
		"directory over file":    {d.Rename("a", "f"), syscall.ENOTDIR},
		"link of a directory":    {d.Link("a", "c"), syscall.EPERM},
		"rename onto itself":     {d.Rename("f", "f"), nil},
		"remove of what is full": {d.Remove("a"), syscall.ENOTEMPTY},
	} {
		if !errors.Is(tc.got, tc.want) || tc.want == nil && tc.got != nil {
			t.Errorf("%s: %v, want %v", name, tc.got, tc.want)
		}
	}
	if got, want := d.Files(), []string{"a/b/g", "f"}; !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
	entries, err := d.ReadDir("")
	must(t, err)
	info, err := entries[1].Info()
	must(t, err)
	if info.Name() != "f" || info.IsDir() || info.Size() != 0 || !entries[0].Type().IsDir() {
		t.Errorf("entries %v", entries)
	}
	if _, err := d.ReadFile("a"); !errors.Is(err, syscall.EISDIR) {
		t.Errorf("ReadFile of a directory: %v", err)
	}
	must(t, d.Close())
	if err := d.SyncDir(""); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("SyncDir of a closed disk: %v", err)
	}
}

func TestDisk_ManualStepsInAnyOrder(t *testing.T) {
	d := New(Options{Seed: 3, Order: Manual})
	f := open(t, d, "f")
	var order []int64
	ops := make([]*disk.Op, 10)
	for i := range ops {
		ops[i] = &disk.Op{Kind: disk.Write, File: f, Pos: int64(i), Buf: []byte{1}, Done: func(op *disk.Op) { order = append(order, op.Pos) }}
	}
	d.Submit(ops)
	if size, _ := f.Size(); size != 0 || len(order) != 0 {
		t.Fatalf("an op ran by itself: size %d, done %v", size, order)
	}
	for d.Step() {
	}
	if slices.IsSorted(order) {
		t.Errorf("steps in submission order: %v", order)
	}
	if slices.Sort(order); !slices.Equal(order, []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) {
		t.Errorf("done: %v", order)
	}
	d.Submit(ops[:1])
	must(t, d.Close()) // steps through the rest
	if len(order) != 11 {
		t.Errorf("%d ops done after Close, want 11", len(order))
	}
}

func TestDisk_OrderedTakesEffectInSubmit(t *testing.T) {
	d := New(Options{})
	f := open(t, d, "f")
	var finished sync.WaitGroup
	finished.Add(1)
	var mutex sync.Mutex
	mutex.Lock() // held across Submit and wanted by Done, as a caller may
	d.Submit([]*disk.Op{{Kind: disk.Write, File: f, Buf: []byte("now"), Done: func(*disk.Op) {
		mutex.Lock()
		defer mutex.Unlock()
		finished.Done()
	}}})
	if got := contentOf(t, d, "f"); string(got) != "now" {
		t.Errorf("content after Submit: %q", got)
	}
	mutex.Unlock()
	finished.Wait()
}

// TestDisk_CrashUnderLoad cuts under real goroutines: every Done is called
// once, and what was synced before the crash is there after it.
func TestDisk_CrashUnderLoad(t *testing.T) {
	for _, order := range []Order{Ordered, Shuffled} {
		for seed := range uint64(20) {
			d := New(Options{Seed: seed, Order: order})
			must(t, d.SyncDir(""))
			const writers = 4
			files := make([]disk.File, writers)
			for i := range files {
				files[i] = open(t, d, fmt.Sprint(i))
			}
			must(t, d.SyncDir(""))
			d.CrashAfter(int64(20 + seed*5))
			var synced [writers]atomic.Int64
			var group sync.WaitGroup
			for i, f := range files {
				group.Go(func() {
					for pos := int64(0); ; pos += 100 {
						err := write(d, f, pos, bytes.Repeat([]byte{byte(pos/100) + 1}, 100))
						if err == nil {
							err = syncFile(d, f)
						}
						if err != nil {
							if !errors.Is(err, ErrPowerCut) {
								t.Errorf("writer %d: %v", i, err)
							}
							return
						}
						synced[i].Store(pos + 100)
					}
				})
			}
			<-d.Crashed()
			after := d.PowerCut()
			group.Wait()
			must(t, d.Close())
			for i := range files {
				got := contentOf(t, after, fmt.Sprint(i))
				for pos := range synced[i].Load() {
					if pos >= int64(len(got)) || got[pos] != byte(pos/100)+1 {
						t.Fatalf("seed %d, writer %d: byte %d of %d synced is lost", seed, i, pos, synced[i].Load())
					}
				}
			}
		}
	}
}

func TestDisk_DeadAfterCut(t *testing.T) {
	d := New(Options{})
	f := durableFile(t, d, "f", []byte("x"))
	after := d.PowerCut()
	_, openError := d.Open("f", disk.ReadOnly)
	_, freeError := d.Free()
	_, sizeError := f.Size()
	for name, err := range map[string]error{
		"write":            write(d, f, 0, []byte("y")),
		"old handle":       write(after, f, 0, []byte("y")),
		"open":             openError,
		"free":             freeError,
		"size":             sizeError,
		"rename":           d.Rename("f", "g"),
		"mkdir":            d.MkdirAll("m"),
		"remove":           d.Remove("f"),
		"remove all":       d.RemoveAll("f"),
		"sync a directory": d.SyncDir(""),
	} {
		if !errors.Is(err, ErrPowerCut) {
			t.Errorf("%s: %v, want %v", name, err, ErrPowerCut)
		}
	}
	must(t, f.Close())
	if got := contentOf(t, after, "f"); string(got) != "x" {
		t.Errorf("after the cut: %q", got)
	}
	if got := contentOf(t, d, "f"); string(got) != "x" {
		t.Errorf("introspection of the dead disk: %q", got)
	}
}

func TestDisk_CountersAndLog(t *testing.T) {
	d := New(Options{})
	f := open(t, d, "f")
	must(t, write(d, f, 0, make([]byte, 100)))
	must(t, syncFile(d, f))
	must(t, write(d, f, 100, make([]byte, 20)))
	must(t, disk.Run(d, &disk.Op{Kind: disk.Read, File: f, Buf: make([]byte, 200)}))
	must(t, d.Rename("f", "g"))
	d.Inject(Rule{Calls: CallSync})
	if err := syncFile(d, f); !errors.Is(err, syscall.EIO) {
		t.Errorf("sync: %v", err)
	}
	if got, want := d.Stats(), (Stats{BytesWritten: 120, BytesRead: 120, BytesSynced: 100, Syncs: 1, SyncsFailed: 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := d.Changes(); got != 6 {
		t.Errorf("%d changes, want 6", got)
	}
	var log strings.Builder
	must(t, d.DumpLog(&log))
	want := `0 create f
1 write f at 0, 100 of 100 bytes
2 sync f
3 write f at 100, 20 of 20 bytes
4 read f at 0, 120 of 200 bytes
5 rename f to g
6 sync f: input/output error
`
	if log.String() != want {
		t.Errorf("log:\n%swant:\n%s", log.String(), want)
	}
	for range logEntriesMax {
		must(t, d.SyncDir(""))
	}
	log.Reset()
	must(t, d.DumpLog(&log))
	if lines := strings.Count(log.String(), "\n"); lines != logEntriesMax || !strings.HasPrefix(log.String(), "7 syncdir") {
		t.Errorf("%d lines after wrapping, first %.20q", lines, log.String())
	}
}
