package amqptest

import (
	"io/fs"
	"os"
	"slices"
)

// CopyDir copies a data directory, of a running or a killed broker, but for the
// socket in it.
func CopyDir(to, from string) error { return os.CopyFS(to, withoutSockets{os.DirFS(from)}) }

type withoutSockets struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (f withoutSockets) ReadDir(name string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(f.FS, name)
	return slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return e.Type() == fs.ModeSocket }), err
}
