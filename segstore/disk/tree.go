package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Permissions of what the broker creates: its user writes, its group reads.
const (
	directoryMode = 0o750
	fileMode      = 0o640
)

// tree is the metadata half shared by the posix and uring backends: blocking
// calls on paths below root. It keeps no state and needs no lock.
type tree struct {
	root string // absolute
}

// openTree creates root if it is missing.
func openTree(root string) (tree, error) {
	absolute, err := filepath.Abs(root)
	if err != nil {
		return tree{}, fmt.Errorf("disk: %w", err)
	}
	if err := os.MkdirAll(absolute, directoryMode); err != nil {
		return tree{}, fmt.Errorf("disk: the data directory cannot be created: %w", err)
	}
	return tree{root: absolute}, nil
}

// resolve returns the real path of a relative one (rule 5 of the package).
func (t tree) resolve(operation, path string) (string, error) {
	if path == "" {
		path = "."
	}
	local, err := filepath.Localize(path)
	if err != nil {
		return "", &fs.PathError{Op: operation, Path: path, Err: fs.ErrInvalid}
	}
	return filepath.Join(t.root, local), nil
}

// resolveInner is resolve for calls that must not touch the root itself.
func (t tree) resolveInner(operation, path string) (string, error) {
	real, err := t.resolve(operation, path)
	if err == nil && real == t.root {
		return "", &fs.PathError{Op: operation, Path: path, Err: fs.ErrInvalid}
	}
	return real, err
}

// relative replaces the real path in an error of package os by ours.
func relative(err error, operation, path string) error {
	if err == nil {
		return nil
	}
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		err = pathError.Err
	}
	return &fs.PathError{Op: operation, Path: path, Err: err}
}

func (t tree) open(path string, flag Flag) (*file, error) {
	real, err := t.resolve("open", path)
	if err != nil {
		return nil, err
	}
	mode := unix.O_CLOEXEC
	switch flag {
	case ReadOnly:
		mode |= unix.O_RDONLY
	case ReadWrite:
		mode |= unix.O_RDWR
	case Create:
		mode |= unix.O_RDWR | unix.O_CREAT
	case CreateNew:
		mode |= unix.O_RDWR | unix.O_CREAT | unix.O_EXCL
	default:
		return nil, &fs.PathError{Op: "open", Path: path, Err: fs.ErrInvalid}
	}
	var fd int
	err = retryInterrupted(func() (err error) {
		fd, err = unix.Open(real, mode, fileMode)
		return err
	})
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	return &file{name: path, fd: fd}, nil
}

// MkdirAll implements Disk. An existing directory is no error.
func (t tree) MkdirAll(path string) error {
	real, err := t.resolve("mkdir", path)
	if err != nil {
		return err
	}
	return relative(os.MkdirAll(real, directoryMode), "mkdir", path)
}

// Remove implements Disk: one file or one empty directory.
func (t tree) Remove(path string) error {
	real, err := t.resolveInner("remove", path)
	if err != nil {
		return err
	}
	return relative(os.Remove(real), "remove", path)
}

// RemoveAll implements Disk. A missing path is no error.
func (t tree) RemoveAll(path string) error {
	real, err := t.resolveInner("remove", path)
	if err != nil {
		return err
	}
	return relative(os.RemoveAll(real), "remove", path)
}

// Rename implements Disk. An existing file at to is replaced atomically.
func (t tree) Rename(from, to string) error { return t.link("rename", from, to, os.Rename) }

// Link implements Disk: a hard link; to must not exist.
func (t tree) Link(from, to string) error { return t.link("link", from, to, os.Link) }

func (t tree) link(operation, from, to string, call func(from, to string) error) error {
	realFrom, err := t.resolveInner(operation, from)
	if err != nil {
		return err
	}
	realTo, err := t.resolveInner(operation, to)
	if err != nil {
		return err
	}
	err = call(realFrom, realTo)
	if err == nil {
		return nil
	}
	var linkError *os.LinkError
	if errors.As(err, &linkError) {
		err = linkError.Err
	}
	return &os.LinkError{Op: operation, Old: from, New: to, Err: err}
}

// ReadDir implements Disk; the entries are sorted by name.
func (t tree) ReadDir(path string) ([]fs.DirEntry, error) {
	real, err := t.resolve("readdir", path)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(real)
	return entries, relative(err, "readdir", path)
}

// SyncDir implements Disk.
func (t tree) SyncDir(path string) error {
	directory, err := t.open(path, ReadOnly)
	if err != nil {
		return err
	}
	err = retryInterrupted(func() error { return unix.Fsync(directory.fd) })
	if closeError := directory.Close(); err == nil {
		return closeError
	}
	return &fs.PathError{Op: "sync", Path: path, Err: err}
}

// Free implements Disk: the bytes an unprivileged process may still write.
func (t tree) Free() (int64, error) {
	var stat unix.Statfs_t
	if err := retryInterrupted(func() error { return unix.Statfs(t.root, &stat) }); err != nil {
		return 0, &fs.PathError{Op: "statfs", Path: ".", Err: err}
	}
	blockBytes := uint64(stat.Bsize)
	if blockBytes > 0 && stat.Bavail > math.MaxInt64/blockBytes {
		return math.MaxInt64, nil
	}
	return int64(stat.Bavail * blockBytes), nil
}
