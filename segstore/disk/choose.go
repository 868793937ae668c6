package disk

import (
	"errors"
	"fmt"
)

// Open opens the backend that kind names on root, creating the directory if it
// is missing. reason says why this one, for the broker's line at start.
//
//	posix  always possible
//	uring  an error where io_uring can't be used
//	auto   uring, or posix where io_uring can't be used; a fault of the
//	       machine other than "not available" is an error
func Open(kind, root string) (d Disk, reason string, err error) {
	return choose(kind, root, OpenUring)
}

func choose(kind, root string, openUring func(root string) (Disk, error)) (d Disk, reason string, err error) {
	switch kind {
	case "posix":
		d, err = OpenPosix(root)
		return d, "asked for", err
	case "uring":
		d, err = openUring(root)
		return d, "asked for", err
	case "auto":
		d, err = openUring(root)
		if err == nil {
			return d, "io_uring is available", nil
		}
		if !errors.Is(err, errors.ErrUnsupported) {
			return nil, "", err
		}
		reason = err.Error()
		d, err = OpenPosix(root)
		return d, reason, err
	}
	return nil, "", fmt.Errorf("disk: unknown backend %q: want auto, uring or posix", kind)
}
