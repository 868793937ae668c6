package disk

import (
	"errors"
	"io/fs"
	"syscall"
)

// Kind says what an Op does.
type Kind uint8

const (
	Write    Kind = iota // all of Buf at Pos
	Read                 // up to len(Buf) bytes at Pos
	Sync                 // fdatasync
	Truncate             // cut or extend to Pos bytes
	Punch                // deallocate Len bytes at Pos, keeping the size
)

// String is the operation's name in errors.
func (k Kind) String() string {
	switch k {
	case Write:
		return "write"
	case Read:
		return "read"
	case Sync:
		return "sync"
	case Truncate:
		return "truncate"
	case Punch:
		return "punch"
	}
	return "unknown operation"
}

// Op is one asynchronous data operation.
type Op struct {
	Kind Kind
	File File
	Pos  int64  // byte position in the file
	Len  int64  // Punch only
	Buf  []byte // Write, Read
	// SyncAfter makes a Write that succeeded be followed by a Sync of the file:
	// one hand-over less than two Ops, for who has nothing to do in between. On
	// an error N tells which of the two failed: after a failed Sync it is len(Buf).
	SyncAfter bool
	N         int   // bytes read or written, set before Done
	Err       error // set before Done; wrapped with the file's name
	Done      func(*Op)

	next *Op  // in the queue of the Disk that owns the Op
	held bool // the Op holds File's descriptor open
}

// File is an open file; it is only meaningful to the Disk that opened it.
type File interface {
	Name() string         // path relative to the root
	Size() (int64, error) // current size in bytes
	Close() error
}

// Flag selects how Open opens.
type Flag uint8

const (
	ReadOnly  Flag = iota
	ReadWrite      // must exist
	Create         // created if missing, read-write
	CreateNew      // must not exist, read-write
)

// Disk is a directory tree with asynchronous data operations.
type Disk interface {
	// Name is the backend for logs and reports: "posix", "uring", "sim".
	Name() string
	Open(path string, flag Flag) (File, error)
	MkdirAll(path string) error
	Remove(path string) error
	RemoveAll(path string) error
	Rename(from, to string) error
	Link(from, to string) error
	ReadDir(path string) ([]fs.DirEntry, error)
	// SyncDir makes creations, removals and renames in path durable.
	SyncDir(path string) error
	// Free returns the bytes available to the broker on the file system.
	Free() (int64, error)
	Submit(ops []*Op)
	Close() error
}

// Waiter is implemented by a Disk that can carry out an Op on the goroutine that
// would wait for it anyway: two hand-overs between threads less. Done is called
// before Wait returns.
type Waiter interface{ Wait(op *Op) }

// IsNoSpace says of an error that the disk, or the broker's share of it, is full.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// Run submits ops and waits for all of them; it returns the first error. Done
// fields are overwritten. For goroutines that may block.
func Run(d Disk, ops ...*Op) error {
	if len(ops) == 0 {
		return nil
	}
	if w, ok := d.(Waiter); ok && len(ops) == 1 {
		ops[0].Done = func(*Op) {}
		w.Wait(ops[0])
		return ops[0].Err
	}
	done := make(chan struct{}, len(ops))
	for _, op := range ops {
		op.Done = func(*Op) { done <- struct{}{} }
	}
	d.Submit(ops)
	for range ops {
		<-done
	}
	for _, op := range ops {
		if op.Err != nil {
			return op.Err
		}
	}
	return nil
}
