package disk

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/uring"
)

func TestOpen_ChoosesAndExplains(t *testing.T) {
	blocked := &uring.UnavailableError{Cause: syscall.EPERM, Hint: "likely blocked by seccomp"}
	works := func(root string) (Disk, error) { return OpenPosix(root) } // stands for a uring that works
	refused := func(string) (Disk, error) { return nil, fmt.Errorf("disk: %w", blocked) }
	broken := func(string) (Disk, error) { return nil, errors.New("disk: no memory for a ring") }
	for _, tc := range []struct {
		kind      string
		openUring func(string) (Disk, error)
		reason    string
		err       string
	}{
		{"posix", broken, "asked for", ""},
		{"uring", works, "asked for", ""},
		{"uring", refused, "", "disk: io_uring is not available: operation not permitted: likely blocked by seccomp"},
		{"uring", broken, "", "disk: no memory for a ring"},
		{"auto", works, "io_uring is available", ""},
		{"auto", refused, "disk: io_uring is not available: operation not permitted: likely blocked by seccomp", ""},
		{"auto", broken, "", "disk: no memory for a ring"},
		{"libaio", works, "", `disk: unknown backend "libaio": want auto, uring or posix`},
	} {
		d, reason, err := choose(tc.kind, t.TempDir(), tc.openUring)
		if tc.err != "" {
			if err == nil || err.Error() != tc.err || d != nil {
				t.Errorf("%s: %v, %v; want the error %q", tc.kind, d, err, tc.err)
			}
			continue
		}
		if err != nil || reason != tc.reason {
			t.Errorf("%s: reason %q, %v; want %q", tc.kind, reason, err, tc.reason)
			continue
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpen_AutoWorksEverywhere(t *testing.T) {
	d, reason, err := Open("auto", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if posix := d.Name() == "posix"; posix != strings.Contains(reason, "not available") {
		t.Errorf("%s because %q", d.Name(), reason)
	}
	t.Logf("%s: %s", d.Name(), reason)
}
