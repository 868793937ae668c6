package loop

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLoop_ShortSlice looks at the thread that a loop runs on.
func TestLoop_ShortSlice(t *testing.T) {
	t.Parallel()
	var attr *unix.SchedAttr
	on(newLoop(t, "epoll"), func() { attr, _ = unix.SchedGetAttr(0, 0) })
	switch {
	case attr == nil || attr.Policy != unix.SCHED_NORMAL:
		t.Skip("the thread is not scheduled as usual here")
	case attr.Runtime == 0:
		t.Skip("this kernel does not know slices of normal threads")
	case attr.Runtime != slice:
		t.Errorf("the slice is %d ns", attr.Runtime)
	}
}
