package sim

import (
	"bytes"
	"errors"
	"math/bits"
	"slices"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

func TestInject_Matching(t *testing.T) {
	const calls = 6 // writes to a/f.seg, then as many to f.log
	for name, tc := range map[string]struct {
		rule Rule
		want []int // the calls that fail, of 2*calls
	}{
		"everything":      {Rule{Calls: CallWrite}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		"last name":       {Rule{Path: "*.seg"}, []int{0, 1, 2, 3, 4, 5}},
		"whole path":      {Rule{Path: "a/*"}, []int{0, 1, 2, 3, 4, 5}},
		"another call":    {Rule{Calls: CallSync | CallRead}, nil},
		"after":           {Rule{Path: "f.*", Calls: CallWrite, After: 10}, []int{10, 11}},
		"count":           {Rule{Path: "f.log", Count: 2}, []int{6, 7}},
		"after and count": {Rule{After: 3, Count: 2}, []int{3, 4}},
	} {
		d := New(Options{})
		must(t, d.MkdirAll("a"))
		files := []disk.File{open(t, d, "a/f.seg"), open(t, d, "f.log")}
		injection := d.Inject(tc.rule)
		var failed []int
		for i := range 2 * calls {
			if err := write(d, files[i/calls], 0, []byte("x")); errors.Is(err, syscall.EIO) {
				failed = append(failed, i)
			} else {
				must(t, err)
			}
		}
		if !slices.Equal(failed, tc.want) || injection.Struck() != len(tc.want) {
			t.Errorf("%s: failed %v, struck %d, want %v", name, failed, injection.Struck(), tc.want)
		}
		injection.Remove()
		must(t, write(d, files[0], 0, []byte("x")))
	}
}

func TestInject_Probability(t *testing.T) {
	d := New(Options{Seed: 1})
	f := open(t, d, "f")
	injection := d.Inject(Rule{Calls: CallRead, Probability: 0.5, Err: syscall.ENXIO})
	for range 200 {
		if err := disk.Run(d, &disk.Op{Kind: disk.Read, File: f, Buf: make([]byte, 1)}); err != nil && !errors.Is(err, syscall.ENXIO) {
			t.Fatal(err)
		}
	}
	if n := injection.Struck(); n < 50 || n > 150 {
		t.Errorf("struck %d of 200", n)
	}
}

func TestInject_EveryCall(t *testing.T) {
	d := New(Options{})
	f := open(t, d, "f")
	run := func(kind disk.Kind) func() error {
		return func() error { return disk.Run(d, &disk.Op{Kind: kind, File: f, Buf: make([]byte, 1), Len: 1}) }
	}
	for call, do := range map[Call]func() error{
		CallWrite: run(disk.Write), CallRead: run(disk.Read), CallSync: run(disk.Sync), CallTruncate: run(disk.Truncate), CallPunch: run(disk.Punch),
		CallOpen:    func() error { _, err := d.Open("f", disk.ReadOnly); return err },
		CallCreate:  func() error { _, err := d.Open("g", disk.Create); return err },
		CallMkdir:   func() error { return d.MkdirAll("m/n") },
		CallRemove:  func() error { return d.RemoveAll("f") },
		CallRename:  func() error { return d.Rename("f", "h") },
		CallLink:    func() error { return d.Link("f", "h") },
		CallSyncDir: func() error { return d.SyncDir("") },
		CallReadDir: func() error { _, err := d.ReadDir(""); return err },
		CallFree:    func() error { _, err := d.Free(); return err },
	} {
		injection := d.Inject(Rule{Calls: call})
		if err := do(); !errors.Is(err, syscall.EIO) || injection.Struck() != 1 {
			t.Errorf("%v: %v, struck %d", call, err, injection.Struck())
		}
		injection.Remove()
	}
	if files := d.Files(); !slices.Equal(files, []string{"f"}) {
		t.Errorf("calls that failed changed the names: %q", files)
	}
	if got := (CallWrite | CallFree).String(); got != "write|free" {
		t.Errorf("names of calls: %q", got)
	}
}

func TestInject_RefusesNonsense(t *testing.T) {
	for name, rule := range map[string]Rule{
		"pattern":          {Path: "["},
		"short sync":       {Calls: CallSync, Short: true},
		"flip with error":  {Calls: CallRead, Flip: true, Err: syscall.EIO},
		"flip of anything": {Flip: true},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s was accepted", name)
				}
			}()
			New(Options{}).Inject(rule)
		}()
	}
}

func TestInject_ShortWrite(t *testing.T) {
	parts := map[int]bool{}
	for seed := range uint64(20) {
		d := New(Options{Seed: seed})
		f := open(t, d, "f")
		data := bytes.Repeat([]byte("0123456789"), 100)
		continued := d.Inject(Rule{Calls: CallWrite, Short: true, Count: 1})
		op := &disk.Op{Kind: disk.Write, File: f, Buf: data}
		if err := disk.Run(d, op); err != nil || op.N != len(data) || !bytes.Equal(contentOf(t, d, "f"), data) {
			t.Fatalf("continued: %d bytes, %v", op.N, err)
		}
		if continued.Struck() != 1 {
			t.Errorf("struck %d", continued.Struck())
		}
		d.Inject(Rule{Calls: CallWrite, Short: true, Err: syscall.EIO})
		op.Pos = int64(len(data))
		if err := disk.Run(d, op); !errors.Is(err, syscall.EIO) || op.N >= len(data) {
			t.Fatalf("into an error: %d bytes, %v", op.N, err)
		}
		if got := contentOf(t, d, "f"); !bytes.Equal(got[len(data):], data[:op.N]) {
			t.Errorf("%d bytes reported, the file got %d", op.N, len(got)-len(data))
		}
		parts[op.N] = true
	}
	if len(parts) < 5 {
		t.Errorf("short writes end at %v only", parts)
	}
}

