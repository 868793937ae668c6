package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestReload: on SIGHUP what can change does, for what begins afterwards; the
// rest is named; a file with a mistake changes nothing; and the service manager
// is told.
func TestReload(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "basaltmq.toml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tuned := func(p *process, heartbeat, channels uint16, frame uint32) {
		t.Helper()
		c := login(t, p.addr, "guest", "guest")
		var tune amqp.ConnectionTune
		c.expect(0, &tune)
		c.conn.Close()
		if tune.Heartbeat != heartbeat || tune.ChannelMax != channels || tune.FrameMax != frame {
			t.Errorf("proposed %+v, want %d, %d, %d", tune, heartbeat, channels, frame)
		}
	}
	write("[amqp]\nheartbeat = 30\nchannel_max = 7\nframe_max = \"8KiB\"\n")
	p := startBroker(t, t.TempDir(), "-c", file)
	tuned(p, 30, 7, 8<<10)
	old := connect(t, p.addr)

	write("durability = \"os\"\nmax_message_size = 10\n[amqp]\nheartbeat = 0\n[log]\nlevel = \"debug\"\n")
	p.signal(syscall.SIGHUP)
	if line := p.line("is taken over"); !strings.Contains(line, `keys="max_message_size log.level amqp.heartbeat amqp.frame_max amqp.channel_max"`) {
		t.Errorf("said %s", line)
	}
	if line := p.line("need a restart"); !strings.Contains(line, "keys=durability") {
		t.Errorf("said %s", line)
	}
	tuned(p, 0, 2047, 128<<10)
	connect(t, p.addr)
	if p.line("level=DEBUG") == "" {
		t.Error("the level is what it was")
	}
	// The limit of messages holds for open connections, too.
	old.write(publishFrames(nil, "", "q", "eleven byte"))
	var closed amqp.ChannelClose
	old.expect(channelNumber, &closed)
	if !strings.Contains(string(closed.ReplyText), "max size 10") {
		t.Errorf("closed with %q", closed.ReplyText)
	}

	write("[amqp]\nheartbeat = 5\nprot = 1\n")
	p.signal(syscall.SIGHUP)
	if line := p.line("is refused"); !strings.Contains(line, file+":3: unknown key amqp.prot") {
		t.Errorf("said %s", line)
	}
	tuned(p, 0, 2047, 128<<10)
}

// TestService: a service manager hears when the broker is ready, reloads and stops.
func TestService(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "notify")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	said := make(chan string, 100)
	go func() {
		for buf := make([]byte, 4096); ; {
			n, err := l.Read(buf)
			if err != nil {
				return
			}
			said <- string(buf[:n])
		}
	}()
	p := startBroker(t, t.TempDir(), "NOTIFY_SOCKET="+path, "WATCHDOG_USEC=200000")
	alive := false
	expect := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-said:
				if got == "WATCHDOG=1" {
					alive = true
					continue
				}
				if !strings.HasPrefix(got, want) {
					t.Fatalf("said %q, want %s", got, want)
				}
				return
			case <-time.After(patience):
				t.Fatalf("the broker did not say %s:\n%s", want, p.stderr())
			}
		}
	}
	expect("STATUS=Starting")
	expect("READY=1\nSTATUS=AMQP on " + p.addr)
	p.signal(syscall.SIGHUP)
	expect("RELOADING=1\nMONOTONIC_USEC=")
	expect("READY=1")
	for !alive {
		alive = <-said == "WATCHDOG=1"
	}
	p.signal(syscall.SIGTERM)
	expect("STOPPING=1")
	if r := p.wait(); r.code != 0 {
		t.Errorf("exit status %d", r.code)
	}
}
