package process

import (
	"errors"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/basaltmq/basaltmq/perf/results"
)

// statBlockBytes is the unit of st_blocks, whatever the filesystem's own is
// (inode(7)).
const statBlockBytes = 512

// ReadDiskUsage adds up the files below a directory. Files that go away
// meanwhile are left out.
func ReadDiskUsage(directory string) (usage results.DiskUsage, err error) {
	err = filepath.WalkDir(directory, func(_ string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			usage.Allocated += uint64(stat.Blocks) * statBlockBytes
		}
		if info.Mode().IsRegular() {
			usage.Apparent += uint64(info.Size())
			usage.Files++
		}
		return nil
	})
	return usage, err
}
