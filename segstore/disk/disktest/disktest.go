// Package disktest is the list of tests that every implementation of disk.Disk
// passes. An implementation's own test file calls Run.
package disktest

import (
	"bytes"
	"errors"
	"io/fs"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Opener opens a Disk on an existing directory of its own.
type Opener func(t testing.TB, root string) disk.Disk

// Run runs all tests as subtests of t.
func Run(t *testing.T, open Opener) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, disk.Disk)
	}{
		{"WriteReadAtPositions", writeReadAtPositions},
		{"ReadEndsAtEndOfFile", readEndsAtEndOfFile},
		{"EmptyBuffers", emptyBuffers},
		{"SyncTruncateSize", syncTruncateSize},
		{"PunchReadsAsZeros", punchReadsAsZeros},
		{"OpenFlags", openFlags},
		{"RenameLinkRemove", renameLinkRemove},
		{"Directories", directories},
		{"PathsStayInside", pathsStayInside},
		{"WriteToReadOnlyFile", writeToReadOnlyFile},
		{"ClosedFile", closedFile},
		{"CloseFileWithOpsInFlight", closeFileWithOpsInFlight},
		{"InvalidArguments", invalidArguments},
		{"ManyOpsCompleteOnce", manyOpsCompleteOnce},
		{"DoneSubmitsAgain", doneSubmitsAgain},
		{"SubmittedSliceIsTheCallers", submittedSliceIsTheCallers},
		{"SyncAfterWrite", syncAfterWrite},
		{"Model", model},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := open(t, t.TempDir())
			if d.Name() == "" {
				t.Error("a Disk without a name")
			}
			test.run(t, d)
			if err := d.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
		})
	}
	t.Run("ClosedDisk", func(t *testing.T) {
		t.Parallel()
		d := open(t, t.TempDir())
		f := create(t, d, "f")
		must(t, d.Close())
		if err := disk.Run(d, &disk.Op{Kind: disk.Write, File: f, Buf: []byte("x")}); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("write through a closed disk: %v, want %v", err, fs.ErrClosed)
		}
		if err := d.Close(); !errors.Is(err, fs.ErrClosed) {
			t.Errorf("second Close: %v, want %v", err, fs.ErrClosed)
		}
		must(t, f.Close())
	})
	t.Run("CloseDrains", func(t *testing.T) {
		t.Parallel()
		d := open(t, t.TempDir())
		f := create(t, d, "f")
		var finished atomic.Int32
		ops := make([]*disk.Op, 300)
		for i := range ops {
			ops[i] = &disk.Op{Kind: disk.Write, File: f, Pos: int64(i), Buf: []byte{1}, Done: func(op *disk.Op) {
				if op.Err == nil {
					finished.Add(1)
				}
			}}
		}
		d.Submit(ops)
		must(t, d.Close())
		if got := int(finished.Load()); got != len(ops) {
			t.Errorf("%d of %d writes done when Close returned", got, len(ops))
		}
		must(t, f.Close())
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func create(t testing.TB, d disk.Disk, path string) disk.File {
	t.Helper()
	f, err := d.Open(path, disk.CreateNew)
	must(t, err)
	return f
}

func write(t testing.TB, d disk.Disk, f disk.File, pos int64, data []byte) {
	t.Helper()
	op := &disk.Op{Kind: disk.Write, File: f, Pos: pos, Buf: data}
	must(t, disk.Run(d, op))
	if op.N != len(data) {
		t.Fatalf("wrote %d of %d bytes without an error", op.N, len(data))
	}
}

func read(t testing.TB, d disk.Disk, f disk.File, pos int64, size int) []byte {
	t.Helper()
	op := &disk.Op{Kind: disk.Read, File: f, Pos: pos, Buf: make([]byte, size)}
	must(t, disk.Run(d, op))
	return op.Buf[:op.N]
}

func wantSize(t testing.TB, f disk.File, want int64) {
	t.Helper()
	size, err := f.Size()
	must(t, err)
	if size != want {
		t.Errorf("size %d, want %d", size, want)
	}
}

func writeReadAtPositions(t *testing.T, d disk.Disk) {
	f := create(t, d, "f")
	defer f.Close()
	write(t, d, f, 10, []byte("basalt"))
	write(t, d, f, 0, []byte("head"))
	write(t, d, f, 12, []byte("SALT"))
	if got, want := read(t, d, f, 0, 16), []byte("head\x00\x00\x00\x00\x00\x00baSALT"); !bytes.Equal(got, want) {
		t.Errorf("read %q, want %q", got, want)
	}
	if got := read(t, d, f, 11, 3); string(got) != "aSA" {
		t.Errorf("read %q from the middle", got)
	}
	wantSize(t, f, 16)
	// More than one page and not a multiple of one.
	large := make([]byte, 3<<20+7)
	for i := range large {
		large[i] = byte(i >> 3)
	}
	write(t, d, f, 5, large)
	if !bytes.Equal(read(t, d, f, 5, len(large)), large) {
		t.Error("a large buffer came back changed")
	}
}

func syncAfterWrite(t *testing.T, d disk.Disk) {
	f := create(t, d, "f")
	defer f.Close()
	for _, data := range [][]byte{[]byte("basalt"), bytes.Repeat([]byte{7}, 1<<20), nil} {
		op := &disk.Op{Kind: disk.Write, File: f, Pos: 3, Buf: data, SyncAfter: true}
		must(t, disk.Run(d, op))
		if op.N != len(data) {
			t.Errorf("wrote %d of %d bytes", op.N, len(data))
		}
		if !bytes.Equal(read(t, d, f, 3, len(data)), data) {
			t.Errorf("%d bytes came back changed", len(data))
		}
	}
	readOnly, err := d.Open("f", disk.ReadOnly)
	must(t, err)
	defer readOnly.Close()
	op := &disk.Op{Kind: disk.Write, File: readOnly, Buf: []byte("x"), SyncAfter: true}
	if err := disk.Run(d, op); !errors.Is(err, syscall.EBADF) || op.N != 0 {
		t.Errorf("write to a read-only file: %v, %d bytes", err, op.N)
	}
}

func readEndsAtEndOfFile(t *testing.T, d disk.Disk) {
	f := create(t, d, "f")
	defer f.Close()
	write(t, d, f, 0, []byte("0123456789"))
	for _, tc := range []struct {
		pos  int64
		size int
		want string
	}{{0, 10, "0123456789"}, {0, 11, "0123456789"}, {7, 100, "789"}, {10, 5, ""}, {1000, 5, ""}} {
		if got := read(t, d, f, tc.pos, tc.size); string(got) != tc.want {
			t.Errorf("read of %d at %d: %q, want %q", tc.size, tc.pos, got, tc.want)
		}
	}
}

func emptyBuffers(t *testing.T, d disk.Disk) {
	f := create(t, d, "f")
	defer f.Close()
	write(t, d, f, 5, nil)
	wantSize(t, f, 0)
	if got := read(t, d, f, 0, 0); len(got) != 0 {
		t.Errorf("read %q into nothing", got)
	}
	d.Submit(nil)
	must(t, disk.Run(d))
}

func syncTruncateSize(t *testing.T, d disk.Disk) {
	f := create(t, d, "f")
	defer f.Close()
	write(t, d, f, 0, []byte("0123456789"))
	must(t, disk.Run(d, &disk.Op{Kind: disk.Sync, File: f}))
	must(t, disk.Run(d, &disk.Op{Kind: disk.Truncate, File: f, Pos: 4}))
	wantSize(t, f, 4)
	must(t, disk.Run(d, &disk.Op{Kind: disk.Truncate, File: f, Pos: 1 << 20}))
	wantSize(t, f, 1<<20)
	if got := read(t, d, f, 0, 8); string(got) != "0123\x00\x00\x00\x00" {
		t.Errorf("after cutting and extending: %q", got)
	}
	must(t, disk.Run(d, &disk.Op{Kind: disk.Truncate, File: f}))
	wantSize(t, f, 0)
	must(t, disk.Run(d, &disk.Op{Kind: disk.Sync, File: f}))
}

func punchReadsAsZeros(t *testing.T, d disk.Disk) {
	const size, hole, holeSize = 1 << 20, 64 << 10, 256 << 10
	f := create(t, d, "f")
	defer f.Close()
	data := bytes.Repeat([]byte{0xAB}, size)
	write(t, d, f, 0, data)
	err := disk.Run(d, &disk.Op{Kind: disk.Punch, File: f, Pos: hole, Len: holeSize})
	if errors.Is(err, syscall.EOPNOTSUPP) {
		t.Skip("the file system of the temporary directory cannot punch holes")
	}
	must(t, err)
	wantSize(t, f, size)
	clear(data[hole : hole+holeSize])
	if !bytes.Equal(read(t, d, f, 0, size), data) {
		t.Error("punching did not zero exactly the range")
	}
	// Past the end: the size stays.
	must(t, disk.Run(d, &disk.Op{Kind: disk.Punch, File: f, Pos: size, Len: size}))
	wantSize(t, f, size)
}

func writeToReadOnlyFile(t *testing.T, d disk.Disk) {
	must(t, d.MkdirAll("logs"))
	must(t, create(t, d, "logs/f").Close())
	f, err := d.Open("logs/f", disk.ReadOnly)
	must(t, err)
	defer f.Close()
	op := &disk.Op{Kind: disk.Write, File: f, Buf: []byte("x")}
	err = disk.Run(d, op)
	if !errors.Is(err, syscall.EBADF) || op.N != 0 {
		t.Errorf("write: %v, %d bytes", err, op.N)
	}
	if want := "write logs/f: bad file descriptor"; err == nil || err.Error() != want {
		t.Errorf("error text %q, want %q", err, want)
	}
	if err := disk.Run(d, &disk.Op{Kind: disk.Truncate, File: f}); err == nil {
		t.Error("a read-only file was truncated")
	}
	if err := disk.Run(d, &disk.Op{Kind: disk.Punch, File: f, Len: 4096}); err == nil {
		t.Error("a read-only file was punched")
	}
}
