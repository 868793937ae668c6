package journal

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tester is what *testing.T and *rapid.T share.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

type lines struct {
	mu   sync.Mutex
	text []string
}

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }
func (l *lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *lines) WithGroup(string) slog.Handler            { return l }
func (l *lines) Handle(_ context.Context, r slog.Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	text := r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { text += " " + a.String(); return true })
	l.text = append(l.text, text)
	return nil
}

// journalUnderTest is a Journal with its disk.
type journalUnderTest struct {
	*Journal
	t     tester
	disk  disk.Disk
	pool  *arena.Pool
	lines *lines
}

func openOn(t tester, d disk.Disk, limit int64) *journalUnderTest {
	t.Helper()
	u := &journalUnderTest{t: t, disk: d, pool: new(arena.Pool), lines: new(lines)}
	var err error
	u.Journal, err = Open(Options{Disk: d, Arena: u.pool, Logger: slog.New(u.lines), LimitBytes: limit, AheadBytes: 4096})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// write writes one group.
func (u *journalUnderTest) write(entries ...Entry) {
	u.t.Helper()
	bytes := 0
	for i := range entries {
		bytes += entries[i].Bytes()
	}
	u.Begin(bytes)
	for i := range entries {
		u.Add(&entries[i])
	}
	writes, err := u.End()
	if err != nil {
		u.t.Fatal(err)
	}
	for _, w := range writes {
		if err := disk.Run(u.disk, &disk.Op{Kind: disk.Write, File: w.File, Pos: w.Pos, Buf: w.Buf}); err != nil {
			u.t.Fatal(err)
		}
	}
	u.Written(true)
}

func (u *journalUnderTest) sync() {
	u.t.Helper()
	if u.File() == nil {
		return
	}
	if err := disk.Run(u.disk, &disk.Op{Kind: disk.Sync, File: u.File()}); err != nil {
		u.t.Fatal(err)
	}
	u.Synced()
}

func (u *journalUnderTest) close() {
	u.t.Helper()
	u.Close()
	if n := u.pool.Stats().InUse; n != 0 {
		u.t.Fatalf("%d bytes of the arena in use", n)
	}
}

// entries replays everything, as text.
func (u *journalUnderTest) entries() (list []string) {
	u.t.Helper()
	if err := u.Replay(func(e *Entry, from Source, ordinal uint64) error {
		if int(ordinal) != len(list)+1 && len(u.kept) == 0 {
			u.t.Fatalf("ordinal %d of entry %d", ordinal, len(list)+1)
		}
		list = append(list, text(e))
		return nil
	}); err != nil {
		u.t.Fatal(err)
	}
	return list
}

func text(e *Entry) string {
	return fmt.Sprintf("%v %d %d %d %q", e.Kind, e.ID, e.First, e.End, e.Data)
}

func texts(entries ...Entry) (list []string) {
	for i := range entries {
		list = append(list, text(&entries[i]))
	}
	return list
}

func (u *journalUnderTest) want(entries ...Entry) {
	u.t.Helper()
	if got, want := u.entries(), texts(entries...); !slices.Equal(got, want) {
		u.t.Fatalf("replayed %q, want %q", got, want)
	}
}

var all = []Entry{
	{Kind: Batch, ID: 7, Data: []byte("batch bytes")},
	{Kind: Range, ID: 7, First: 3, End: 9},
	{Kind: Low, ID: 1 << 60, First: 5},
	{Kind: Cursor, ID: 7, First: 6},
	{Kind: Deleted, ID: 8},
	{Kind: Meta, ID: 11, Data: nil},
	{Kind: Meta, ID: 12, Data: []byte("definition")},
}

func batch(id uint64, data string) Entry { return Entry{Kind: Batch, ID: id, Data: []byte(data)} }

func TestJournal_EveryKindComesBack(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1<<20)
	u.want()
	u.write(all...)
	u.write(all[0])
	u.sync()
	u.close()
	u = openOn(t, d, 1<<20)
	u.want(append(slices.Clone(all), all[0])...)
	if u.Generation() != 1 || u.Current() != 0 || u.OldCounts() || len(u.lines.text) != 0 {
		t.Errorf("generation %d, file %d, old %v, %v", u.Generation(), u.Current(), u.OldCounts(), u.lines.text)
	}
	u.write(all[1]) // the session goes on behind them
	u.sync()
	u.close()
	u = openOn(t, d, 1<<20)
	u.want(append(slices.Clone(all), all[0], all[1])...)
	u.close()
}

