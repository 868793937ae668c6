package engine

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// timerSlack is how late the kernel may wake a thread that sleeps, in
// nanoseconds; its default is 50 microseconds.
const timerSlack = 1000

// sharpenTimers gives the process's threads that slack. A goroutine that an
// event loop makes ready (the store's flusher, for a confirm) is taken over by
// another thread, and the Go scheduler lets that thread sleep for 3 microseconds
// first; with the default slack and a virtual machine's timer these are 60 to
// 90, a third of a confirm with fsync. A thread inherits the slack of the one
// that made it, so it is set on as many threads as usually run Go code.
func sharpenTimers() {
	n := runtime.GOMAXPROCS(0) + 2
	var ready, done sync.WaitGroup
	ready.Add(n)
	for range n {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			_ = unix.Prctl(unix.PR_SET_TIMERSLACK, timerSlack, 0, 0, 0) // an old kernel is merely slower
			ready.Done()
			ready.Wait() // each on a thread of its own
		})
	}
	done.Wait()
}