// TestInject_FailedSync is fsyncgate: the sync after the failed one reports
// success, reads see the data, and the cut shows it was lost.
func TestInject_FailedSync(t *testing.T) {
	lost := 0
	for seed := range uint64(50) {
		d := New(Options{Seed: seed})
		f := durableFile(t, d, "f", []byte("old"))
		must(t, write(d, f, 0, []byte("new")))
		d.Inject(Rule{Calls: CallSync, Count: 1})
		if err := syncFile(d, f); !errors.Is(err, syscall.EIO) {
			t.Fatal(err)
		}
		must(t, syncFile(d, f))
		must(t, write(d, f, 3, []byte("er")))
		must(t, syncFile(d, f))
		if got := contentOf(t, d.Kill(), "f"); string(got) != "newer" {
			t.Errorf("the process sees %q", got)
		}
		switch got := contentOf(t, d.PowerCut(), "f"); string(got) {
		case "older":
			lost++
		case "newer":
		default:
			t.Errorf("after the cut: %q", got)
		}
	}
	if lost == 0 || lost == 50 {
		t.Errorf("lost in %d of 50", lost)
	}
}

func TestDisk_FlippedBits(t *testing.T) {
	d := New(Options{Seed: 5})
	data := make([]byte, 10000)
	f := durableFile(t, d, "f", data)
	differing := func() (n int) {
		op := &disk.Op{Kind: disk.Read, File: f, Buf: make([]byte, len(data))}
		must(t, disk.Run(d, op))
		for _, b := range op.Buf {
			n += bits.OnesCount8(b)
		}
		return n
	}
	d.Inject(Rule{Calls: CallRead, Flip: true, Count: 1})
	if first, second := differing(), differing(); first != 1 || second != 0 {
		t.Errorf("flip in a read: %d bits wrong, then %d", first, second)
	}
	must(t, d.Flip("f", 9999, 7))
	if n := differing(); n != 1 {
		t.Errorf("flip at rest: %d bits wrong", n)
	}
	for _, after := range []*Disk{d.Kill(), d.PowerCut()} {
		if got := contentOf(t, after, "f"); got[9999] != 0x80 {
			t.Errorf("after the restart the byte is %#x", got[9999])
		}
	}
	for name, err := range map[string]error{
		"beyond the end": d.Flip("f", 10000, 0), "negative": d.Flip("f", -1, 0), "ninth bit": d.Flip("f", 0, 8),
	} {
		if !errors.Is(err, syscall.EINVAL) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDisk_Budget(t *testing.T) {
	d := New(Options{BudgetBytes: 10*pageBytes + 100})
	wantFree := func(pages int64) {
		t.Helper()
		if free, err := d.Free(); err != nil || free != pages*pageBytes {
			t.Errorf("free %d (%v), want %d pages", free, err, pages)
		}
	}
	wantFree(10)
	f := open(t, d, "f")
	must(t, write(d, f, 100, make([]byte, 3*pageBytes))) // touches four
	wantFree(6)
	op := &disk.Op{Kind: disk.Write, File: f, Pos: 3 * pageBytes, Buf: bytes.Repeat([]byte{1}, 20*pageBytes)}
	if err := disk.Run(d, op); !errors.Is(err, syscall.ENOSPC) || op.N != 7*pageBytes {
		t.Errorf("%d bytes, %v", op.N, err)
	}
	if size, _ := f.Size(); size != 10*pageBytes {
		t.Errorf("size %d", size)
	}
	wantFree(0)
	must(t, write(d, f, 0, make([]byte, 10*pageBytes))) // an overwrite needs nothing
	must(t, disk.Run(d, &disk.Op{Kind: disk.Punch, File: f, Pos: 1, Len: 3 * pageBytes}))
	wantFree(2) // whole pages only
	if allocated, err := d.Allocated("f"); err != nil || allocated != 8*pageBytes || d.Used() != allocated {
		t.Errorf("allocated %d (%v), used %d", allocated, err, d.Used())
	}
	g := open(t, d, "g")
	must(t, write(d, g, 0, make([]byte, 2*pageBytes)))
	must(t, d.Link("g", "h"))
	must(t, d.Remove("g"))
	must(t, g.Close())
	wantFree(0) // another name
	h := open(t, d, "h")
	must(t, d.Remove("h"))
	wantFree(0) // still open
	must(t, h.Close())
	wantFree(2)
	must(t, disk.Run(d, &disk.Op{Kind: disk.Truncate, File: f, Pos: 5}))
	wantFree(9)
	d.SetBudget(20 * pageBytes)
	wantFree(19)
	d = d.Kill()
	wantFree(19)
	d.SetBudget(0)
	if free, _ := d.Free(); free < 1<<40 {
		t.Errorf("free without a budget %d", free)
	}
}