func TestJournal_SwitchesAndRecycles(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 500)
	var want []Entry
	for use := range 6 {
		want = nil
		for i := 0; !u.Full(); i++ {
			e := batch(1, fmt.Sprint("use ", use, " entry ", i))
			u.write(e)
			want = append(want, e)
		}
		u.sync()
		u.close()
		u = openOn(t, d, 500)
		if use > 0 {
			u.want(append([]Entry{{Kind: Done, ID: uint64(use)}}, want...)...)
		} else {
			u.want(want...)
		}
		if u.Generation() != uint64(use+1) || u.Current() != use%2 {
			t.Fatalf("use %d: generation %d in file %d", use, u.Generation(), u.Current())
		}
		old := u.Generation()
		u.Switch()
		u.write(Entry{Kind: Done, ID: old})
		u.sync()
	}
	u.close()
}

// Between a switch and its Done entry both files count, the older first.
func TestJournal_OldFileCountsUntilDone(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1)
	u.write(batch(1, "old"))
	u.sync()
	u.Switch()
	u.write(batch(1, "new"))
	u.sync()
	u.close()
	u = openOn(t, d, 1)
	u.want(batch(1, "old"), batch(1, "new"))
	if !u.OldCounts() || u.OldGeneration() != 1 {
		t.Errorf("old counts %v, generation %d", u.OldCounts(), u.OldGeneration())
	}
	u.write(Entry{Kind: Done, ID: 1})
	u.close()
	u = openOn(t, d, 1)
	u.want(batch(1, "new"), Entry{Kind: Done, ID: 1})
	u.close()
}

// A Done entry of the own generation hides what comes before it, in its own
// group too, and nothing after.
func TestJournal_CleanMark(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1<<20)
	u.write(batch(1, "before"))
	u.write(batch(1, "same group"), Entry{Kind: Done, ID: 1}, batch(1, "after"))
	u.write(batch(1, "later"))
	u.close()
	u = openOn(t, d, 1<<20)
	u.want(batch(1, "after"), batch(1, "later"))
	u.close()
}

func TestJournal_KeepsAFileForFencedLogs(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1)
	u.write(batch(1, "one"), batch(2, "two"), batch(3, "three"))
	u.sync()
	u.Switch()
	u.write(batch(2, "new"))
	if err := u.Keep(0, 1, []uint64{1, 3}); err != nil {
		t.Fatal(err)
	}
	u.write(Entry{Kind: Done, ID: 1})
	u.sync()
	u.Switch()
	u.write(Entry{Kind: Done, ID: 2})
	u.sync()
	u.close()
	u = openOn(t, d, 1)
	u.want(batch(1, "one"), batch(3, "three"), Entry{Kind: Done, ID: 2})
	if got := u.KeptLogs(); !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("kept for %v", got)
	}
	if err := u.DropKept(1); err != nil {
		t.Fatal(err)
	}
	u.want(batch(3, "three"), Entry{Kind: Done, ID: 2})
	u.close()
	d = d.PowerCut()
	u = openOn(t, d, 1)
	u.want(batch(3, "three"), Entry{Kind: Done, ID: 2})
	u.close()
}

// Space is made ahead in steps, and a second use of a file makes none.
func TestJournal_WritesAhead(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 6000)
	grown, size := 0, int64(0)
	for use := range 4 {
		for !u.Full() {
			u.write(batch(1, "sixteen byte text"))
			u.sync()
			if now, _ := u.File().Size(); now > size {
				size = now
				grown++
			}
		}
		if use == 1 {
			grown = 0
		}
		size = 0
		u.Switch()
		if u.File() != nil {
			size, _ = u.File().Size()
		}
	}
	if grown != 0 {
		t.Errorf("recycled files grew %d times", grown)
	}
	u.close()
}

func TestJournal_GroupsAllocateNothing(t *testing.T) {
	d := sim.New(sim.Options{})
	u := openOn(t, d, 1<<20)
	defer u.close()
	e := batch(1, "sixteen byte text")
	round := func() {
		u.Begin(e.Bytes())
		u.Add(&e)
		if _, err := u.End(); err != nil {
			t.Fatal(err)
		}
		u.Fail() // the disk's own allocations are not of interest
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations per group", n)
	}
}
