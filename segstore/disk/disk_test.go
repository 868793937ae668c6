package disk_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/disktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// backends are the real ones; uring skips visibly where it can't run.
var backends = []struct {
	name string
	open disktest.Opener
}{
	{"posix", func(t testing.TB, root string) disk.Disk {
		d, err := disk.OpenPosix(root)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}},
	{"uring", func(t testing.TB, root string) disk.Disk {
		d, err := disk.OpenUring(root)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		return d
	}},
}

func forEachBackend(t *testing.T, run func(t *testing.T, open disktest.Opener)) {
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) {
			t.Parallel()
			run(t, backend.open)
		})
	}
}

func TestDisk_Conformance(t *testing.T) { forEachBackend(t, disktest.Run) }

func TestDisk_PunchFreesBlocks(t *testing.T) {
	forEachBackend(t, func(t *testing.T, open disktest.Opener) {
		root := t.TempDir()
		d := open(t, root)
		defer d.Close()
		f, err := d.Open("f", disk.CreateNew)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		allocated := func() int64 {
			// Delayed allocation: blocks are counted exactly after a sync.
			if err := disk.Run(d, &disk.Op{Kind: disk.Sync, File: f}); err != nil {
				t.Fatal(err)
			}
			var stat unix.Stat_t
			if err := unix.Stat(filepath.Join(root, "f"), &stat); err != nil {
				t.Fatal(err)
			}
			return stat.Blocks * 512
		}
		const size, hole = 4 << 20, 3 << 20
		if err := disk.Run(d, &disk.Op{Kind: disk.Write, File: f, Buf: bytes.Repeat([]byte{1}, size)}); err != nil {
			t.Fatal(err)
		}
		before := allocated()
		err = disk.Run(d, &disk.Op{Kind: disk.Punch, File: f, Pos: 1 << 19, Len: hole})
		if errors.Is(err, syscall.EOPNOTSUPP) {
			t.Skip("the file system of the temporary directory cannot punch holes")
		}
		if err != nil {
			t.Fatal(err)
		}
		// Bookkeeping blocks of the file system may move a little.
		if freed := before - allocated(); freed < hole-64<<10 {
			t.Errorf("punching %d bytes freed %d", hole, freed)
		}
	})
}

func TestDisk_FullFileSystem(t *testing.T) {
	forEachBackend(t, func(t *testing.T, open disktest.Opener) {
		root := t.TempDir()
		if err := unix.Mount("tmpfs", root, "tmpfs", 0, "size=256k"); err != nil {
			t.Skipf("a tmpfs cannot be mounted here (needs root): %v", err)
		}
		defer func() {
			if err := unix.Unmount(root, 0); err != nil {
				t.Errorf("unmount: %v", err)
			}
		}()
		d := open(t, root)
		defer d.Close()
		f, err := d.Open("f", disk.CreateNew)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		free, err := d.Free()
		if err != nil || free <= 0 || free > 256<<10 {
			t.Errorf("free: %d, %v", free, err)
		}
		op := &disk.Op{Kind: disk.Write, File: f, Buf: make([]byte, 1<<20)}
		err = disk.Run(d, op)
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("1 MiB into 256 KiB: %v", err)
		}
		if want := "write f: no space left on device"; err.Error() != want {
			t.Errorf("error text %q, want %q", err, want)
		}
		size, err := f.Size()
		if err != nil || int64(op.N) != size {
			t.Errorf("%d bytes reported written, the file has %d (%v)", op.N, size, err)
		}
	})
}

func TestOpenPosix_CreatesTheRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "a", "b")
	d, err := disk.OpenPosix(root)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if info, err := os.Stat(root); err != nil || !info.IsDir() {
		t.Errorf("root: %v, %v", info, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := disk.OpenPosix(file); err == nil || !strings.Contains(err.Error(), "data directory") {
		t.Errorf("a file as root: %v", err)
	}
}

func TestDisk_SubmitAllocatesNothing(t *testing.T) {
	offHeap, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANONYMOUS|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(offHeap) }()
	for _, backend := range backends {
		for name, buf := range map[string][]byte{"heap": make([]byte, 4096), "off-heap": offHeap} {
			t.Run(backend.name+"/"+name, func(t *testing.T) {
				d := backend.open(t, t.TempDir())
				defer d.Close()
				f, err := d.Open("f", disk.CreateNew)
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				done := make(chan struct{}, 1)
				ops := []*disk.Op{{Kind: disk.Write, File: f, Buf: buf, Done: func(*disk.Op) { done <- struct{}{} }}}
				allocs := testing.AllocsPerRun(200, func() {
					d.Submit(ops)
					<-done
				})
				if allocs != 0 {
					t.Errorf("%v allocations per write", allocs)
				}
			})
		}
	}
}
