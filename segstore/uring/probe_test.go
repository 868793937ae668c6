//go:build uring && linux

package uring

import (
	"errors"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

func TestProbe_SaysYesOrWhyNot(t *testing.T) {
	err := Probe()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	check(t, err)
}

func TestExplain_WhatAllowsAFallback(t *testing.T) {
	for _, tc := range []struct {
		errno    syscall.Errno
		fallback bool
		text     string
	}{
		{syscall.ENOSYS, true, "io_uring is not available: function not implemented: this kernel has none"},
		{syscall.EPERM, true, "io_uring is not available: operation not permitted: likely blocked by seccomp"},
		{syscall.EACCES, true, "kernel.io_uring_disabled"},
		{syscall.EINVAL, true, "too old"},
		{syscall.ENOMEM, false, "ulimit -l"},
		{syscall.EMFILE, false, "ulimit -n"},
		{syscall.EFAULT, false, "uring: setting up a ring: bad address"},
	} {
		err := explain(tc.errno)
		if errors.Is(err, errors.ErrUnsupported) != tc.fallback || !errors.Is(err, tc.errno) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%v: %q, fallback %v", tc.errno, err, !tc.fallback)
		}
	}
}

// TestProbe_BlockedBySeccomp blocks io_uring_setup for one thread, as container
// runtimes do for all, and lets that thread end.
func TestProbe_BlockedBySeccomp(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EPERM, syscall.ENOSYS} {
		result := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked: the filtered thread dies with the goroutine
			if err := blockSetup(errno); err != nil {
				result <- err
				return
			}
			result <- Probe()
		}()
		err := <-result
		var unavailable *UnavailableError
		if !errors.As(err, &unavailable) {
			t.Skipf("a seccomp filter cannot be installed here: %v", err)
		}
		if !errors.Is(err, errno) || !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("blocked with %v: %v", errno, err)
		}
	}
}

// blockSetup makes io_uring_setup fail on the calling thread for good.
func blockSetup(errno syscall.Errno) error {
	const loadSyscallNumber, jumpIfEqual, returnConstant = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
	filter := []unix.SockFilter{
		{Code: loadSyscallNumber, K: 0},
		{Code: jumpIfEqual, Jf: 1, K: unix.SYS_IO_URING_SETUP},
		{Code: returnConstant, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
		{Code: returnConstant, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	_, _, e := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	runtime.KeepAlive(filter)
	if e != 0 {
		return e
	}
	return nil
}
