package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// keptFile is a file of an older generation that still counts for one log.
type keptFile struct {
	name string
	id   uint64
	scan fileScan
}

// Keep takes file i, which is not the current one, out of use without losing
// its entries of the logs ids: it is renamed for each of them, and a new file
// is begun in its place. generation is that of the file. The owner has synced
// what it carried over to the current file.
func (j *Journal) Keep(i int, generation uint64, ids []uint64) error {
	f := &j.files[i]
	for _, id := range ids {
		name := path.Join(Dir, fmt.Sprintf("%020d-%016x%s", generation, id, keptSuffix))
		if err := j.o.Disk.Link(f.name, name); err != nil && !errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("journal: %w", err)
		}
		j.kept = append(j.kept, keptFile{name: name, id: id, scan: f.scan})
	}
	if err := j.o.Disk.SyncDir(Dir); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return j.abandon(f)
}

// abandon gives up a file that has other names.
func (j *Journal) abandon(f *file) error {
	if f.open != nil {
		_ = f.open.Close()
	}
	*f = file{name: f.name}
	err := j.o.Disk.Remove(f.name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = j.o.Disk.SyncDir(Dir)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// undoKeep takes back what Keep began before a crash: as long as the file has its
// own name, it counts for all logs, and must not be written to under one
// name while it is needed under another.
func (j *Journal) undoKeep() error {
	var err error
	undone := false
	j.kept = slices.DeleteFunc(j.kept, func(k keptFile) bool {
		same := slices.ContainsFunc(j.files[:], func(f file) bool {
			return f.scan.generation == k.scan.generation && f.scan.identity == k.scan.identity
		})
		if same && k.scan.generation != 0 {
			undone = true
			err = errors.Join(err, j.o.Disk.Remove(k.name))
		}
		return same
	})
	if undone && err == nil {
		err = j.o.Disk.SyncDir(Dir)
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

func (j *Journal) scanKept(name string) error {
	var generation, id uint64
	if _, err := fmt.Sscanf(name, "%020d-%016x"+keptSuffix, &generation, &id); err != nil || name != fmt.Sprintf("%020d-%016x%s", generation, id, keptSuffix) {
		j.o.Logger.Warn("journal: a file that is none of the journal's is left alone", "file", path.Join(Dir, name))
		return nil
	}
	k := keptFile{name: path.Join(Dir, name), id: id}
	f, err := j.o.Disk.Open(k.name, disk.ReadOnly)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	r := j.newReader(f, size)
	defer r.release()
	if k.scan, err = r.scan(0); err != nil {
		return fmt.Errorf("journal: %s: %w", k.name, err)
	}
	j.kept = append(j.kept, k)
	return nil
}

// KeptLogs lists the logs that older files are kept for.
func (j *Journal) KeptLogs() (ids []uint64) {
	for _, k := range j.kept {
		ids = append(ids, k.id)
	}
	return ids
}

// DropKept removes the files kept for log id: everything in them is durable
// elsewhere, or the log is gone.
func (j *Journal) DropKept(id uint64) error {
	var err error
	dropped := false
	j.kept = slices.DeleteFunc(j.kept, func(k keptFile) bool {
		if k.id != id {
			return false
		}
		dropped = true
		err = errors.Join(err, j.o.Disk.Remove(k.name))
		return true
	})
	if dropped && err == nil {
		err = j.o.Disk.SyncDir(Dir) // what it says of the cursor must not come back
	}
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}
