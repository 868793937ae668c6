package systemd

import (
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Tests here change the environment: none is parallel.

func TestNotifier(t *testing.T) {
	for _, kind := range []string{"file", "abstract"} {
		path := filepath.Join(t.TempDir(), "notify")
		if kind == "abstract" {
			path = "@basaltmq-test-" + strconv.Itoa(os.Getpid())
		}
		l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", path)
		t.Setenv("WATCHDOG_USEC", "2000000")
		t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
		n := FromEnvironment()
		if os.Getenv("NOTIFY_SOCKET") != "" || os.Getenv("WATCHDOG_USEC") != "" || os.Getenv("WATCHDOG_PID") != "" {
			t.Error("children would see the variables")
		}
		if n.Watchdog() != 2*time.Second {
			t.Errorf("watchdog %v", n.Watchdog())
		}
		for _, row := range []struct {
			say  func()
			want string
		}{
			{func() { n.Status("Starting") }, `^STATUS=Starting$`},
			{func() { n.Ready("AMQP on x") }, `^READY=1\nSTATUS=AMQP on x$`},
			{n.Reloading, `^RELOADING=1\nMONOTONIC_USEC=[1-9][0-9]+$`},
			{n.Alive, `^WATCHDOG=1$`},
			{n.Stopping, `^STOPPING=1\nSTATUS=Stopping$`},
		} {
			row.say()
			buf := make([]byte, 4096)
			k, err := l.Read(buf)
			if err != nil || !regexp.MustCompile(row.want).Match(buf[:k]) {
				t.Errorf("%s: %q, %v; want %s", kind, buf[:k], err, row.want)
			}
		}
		l.Close()
		n.Alive() // nobody listens any more
	}
}

func TestNotifier_NobodyListens(t *testing.T) {
	t.Setenv("WATCHDOG_USEC", "2000000")
	for _, path := range []string{"", "relative", "/nowhere/at/all"} {
		t.Setenv("NOTIFY_SOCKET", path)
		n := FromEnvironment()
		n.Ready("")
		if path != "/nowhere/at/all" && n.Watchdog() != 0 {
			t.Errorf("%q: a watchdog without a socket", path)
		}
	}
	t.Setenv("NOTIFY_SOCKET", "/nowhere/at/all")
	t.Setenv("WATCHDOG_USEC", "2000000")
	t.Setenv("WATCHDOG_PID", "1")
	if n := FromEnvironment(); n.Watchdog() != 0 {
		t.Error("another process's watchdog")
	}
}

// passed makes a socket at the descriptor where passed ones are looked for.
func passed(t *testing.T, fd int, listening bool) {
	t.Helper()
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Bind(s, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if listening {
		if err := unix.Listen(s, 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Dup3(s, fd, 0); err != nil {
		t.Fatal(err)
	}
	unix.Close(s)
	t.Cleanup(func() { unix.Close(fd) })
}

func TestSockets(t *testing.T) {
	const first = 700 // far from the descriptors of the test itself
	environment := func(pid int, count, names string) {
		t.Setenv("LISTEN_PID", strconv.Itoa(pid))
		t.Setenv("LISTEN_FDS", count)
		t.Setenv("LISTEN_FDNAMES", names)
	}
	passed(t, first, true)
	passed(t, first+1, true)
	passed(t, first+2, false)
	known := []string{"amqp", "http"}
	for _, row := range []struct {
		name         string
		pid          int
		count, names string
		want         map[string][]int
		problem      string
	}{
		{"none", os.Getpid(), "", "", nil, ""},
		{"of another process", 1, "2", "amqp:http", nil, ""},
		{"two", os.Getpid(), "2", "http:amqp", map[string][]int{"http": {first}, "amqp": {first + 1}}, ""},
		{"two of a name", os.Getpid(), "2", "amqp:amqp", map[string][]int{"amqp": {first, first + 1}}, ""},
		{"one without a name", os.Getpid(), "1", "basaltmq.socket", map[string][]int{"amqp": {first}}, ""},
		{"two without names", os.Getpid(), "2", "", nil, "FileDescriptorName="},
		{"not a number", os.Getpid(), "many", "", nil, "LISTEN_FDS"},
		{"too many", os.Getpid(), "1000000", "", nil, "LISTEN_FDS"},
		{"not listening", os.Getpid(), "3", "amqp:http:http", nil, "no listening stream socket"},
		{"no socket", os.Getpid(), "4", "amqp:amqp:amqp:amqp", nil, "descriptor"},
	} {
		environment(row.pid, row.count, row.names)
		got, err := sockets(first, known)
		if row.problem == "" && (err != nil || !reflect.DeepEqual(got, row.want)) || row.problem != "" && (err == nil || !strings.Contains(err.Error(), row.problem)) {
			t.Errorf("%s: %v, %v", row.name, got, err)
		}
		if os.Getenv("LISTEN_FDS") != "" {
			t.Errorf("%s: children would see the variables", row.name)
		}
	}
	if flags, err := unix.FcntlInt(first, unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("children would inherit the socket: %x, %v", flags, err)
	}
}
