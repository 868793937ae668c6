package systemd

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Notifier tells the service manager how the broker is. The zero value tells
// nobody.
type Notifier struct {
	address  unix.Sockaddr // nil: nobody listens
	watchdog time.Duration
}

// FromEnvironment makes the Notifier of a service of Type=notify or notify-reload.
func FromEnvironment() *Notifier {
	path := os.Getenv("NOTIFY_SOCKET")
	n := &Notifier{}
	if len(path) > 1 && (path[0] == '/' || path[0] == '@') {
		n.address = &unix.SockaddrUnix{Name: path} // "@": an abstract one
	}
	microseconds, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if pid := os.Getenv("WATCHDOG_PID"); err == nil && microseconds > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.watchdog = time.Duration(microseconds) * time.Microsecond
	}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
		_ = os.Unsetenv(name)
	}
	return n
}

// Ready says that clients may connect.
func (n *Notifier) Ready(status string) { n.send("READY=1", "STATUS="+status) }

// Status is a line for systemctl status.
func (n *Notifier) Status(status string) { n.send("STATUS=" + status) }

// Reloading says that the configuration is being read anew, until Ready.
func (n *Notifier) Reloading() {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	n.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// Stopping says that the end has begun.
func (n *Notifier) Stopping() { n.send("STOPPING=1", "STATUS=Stopping") }

// Alive is the sign of life that a watchdog waits for.
func (n *Notifier) Alive() { n.send("WATCHDOG=1") }

// Watchdog is how often Alive is expected at least; 0: not at all.
func (n *Notifier) Watchdog() time.Duration {
	if n.address == nil {
		return 0
	}
	return n.watchdog
}

func (n *Notifier) send(lines ...string) {
	if n.address == nil {
		return
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.Sendto(fd, []byte(strings.Join(lines, "\n")), unix.MSG_NOSIGNAL, n.address) // nobody listens: as well
}
