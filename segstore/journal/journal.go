package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Dir is the journal's directory; its files are "0" and "1", and kept ones.
const Dir = "journal"

const (
	keptSuffix       = ".kept"
	quarantineSuffix = ".quarantine"
)

// Options of Open. Disk and Arena are required.
type Options struct {
	Disk   disk.Disk
	Arena  *arena.Pool
	Logger *slog.Logger // required
	// LimitBytes is the size at which a file counts as full.
	LimitBytes int64
	// AheadBytes is how far zeros are written ahead of a file's end.
	AheadBytes int64
}

// file is one of the two files.
type file struct {
	name string
	open disk.File // nil until needed
	made int64     // bytes that exist
	scan fileScan
}

// Journal is the pair of files. One goroutine at a time.
type Journal struct {
	o        Options
	identity uint64
	files    [2]file
	kept     []keptFile

	current    int
	generation uint64
	sequence   uint64 // of the next group
	pos        int64  // where it goes
	synced     int64  // all of the current file below is on stable storage
	replayOld  bool   // the other file counts
	carried    int64  // bytes of the current file that repeat what the other one had

	group struct {
		buf     *arena.Buf
		data    []byte
		entries int
		writes  []Write
		zeros   *arena.Buf
		made    int64
	}
}

// Open reads what is there. Nothing is written to a file before Begin. The
// error is ErrVersion when a newer program wrote the journal.
func Open(o Options) (*Journal, error) {
	j := &Journal{o: o}
	if err := o.Disk.MkdirAll(Dir); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := o.Disk.SyncDir("."); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	entries, err := o.Disk.ReadDir(Dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	for i := range j.files {
		j.files[i].name = path.Join(Dir, strconv.Itoa(i))
	}
	// The newer file first would be natural, but which that is must be read.
	for _, e := range entries {
		switch i := slices.IndexFunc(j.files[:], func(f file) bool { return path.Base(f.name) == e.Name() }); {
		case i >= 0:
			err = j.scanFile(i)
		case strings.HasSuffix(e.Name(), keptSuffix):
			err = j.scanKept(e.Name())
		case !strings.Contains(e.Name(), quarantineSuffix):
			o.Logger.Warn("journal: a file that is none of the journal's is left alone", "file", path.Join(Dir, e.Name()))
		}
		if err != nil {
			j.Close()
			return nil, err
		}
	}
	slices.SortFunc(j.kept, func(a, b keptFile) int { return int(a.scan.generation) - int(b.scan.generation) })
	err = j.undoKeep()
	if err == nil {
		err = j.choose()
	}
	if err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// choose decides which file is the current one, and whether the other counts.
func (j *Journal) choose() error {
	a, b := &j.files[0].scan, &j.files[1].scan
	if b.generation > a.generation {
		j.current = 1
	}
	now, other := &j.files[j.current].scan, &j.files[1-j.current].scan
	switch {
	case now.generation == 0:
		j.generation = 1
	case now.generation == other.generation || other.identity != 0 && other.identity != now.identity:
		return fmt.Errorf("journal: %s and %s do not belong together: restore the data directory from a backup, or move one of them away", j.files[0].name, j.files[1].name)
	default:
		j.generation, j.identity = now.generation, now.identity
		j.pos = now.end
		j.sequence = (max(now.seen, other.seen)>>sessionShift + 1) << sessionShift
		j.replayOld = other.generation > now.done
	}
	for j.identity == 0 {
		j.identity = rand.Uint64()
	}
	if j.sequence == 0 {
		j.sequence = 1 << sessionShift
	}
	for i := range j.files {
		if i == j.current || j.replayOld {
			if err := j.reportDamage(&j.files[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// openFile opens a file, creating it durably when it is new.
func (j *Journal) openFile(f *file) error {
	if f.open != nil {
		return nil
	}
	opened, err := j.o.Disk.Open(f.name, disk.Create)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	size, err := opened.Size()
	if err == nil {
		err = j.o.Disk.SyncDir(Dir)
	}
	if err != nil {
		_ = opened.Close()
		return fmt.Errorf("journal: %w", err)
	}
	f.open, f.made = opened, size
	return nil
}

func (j *Journal) newReader(f disk.File, size int64) *reader {
	return &reader{disk: j.o.Disk, pool: j.o.Arena, file: f, limit: size}
}

func (j *Journal) scanFile(i int) error {
	f := &j.files[i]
	if err := j.openFile(f); err != nil {
		return err
	}
	r := j.newReader(f.open, f.made)
	defer r.release()
	var err error
	if f.scan, err = r.scan(j.files[1-i].scan.identity); err != nil {
		return fmt.Errorf("journal: %s: %w", f.name, err)
	}
	return nil
}

// reportDamage copies damaged bytes aside: they are overwritten some day.
func (j *Journal) reportDamage(f *file) error {
	for _, d := range f.scan.damaged {
		kept, err := j.copyAside(f, d)
		if disk.IsNoSpace(err) { // better no copy than no broker: consumers have to make space
			kept, err = "none: the disk is full", nil
		}
		if err != nil {
			return fmt.Errorf("journal: %w", err)
		}
		j.o.Logger.Error("journal: damaged bytes in the journal: records and acks confirmed there may be lost; check the disk",
			"file", f.name, "pos", d.from, "bytes", d.to-d.from, "copy", kept)
	}
	return nil
}

func (j *Journal) copyAside(f *file, d span) (name string, err error) {
	name = fmt.Sprintf("%s.%d-%d%s", f.name, f.scan.generation, d.from, quarantineSuffix)
	out, err := j.o.Disk.Open(name, disk.Create)
	if err != nil {
		return "", err
	}
	r := j.newReader(f.open, d.to)
	defer r.release()
	for pos := d.from; pos < d.to && err == nil; {
		var w []byte
		if w, err = r.window(pos, 1); err != nil || len(w) == 0 {
			break
		}
		err = disk.Run(j.o.Disk, &disk.Op{Kind: disk.Write, File: out, Pos: pos - d.from, Buf: w})
		pos += int64(len(w))
	}
	if err == nil {
		err = disk.Run(j.o.Disk, &disk.Op{Kind: disk.Sync, File: out})
	}
	err = errors.Join(err, out.Close())
	if err != nil {
		return "", errors.Join(err, j.o.Disk.Remove(name))
	}
	return name, j.o.Disk.SyncDir(Dir)
}

// Refresh writes the groups of the current file that may never have been synced
// once more, as they are. If the sync of the previous life failed, the kernel
// shows them but takes them for written, and would not write them at the next
// sync. And it sees to it that torn groups stay torn. The owner syncs the current
// file before it goes on.
func (j *Journal) Refresh() error {
	f := &j.files[j.current]
	if f.open == nil {
		return nil
	}
	r := j.newReader(f.open, f.scan.end)
	defer r.release()
	for pos := min(f.scan.synced, f.scan.end); pos < f.scan.end; {
		w, err := r.window(pos, 1)
		if err != nil || len(w) == 0 {
			return err
		}
		if err := disk.Run(j.o.Disk, &disk.Op{Kind: disk.Write, File: f.open, Pos: pos, Buf: w}); err != nil {
			return err
		}
		pos += int64(len(w))
	}
	return j.erase()
}

// erase makes the headers of groups unreadable that a power cut tore where this
// session's groups, or those of the next generation, will begin: if equal bytes of
// these arrived where those had not, and their own header did not, the torn group
// would be sound again. The current file is synced before anything is written to
// it, as the caller of Refresh does; the other one here.
func (j *Journal) erase() error {
	now, other := &j.files[j.current], &j.files[1-j.current]
	var zeros [GroupHeaderBytes]byte
	if now.scan.tornLast == j.generation {
		if err := disk.Run(j.o.Disk, &disk.Op{Kind: disk.Write, File: now.open, Pos: now.scan.end, Buf: zeros[:]}); err != nil {
			return err
		}
	}
	if other.scan.tornFirst <= j.generation {
		return nil
	}
	if err := disk.Run(j.o.Disk, &disk.Op{Kind: disk.Write, File: other.open, Buf: zeros[:]}); err != nil {
		return err
	}
	return disk.Run(j.o.Disk, &disk.Op{Kind: disk.Sync, File: other.open})
}

// Close closes the files; what was not synced stays so.
func (j *Journal) Close() {
	j.endGroup()
	for i := range j.files {
		if f := &j.files[i]; f.open != nil {
			_ = f.open.Close()
			f.open = nil
		}
	}
}

// Generation is that of the current file.
func (j *Journal) Generation() uint64 { return j.generation }

// Current is the number of the current file, 0 or 1.
func (j *Journal) Current() int { return j.current }

// Name is the path of file i.
func (j *Journal) Name(i int) string { return j.files[i].name }

// Pos is where the next group goes in the current file.
func (j *Journal) Pos() int64 { return j.pos }

// Damaged is the number of damaged places found by Open.
func (j *Journal) Damaged() int {
	return len(j.files[0].scan.damaged) + len(j.files[1].scan.damaged)
}

// OldCounts tells after Open that the other file has entries that count, so
// it must not be overwritten before a Done entry for OldGeneration is synced.
func (j *Journal) OldCounts() bool { return j.replayOld }

// OldGeneration is the generation of the other file, as Open found it.
func (j *Journal) OldGeneration() uint64 { return j.files[1-j.current].scan.generation }

// Full says that the current file has reached its size. More groups may be
// written to it nevertheless. What was carried over is at most half of a full
// file: if it alone filled one, it would be carried from file to file all the time.
func (j *Journal) Full() bool { return j.pos >= max(j.o.LimitBytes, 2*j.carried) }

// Carried says that so many bytes of the next group repeat what the other file has.
func (j *Journal) Carried(bytes int64) { j.carried += bytes }

// Switch begins a new generation in the other file, which the caller knows
// nobody needs any more: a Done entry for it is synced.
func (j *Journal) Switch() {
	j.current = 1 - j.current
	j.files[j.current].scan = fileScan{} // what Open found there
	j.generation++
	j.pos, j.synced, j.carried = 0, 0, 0
}
