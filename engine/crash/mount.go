package crash

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Mount is a file system of its own in a loop-mounted image, whose power can be
// cut: what was not synced is lost, as after pulling the plug. What was written
// back by the kernel before the cut stays, as on a disk without a volatile
// cache; disks that lie about a flush are not what this is about.
type Mount struct {
	Dir  string // where it is mounted
	kind string // xfs or ext4
	mode CutMode

	work, image string
	device      string // /dev/loopN
	mounted     bool
	cut         bool
}

// CutMode is how the power is cut.
type CutMode int

const (
	// Shutdown uses the ioctl by which XFS and ext4 stop all I/O at once and
	// drop their unwritten log (GOINGDOWN, NOLOGFLUSH). The broker sees EIO from
	// then on.
	Shutdown CutMode = iota
	// Snapshot stops the process and copies the image; the copy takes the
	// image's place. A copy during which the device wrote something is made
	// again: else it might mix two moments, which no power cut does.
	Snapshot
)

func (m CutMode) String() string {
	if m == Snapshot {
		return "snapshot"
	}
	return "shutdown"
}

// ErrNoMount says that this machine does not allow what a Mount needs.
var ErrNoMount = errors.New("crash: cannot loop-mount file systems here")

const (
	// imageBytes is the size of the sparse image: the journal takes 256 MiB, a
	// queue's segments 64 MiB each until all in them has ended, and below 128 MiB
	// free the broker blocks publishers.
	imageBytes = 4 << 30
	// The same for XFS_IOC_GOINGDOWN and EXT4_IOC_SHUTDOWN: _IOR('X', 125, __u32).
	ioctlShutdown   = 0x8004587d
	shutdownNoFlush = 2 // XFS_FSOP_GOING_FLAGS_NOLOGFLUSH, EXT4_GOING_FLAGS_NOLOGFLUSH
	// umountPatience bounds the wait for a killed process to let go of its files.
	umountPatience = time.Minute
	copiesMax      = 50
)

// NewMount makes a file system under the directory work and mounts it. The
// error is ErrNoMount where that is not possible. Close follows in any case
// where a Mount is returned.
func NewMount(work, kind string, mode CutMode) (*Mount, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("%w: it takes root", ErrNoMount)
	}
	if _, err := exec.LookPath("mkfs." + kind); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMount, err)
	}
	m := &Mount{kind: kind, mode: mode, work: work, image: filepath.Join(work, kind+".img"), Dir: filepath.Join(work, "mnt-"+kind)}
	if err := os.MkdirAll(m.Dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.Create(m.image)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(file.Truncate(imageBytes), file.Close()); err != nil {
		return nil, err
	}
	if err := command("mkfs."+kind, "-q", m.image); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMount, err)
	}
	if err := m.mount(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoMount, err)
	}
	return m, nil
}

func command(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}

func (m *Mount) mount() error {
	if err := command("mount", "-t", m.kind, "-o", "loop", m.image, m.Dir); err != nil {
		return err
	}
	m.mounted = true
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[1] == m.Dir {
			m.device = fields[0]
		}
	}
	return nil
}

// Cut implements Outage.
func (m *Mount) Cut(pid int) error {
	m.cut = true
	if m.mode == Snapshot {
		return m.snapshot(pid)
	}
	dir, err := os.Open(m.Dir)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.IoctlSetPointerInt(int(dir.Fd()), ioctlShutdown, shutdownNoFlush); err != nil {
		return fmt.Errorf("crash: shutting %s down: %w", m.kind, err)
	}
	return nil
}

func (m *Mount) snapshot(pid int) error {
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		return err
	}
	for range copiesMax {
		before, err := m.writes()
		if err != nil {
			return err
		}
		if err := command("cp", "--sparse=always", "--reflink=auto", m.image, m.image+".cut"); err != nil {
			return err
		}
		if after, err := m.writes(); err != nil || after == before {
			return err
		}
	}
	return fmt.Errorf("crash: %s is never quiet enough to be copied", m.device)
}

// writes returns the device's counters that change when it writes; see
// Documentation/block/stat.rst of the kernel.
func (m *Mount) writes() (string, error) {
	text, err := os.ReadFile("/sys/block/" + filepath.Base(m.device) + "/stat")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 11 {
		return "", fmt.Errorf("crash: no counters of %s: %q %w", m.device, text, err)
	}
	return fmt.Sprint(fields[4:7], fields[8], fields[11:]), nil
}

// Restore implements Outage: the file system is mounted again, which replays
// its log.
func (m *Mount) Restore() error {
	if err := m.unmount(); err != nil {
		return err
	}
	if m.mode == Snapshot && m.cut {
		if err := os.Rename(m.image+".cut", m.image); err != nil {
			return err
		}
	}
	m.cut = false
	return m.mount()
}

// unmount waits until the last file is closed. The loop device goes with it.
func (m *Mount) unmount() error {
	if !m.mounted {
		return nil
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(umountPatience)
	for {
		err := unix.Unmount(m.Dir, 0)
		if err == nil {
			m.mounted = false
			return nil
		}
		if !errors.Is(err, unix.EBUSY) || time.Now().After(deadline) {
			return fmt.Errorf("crash: unmounting %s: %w", m.Dir, err)
		}
		<-tick.C
	}
}

// Close unmounts and removes the image.
func (m *Mount) Close() error {
	err := m.unmount()
	if err != nil {
		err = errors.Join(err, unix.Unmount(m.Dir, unix.MNT_DETACH))
	}
	return errors.Join(err, os.Remove(m.image), os.RemoveAll(m.image+".cut"))
}
