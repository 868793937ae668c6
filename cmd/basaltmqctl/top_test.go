package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/amqptest"
)

// looks are two looks, ten seconds apart.
func looks() (before, now *topLook) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before, now = &topLook{at: at}, &topLook{at: at.Add(10 * time.Second)}
	now.overview.Product, now.overview.Version, now.overview.Uptime = "BasaltMQ", "1.0", 3700
	now.overview.Ready, now.overview.Unacked = 1234567, 89
	now.overview.Totals.Connections, now.overview.Totals.Queues = 12, 3
	before.overview.Stats = topStats{Publish: 100, DeliverGet: 50}
	now.overview.Stats = topStats{Publish: 20_000_100, DeliverGet: 123_506, Ack: 5}
	now.node.MemUsed, now.node.MemLimit, now.node.DiskFree, now.node.DiskFreeLimit, now.node.FDUsed, now.node.FDTotal = 14<<20, 4<<30, 80<<30, 128<<20, 20, 1024
	before.queues = []topQueue{{VHost: "/", Name: "busy", Stats: topStats{Publish: 10}}, {VHost: "/", Name: "reborn", Stats: topStats{Publish: 1000}}}
	now.queues = []topQueue{
		{VHost: "/", Name: "reborn", State: "running", Ready: 5, Stats: topStats{Publish: 1}},
		{VHost: "/", Name: "busy", State: "running", Ready: 1, Consumers: 2, Stats: topStats{Publish: 110}},
		{VHost: "v", Name: "a\tbacklog", State: "paused", Ready: 1234567, Bytes: 5 << 30},
	}
	return before, now
}

// TestTop_View: what is drawn, in which order, and how it fits.
func TestTop_View(t *testing.T) {
	before, now := looks()
	var all strings.Builder
	for _, order := range []topOrder{byMessages, byRate, byName} {
		newTopView(before, now, order).write(&all, screen{columns: 110})
		all.WriteString("----\n")
	}
	now.overview.Alarm = "low on disk: 1 MiB free, 128 MiB needed"
	v := newTopView(nil, now, byMessages)
	v.write(&all, screen{columns: 60, rows: 9})
	all.WriteString("\n----\n")
	v.trouble = errors.New("nobody answers")
	v.write(&all, screen{columns: 40, rows: 3, ansi: true})
	golden(t, "top.txt", all.String()+"\n")
}

// display collects what is drawn; a view is complete when the screen below it is
// cleared.
type display struct {
	mu   sync.Mutex
	text bytes.Buffer
	done chan struct{}
}

func (d *display) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.text.Write(p)
	for range strings.Count(string(p), ansiBelow) {
		d.done <- struct{}{}
	}
	return len(p), nil
}

// next waits for a view and returns it.
func (d *display) next(t *testing.T) string {
	t.Helper()
	select {
	case <-d.done:
	case <-time.After(time.Minute):
		t.Fatal("nothing is drawn")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	text := d.text.String()
	d.text.Reset()
	return text
}

// TestTop_Watch: keys and changes of the size draw anew; q ends it.
func TestTop_Watch(t *testing.T) {
	e, dir := running(t)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	for i := range 30 {
		c.Declare(fmt.Sprintf("queue.%02d", i), 0)
	}
	c.PublishAll(1, "queue.17", "a", "b")
	c.Sync(1)
	s := &session{link: overSocket(dir + "/control.sock"), ctx: context.Background()}
	d := &display{done: make(chan struct{}, 100)}
	keys, resized := make(chan byte), make(chan os.Signal)
	rows := 12
	ended := make(chan error, 1)
	go func() {
		ended <- s.watch(d, time.Hour, keys, resized, func() screen { return screen{columns: 100, rows: rows} })
	}()
	view := d.next(t)
	if !strings.HasPrefix(view, ansiHome) || strings.Count(view, "\n") != 11 || !strings.Contains(view, "QUEUE (by messages)") || !strings.Contains(view, " 2          0") {
		t.Errorf("%q", view)
	}
	rows = 20
	resized <- syscall.SIGWINCH
	if view := d.next(t); strings.Count(view, "\n") != 19 {
		t.Errorf("%q", view)
	}
	for key, want := range map[byte]string{'n': "by name", 'r': "by rate", ' ': "by rate", 'm': "by messages"} {
		if key == ' ' {
			continue
		}
		keys <- key
		if view := d.next(t); !strings.Contains(view, want) {
			t.Errorf("after %c: %q", key, view)
		}
	}
	keys <- ' '
	d.next(t)
	keys <- 'q'
	if err := <-ended; err != nil {
		t.Error(err)
	}
	c.Abort()
}

// terminal is a pseudo terminal.
func terminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no pseudo terminals here: ", err)
	}
	raw, err := master.SyscallConn() // Fd would make reads block beyond Close
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var failure error
	err = raw.Control(func(fd uintptr) {
		if failure = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); failure == nil {
			n, failure = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	})
	if err = errors.Join(err, failure); err != nil {
		t.Fatal(err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestTop_Terminal: on a terminal it uses the other screen, sees keys at once, and
// leaves everything as it was.
func TestTop_Terminal(t *testing.T) {
	_, dir := running(t)
	master, slave := terminal(t)
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 10, Col: 50}); err != nil {
		t.Fatal(err)
	}
	before, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	old := stdin
	stdin = slave
	defer func() { stdin = old }()
	d := &display{done: make(chan struct{}, 100)}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			if err != nil {
				return
			}
			_, _ = d.Write(buf[:n])
		}
	}()
	ended := make(chan int, 1)
	go func() { ended <- run(context.Background(), []string{"top", "-i", "3600", "-D", dir}, slave, slave) }()
	view := d.next(t)
	if !strings.HasPrefix(view, ansiEnter) || strings.Contains(view, strings.Repeat("x", 51)) {
		t.Errorf("%q", view)
	}
	for _, line := range strings.Split(view[strings.Index(view, ansiHome)+len(ansiHome):], "\r\n") {
		for _, sequence := range []string{ansiRest, ansiBold, ansiPlain, ansiBelow} {
			line = strings.ReplaceAll(line, sequence, "")
		}
		if len(line) > 50 {
			t.Errorf("a line of %d characters: %q", len(line), line)
		}
	}
	if _, err := master.Write([]byte("q")); err != nil {
		t.Fatal(err)
	}
	if status := <-ended; status != 0 {
		t.Error(status)
	}
	after, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil || *after != *before {
		t.Errorf("the terminal is left as %+v, was %+v", after, before)
	}
	master.Close() // ends both who read
	<-copied
	slave.Close()
}
