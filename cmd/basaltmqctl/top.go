package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/admin"
)

const topDetails = `On a terminal the view is drawn anew every --interval seconds until q is pressed. Keys:
q quits, m sorts queues by messages, r by rates, n by name, space draws at once. When
the output is not a terminal, or with --once, it is one snapshot, of two looks at the
broker one interval apart.`

// topQueuesMax is how many queues one look asks for.
const topQueuesMax = 500

// topLook is what the broker said at a moment.
type topLook struct {
	at       time.Time
	overview topOverview
	node     admin.Node
	queues   []topQueue
}

// topOverview is the part of the overview that is shown.
type topOverview struct {
	Product string `json:"product"`
	Version string `json:"version"`
	Alarm   string `json:"alarm"`
	Uptime  int64  `json:"uptime_seconds"`
	Totals  struct {
		Connections int `json:"connections"`
		Channels    int `json:"channels"`
		Consumers   int `json:"consumers"`
		Exchanges   int `json:"exchanges"`
		Queues      int `json:"queues"`
	} `json:"object_totals"`
	Ready   uint64   `json:"messages_ready"`
	Unacked uint64   `json:"messages_unacknowledged"`
	Stats   topStats `json:"message_stats"`
}

// topStats are counters since the start of the broker.
type topStats struct {
	Publish    uint64 `json:"publish"`
	Confirm    uint64 `json:"confirm"`
	DeliverGet uint64 `json:"deliver_get"`
	Ack        uint64 `json:"ack"`
	Redeliver  uint64 `json:"redeliver"`
	Unroutable uint64 `json:"return_unroutable"`
}

type topQueue struct {
	VHost     string   `json:"vhost"`
	Name      string   `json:"name"`
	State     string   `json:"state"`
	Consumers int      `json:"consumers"`
	Ready     uint64   `json:"messages_ready"`
	Unacked   uint64   `json:"messages_unacknowledged"`
	Bytes     uint64   `json:"message_bytes"`
	Stats     topStats `json:"message_stats"`
}

// look asks the broker.
func (s *session) look(order topOrder) (*topLook, error) {
	l := &topLook{at: time.Now()}
	if err := s.get(api("overview"), &l.overview); err != nil {
		return nil, err
	}
	var nodes []admin.Node
	if err := s.get(api("nodes"), &nodes); err == nil && len(nodes) > 0 { // only for monitoring users
		l.node = nodes[0]
	}
	var page struct {
		Items []topQueue `json:"items"`
	}
	err := s.get(fmt.Sprintf("%s?page=1&page_size=%d&%s", api("queues"), topQueuesMax, order.query()), &page)
	l.queues = page.Items
	return l, err
}

func top(f *flagSet) func(*session, []string) error {
	seconds := f.text("i", "interval", "SECONDS", "2", "time between two looks")
	once := f.toggle("1", "once", "one snapshot")
	return func(s *session, _ []string) error {
		interval, err := time.ParseDuration(*seconds + "s")
		if err != nil || interval < 100*time.Millisecond || interval > time.Hour {
			return usagef("--interval %q is not a number of seconds from 0.1 to 3600", *seconds)
		}
		file, isFile := s.out.stdout.(*os.File)
		keys, hasKeys := stdin.(*os.File)
		if *once || s.format == "json" || !isFile || !hasKeys || !isTerminal(file) || !isTerminal(keys) {
			return s.topOnce(interval)
		}
		return s.topLive(file, keys, interval)
	}
}

// topOnce is one snapshot, of what happened in an interval.
func (s *session) topOnce(interval time.Duration) error {
	first, err := s.look(byMessages)
	if err != nil {
		return err
	}
	if !pause(s, interval) {
		return s.ctx.Err()
	}
	second, err := s.look(byMessages)
	if err != nil {
		return err
	}
	v := newTopView(first, second, byMessages)
	if s.format == "json" {
		return s.indented(v.figures())
	}
	w := bufio.NewWriter(s.out.stdout)
	v.write(w, screen{columns: 100, rows: 0})
	return w.Flush()
}

func pause(s *session, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// terminalSize is what the terminal says of itself.
func terminalSize(f *os.File) screen {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Col == 0 || size.Row == 0 {
		return screen{columns: 80, rows: 24}
	}
	return screen{columns: int(size.Col), rows: int(size.Row)}
}

// Control sequences of terminals (ECMA-48, and xterm's alternate screen).
const (
	ansiEnter = "\x1b[?1049h\x1b[?25l" // other screen, no cursor
	ansiLeave = "\x1b[?25h\x1b[?1049l"
	ansiHome  = "\x1b[H"
	ansiRest  = "\x1b[K" // clear to the end of the line
	ansiBelow = "\x1b[J" // and of the screen
	ansiBold  = "\x1b[1m"
	ansiAlarm = "\x1b[1;31m"
	ansiPlain = "\x1b[0m"
)

// rawMode has keys come at once and unseen; Ctrl-C still interrupts.
func rawMode(f *os.File) (restore func(), err error) {
	old, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, err
	}
	raw := *old
	raw.Lflag &^= unix.ICANON | unix.ECHO
	raw.Cc[unix.VMIN], raw.Cc[unix.VTIME] = 1, 0
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, &raw); err != nil {
		return nil, err
	}
	return func() { _ = unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, old) }, nil
}

// topLive draws the view until somebody quits.
func (s *session) topLive(out, in *os.File, interval time.Duration) error {
	restore, err := rawMode(in)
	if err != nil {
		return err
	}
	defer restore()
	fmt.Fprint(out, ansiEnter)
	defer fmt.Fprint(out, ansiLeave)
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)
	keys := make(chan byte)
	go func() { // ends with the process: a read of a terminal cannot be called off
		var b [1]byte
		for {
			if n, err := in.Read(b[:]); n != 1 || err != nil {
				close(keys)
				return
			}
			keys <- b[0]
		}
	}()
	return s.watch(out, interval, keys, resized, func() screen { return terminalSize(out) })
}

// watch is topLive without what only terminals do.
func (s *session) watch(out interface{ Write([]byte) (int, error) }, interval time.Duration, keys <-chan byte, resized <-chan os.Signal, size func() screen) error {
	order := byMessages
	var before, now *topLook
	var trouble error
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	ask := func() error {
		next, err := s.look(order)
		if trouble = err; err != nil {
			if now == nil {
				return err // it never answered
			}
			return nil // it may come back
		}
		before, now = now, next
		return nil
	}
	if err := ask(); err != nil {
		return err
	}
	for {
		w := bufio.NewWriter(out)
		sc := size()
		sc.ansi = true
		fmt.Fprint(w, ansiHome)
		v := newTopView(before, now, order)
		v.trouble = trouble
		v.write(w, sc)
		fmt.Fprint(w, ansiBelow)
		if err := w.Flush(); err != nil {
			return err
		}
		select {
		case <-s.ctx.Done():
			return nil
		case <-resized:
		case <-ticker.C:
			if err := ask(); err != nil {
				return err
			}
		case key, open := <-keys:
			switch key {
			case 'm':
				order = byMessages
			case 'r':
				order = byRate
			case 'n':
				order = byName
			case ' ':
				if err := ask(); err != nil {
					return err
				}
			}
			if !open || key == 'q' || key == 'Q' || key == 3 || key == 4 {
				return nil
			}
		}
	}
}
