//go:build uring && linux

package uring

import (
	"fmt"
	"runtime"
	"syscall"
	"time"
)

// probeTimeout bounds the wait for a no-op, which completes at once.
const probeTimeout = 5 * time.Second

// Probe makes a ring and runs one operation through it. nil: io_uring works
// here; an UnavailableError: it doesn't, use something else; any other error: it
// should, and something is wrong.
func Probe() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ring, err := New(4)
	if err != nil {
		return err
	}
	defer ring.Close()
	const userData = 0xBA5A17
	if err := ring.Nop(userData); err != nil {
		return err
	}
	completed := false
	for deadline := time.Now().Add(probeTimeout); !completed && time.Now().Before(deadline); {
		if err := ring.SubmitAndWait(1, probeTimeout); err != nil {
			return err
		}
		ring.ForEachCQE(func(c CQE) {
			completed = completed || c.UserData == userData
			err = c.Err()
		})
		if err != nil {
			return fmt.Errorf("uring: a no-op failed: %w", err)
		}
	}
	if !completed {
		return fmt.Errorf("uring: a no-op did not complete within %v", probeTimeout)
	}
	return nil
}

// explain turns an error of io_uring_setup into one that names cause and
// remedy. Only the four errors that mean "not here" allow a fallback.
func explain(errno syscall.Errno) error {
	switch errno {
	case syscall.ENOSYS:
		return &UnavailableError{errno, "this kernel has none (it needs Linux 5.11 or later), or a seccomp profile hides it"}
	case syscall.EPERM, syscall.EACCES:
		return &UnavailableError{errno, "likely blocked by seccomp (container runtimes do so by default) or by the sysctl kernel.io_uring_disabled"}
	case syscall.EINVAL:
		return &UnavailableError{errno, "this kernel's io_uring is too old (it needs Linux 5.11 or later)"}
	case syscall.ENOMEM:
		return fmt.Errorf("uring: setting up a ring: %w: the locked-memory limit (ulimit -l) or the cgroup's memory limit is likely too low", errno)
	case syscall.EMFILE, syscall.ENFILE:
		return fmt.Errorf("uring: setting up a ring: %w: raise the open-files limit (ulimit -n)", errno)
	}
	return fmt.Errorf("uring: setting up a ring: %w", errno)
}
