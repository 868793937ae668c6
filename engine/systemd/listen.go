package systemd

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// firstDescriptor is where passed sockets begin (SD_LISTEN_FDS_START).
const firstDescriptor = 3

// descriptorsMax bounds what is looked at; a unit has a few.
const descriptorsMax = 64

// Sockets takes the sockets that the service manager has opened, by the names
// that FileDescriptorName= gave them. A socket without a name among known has the
// first of known if it is the only one. Errors name the remedy.
func Sockets(known ...string) (map[string][]int, error) {
	return sockets(firstDescriptor, known)
}

func sockets(first int, known []string) (map[string][]int, error) {
	pid, count, names := os.Getenv("LISTEN_PID"), os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID"} {
		_ = os.Unsetenv(name)
	}
	if count == "" || pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.Atoi(count)
	if err != nil || n < 0 || n > descriptorsMax {
		return nil, fmt.Errorf("systemd: LISTEN_FDS=%q is not a number of sockets up to %d", count, descriptorsMax)
	}
	list := strings.Split(names, ":")
	passed := map[string][]int{}
	for i := range n {
		fd := first + i
		name := ""
		if i < len(list) {
			name = list[i]
		}
		if !slices.Contains(known, name) {
			if n > 1 {
				return nil, fmt.Errorf("systemd: a socket is named %q: write FileDescriptorName= with one of %s into its socket unit", name, strings.Join(known, ", "))
			}
			name = known[0]
		}
		if err := check(fd); err != nil {
			return nil, fmt.Errorf("systemd: the socket %q cannot be used: %w", name, err)
		}
		passed[name] = append(passed[name], fd)
	}
	return passed, nil
}

// check makes sure that fd is a listening stream socket, and sets it up as our
// own are.
func check(fd int) error {
	unix.CloseOnExec(fd)
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return fmt.Errorf("descriptor %d is no socket: %w", fd, err)
	}
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return err
	}
	if kind != unix.SOCK_STREAM || listening == 0 {
		return fmt.Errorf("descriptor %d is no listening stream socket: use ListenStream= and Accept=no", fd)
	}
	return unix.SetNonblock(fd, true)
}
