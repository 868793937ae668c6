package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// openDisk chooses how files are driven. What counts is how fast a group is
// committed: one write and one fdatasync, each waiting for the one before.
// io_uring hands both to kernel threads and wakes two of ours; measured on a
// virtual machine with ext4, posix commits 1.4 times as often at window 1 and
// 1.8 times at window 100. So auto is posix, until a machine shows otherwise.
func openDisk(io, dir string) (d disk.Disk, reason string, err error) {
	if io == "auto" {
		d, err = disk.OpenPosix(dir)
		return d, "auto: posix commits faster than io_uring where it was measured; --io uring chooses that", err
	}
	return disk.Open(io, dir)
}

// lockDir makes the data directory and locks it against a second broker.
func (e *Engine) lockDir() error {
	dir := e.config.DataDir
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	f, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o640)
	if err != nil {
		return fmt.Errorf("data directory is not writable: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		if err == unix.EWOULDBLOCK {
			return fmt.Errorf("data directory %s is in use by another broker: stop that one, or choose another directory with -D", dir)
		}
		return fmt.Errorf("data directory %s cannot be locked: %w", dir, err)
	}
	e.lock = f
	return nil
}

// cleanMarkName is a file that exists only between a clean stop and the next start.
const cleanMarkName = "clean-stop"

// cleanMark says whether the mark is there.
func (e *Engine) cleanMark() (found bool, err error) {
	file, err := e.disk.Open(cleanMarkName, disk.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, file.Close()
}

// takeCleanMark removes the mark, durably: should this run crash, the next must
// not find it.
func (e *Engine) takeCleanMark() error {
	err := e.disk.Remove(cleanMarkName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(err, e.disk.SyncDir("."))
}

func (e *Engine) leaveCleanMark() error {
	file, err := e.disk.Open(cleanMarkName, disk.Create)
	if err != nil {
		return err
	}
	return errors.Join(file.Close(), e.disk.SyncDir("."))
}
