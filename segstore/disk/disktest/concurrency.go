package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

func closedFile(t *testing.T, d disk.Disk) {
	f := create(t, d, "f")
	must(t, f.Close())
	for kind := disk.Write; kind <= disk.Punch; kind++ {
		op := &disk.Op{Kind: kind, File: f, Buf: make([]byte, 1), Len: 1, N: 99}
		if err := disk.Run(d, op); !errors.Is(err, fs.ErrClosed) || op.N != 0 {
			t.Errorf("%v: %v, %d bytes", kind, err, op.N)
		}
	}
	if _, err := f.Size(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("Size: %v", err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
}

// closeFileWithOpsInFlight closes a file behind its writes and opens others
// meanwhile: each write must end up in its own file.
func closeFileWithOpsInFlight(t *testing.T, d disk.Disk) {
	const rounds, writes = 20, 32
	for round := range rounds {
		path := fmt.Sprintf("f%d", round)
		f := create(t, d, path)
		var group sync.WaitGroup
		ops := make([]*disk.Op, writes)
		for i := range ops {
			group.Add(1)
			ops[i] = &disk.Op{Kind: disk.Write, File: f, Pos: int64(i), Buf: []byte{byte(round + 1)}, Done: func(op *disk.Op) {
				if op.Err != nil {
					t.Errorf("write: %v", op.Err)
				}
				group.Done()
			}}
		}
		d.Submit(ops)
		must(t, f.Close())
		other := create(t, d, path+".other")
		group.Wait()
		wantSize(t, other, 0)
		must(t, other.Close())
		g, err := d.Open(path, disk.ReadOnly)
		must(t, err)
		if got := bytes.Count(read(t, d, g, 0, writes+1), []byte{byte(round + 1)}); got != writes {
			t.Errorf("%d of %d writes are in the file", got, writes)
		}
		must(t, g.Close())
	}
}

func invalidArguments(t *testing.T, d disk.Disk) {
	f := create(t, d, "f")
	defer f.Close()
	for _, op := range []*disk.Op{
		{Kind: disk.Write, Pos: -5, Buf: []byte("x")},
		{Kind: disk.Read, Pos: -5, Buf: []byte("x")},
		{Kind: disk.Truncate, Pos: -5},
		{Kind: disk.Punch, Pos: -5, Len: 1},
		{Kind: disk.Punch, Len: 0},
		{Kind: disk.Kind(99)},
	} {
		op.File = f
		if err := disk.Run(d, op); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%v at %d: %v, want %v", op.Kind, op.Pos, err, syscall.EINVAL)
		}
	}
	wantSize(t, f, 0)
}

func manyOpsCompleteOnce(t *testing.T, d disk.Disk) {
	const submitters, each, block = 10, 100, 512
	f := create(t, d, "f")
	defer f.Close()
	var done [submitters * each]atomic.Int32
	var finished, submitted sync.WaitGroup
	finished.Add(submitters * each)
	for s := range submitters {
		submitted.Go(func() {
			ops := make([]*disk.Op, each)
			for i := range ops {
				index := s*each + i
				ops[i] = &disk.Op{Kind: disk.Write, File: f, Pos: int64(index) * block, Buf: bytes.Repeat([]byte{byte(index%255) + 1}, block)}
				if i%10 == 9 {
					ops[i].Kind = disk.Sync
				}
				ops[i].Done = func(op *disk.Op) {
					if op.Err != nil || (op.Kind == disk.Write && op.N != block) {
						t.Errorf("op %d: %d bytes, %v", index, op.N, op.Err)
					}
					done[index].Add(1)
					finished.Done()
				}
			}
			d.Submit(ops[:each/2])
			d.Submit(ops[each/2:])
		})
	}
	submitted.Wait()
	finished.Wait()
	content := read(t, d, f, 0, submitters*each*block)
	for i := range done {
		if n := done[i].Load(); n != 1 {
			t.Errorf("op %d completed %d times", i, n)
		}
		if want := byte(i%255) + 1; i%10 != 9 && (content[i*block] != want || content[i*block+block-1] != want) {
			t.Errorf("block %d holds %d, want %d", i, content[i*block], want)
		}
	}
}

// doneSubmitsAgain chains one Op through its own Done.
func doneSubmitsAgain(t *testing.T, d disk.Disk) {
	const rounds = 200
	f := create(t, d, "f")
	defer f.Close()
	end := make(chan error, 1)
	op := &disk.Op{Kind: disk.Write, File: f, Buf: []byte("abc")}
	op.Done = func(op *disk.Op) {
		op.Pos += int64(op.N)
		if op.Err != nil || op.Pos == 3*rounds {
			end <- op.Err
			return
		}
		d.Submit([]*disk.Op{op})
	}
	d.Submit([]*disk.Op{op})
	must(t, <-end)
	if got := read(t, d, f, 0, 10*rounds); !bytes.Equal(got, bytes.Repeat([]byte("abc"), rounds)) {
		t.Errorf("%d bytes of the chain came back", len(got))
	}
}

func submittedSliceIsTheCallers(t *testing.T, d disk.Disk) {
	f := create(t, d, "f")
	defer f.Close()
	var finished sync.WaitGroup
	slice := make([]*disk.Op, 1)
	for i := range 100 {
		finished.Add(1)
		slice[0] = &disk.Op{Kind: disk.Write, File: f, Pos: int64(i), Buf: []byte{7}, Done: func(*disk.Op) { finished.Done() }}
		d.Submit(slice)
		slice[0] = nil
	}
	finished.Wait()
	if got := read(t, d, f, 0, 200); !bytes.Equal(got, bytes.Repeat([]byte{7}, 100)) {
		t.Errorf("%d bytes written", len(got))
	}
}

// model compares random batches with a byte slice. Ops of one batch touch
// different ranges, because they are unordered.
func model(t *testing.T, d disk.Disk) {
	const fileBytes, slots = 1 << 16, 16
	const slotBytes = fileBytes / slots
	random := rand.New(rand.NewPCG(1, 2))
	f := create(t, d, "f")
	defer f.Close()
	want := make([]byte, fileBytes)
	write(t, d, f, 0, want)
	for range 100 {
		var ops []*disk.Op
		for slot := range slots {
			pos := slot*slotBytes + random.IntN(slotBytes)
			size := random.IntN((slot+1)*slotBytes - pos + 1)
			op := &disk.Op{File: f, Pos: int64(pos)}
			switch random.IntN(4) {
			case 0:
				op.Kind, op.Buf = disk.Read, make([]byte, size)
			case 1:
				op.Kind = disk.Sync
			default:
				op.Kind, op.Buf = disk.Write, make([]byte, size)
				for i := range op.Buf {
					op.Buf[i] = byte(random.Uint32())
				}
			}
			ops = append(ops, op)
		}
		must(t, disk.Run(d, ops...))
		for _, op := range ops {
			switch op.Kind {
			case disk.Write:
				copy(want[op.Pos:], op.Buf)
			case disk.Read:
				if !bytes.Equal(op.Buf[:op.N], want[op.Pos:op.Pos+int64(len(op.Buf))]) {
					t.Fatalf("read of %d at %d differs from the model", len(op.Buf), op.Pos)
				}
			}
		}
	}
	if !bytes.Equal(read(t, d, f, 0, fileBytes+1), want) {
		t.Error("the file differs from the model at the end")
	}
}
