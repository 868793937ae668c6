package engine_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
)

// The clients of the half-open test are a process of their own, this test
// binary once more, because each process may have 20,000 open files or less.
// It is told what to do by this variable: "address count".
const halfOpenVariable = "BASALTMQ_TEST_HALF_OPEN"

// TestHalfOpen: 10,000 sockets that never finish the handshake are cut after
// its deadline, while a healthy client works.
func TestHalfOpen(t *testing.T) {
	if os.Getenv(halfOpenVariable) != "" {
		t.Skip("this is the client process: see TestHalfOpen_Clients")
	}
	want := 10_000
	if testing.Short() {
		want = 1000
	}
	const spare = 200 // for everything else
	sockets := want
	var limit syscall.Rlimit // the runtime raises it to the hard limit by itself
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur < uint64(want+spare) {
		sockets = int(limit.Cur) - spare
		t.Logf("only %d sockets instead of %d: a process may have %d open files here", sockets, want, limit.Cur)
	}
	var config engine.Config
	e := start(t, func(c *engine.Config) { config = *c })
	healthy := open(t, e)
	config.Tuning.HandshakeTimeout = 3 * time.Second
	if err := e.Reload(config); err != nil {
		t.Fatal(err)
	}
	healthy.Declare("q", 0)
	healthy.Subscribe(1, "q", "t", amqptest.NoAck)
	number, most := 0, 0
	work := func() {
		number++
		healthy.PublishAll(1, "q", fmt.Sprint(number))
		if _, body := delivery(healthy); body != fmt.Sprint(number) {
			t.Fatalf("message %d is %s", number, body)
		}
	}

	command := exec.Command(os.Args[0], "-test.run=^TestHalfOpen_Clients$", "-test.v")
	command.Env = append(os.Environ(), halfOpenVariable+"="+fmt.Sprint(e.Addr(), " ", sockets))
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan string)
	go func() {
		defer close(lines)
		scanner := bufio.NewScanner(output)
		for scanner.Scan() {
			lines <- scanner.Text()
		}
	}()
	var said []string
	for reading := true; reading; {
		select {
		case line, ok := <-lines:
			reading = ok
			said = append(said, line)
		default:
			work()
			most = max(most, e.Connections())
		}
	}
	if err := command.Wait(); err != nil {
		t.Fatalf("client process: %v\n%s", err, strings.Join(said, "\n"))
	}
	work()
	eventually(t, "only the healthy client is left", func() bool { return e.Connections() == 1 })
	memoryBelow(t, e, 2<<20)
	t.Logf("%d sockets were half open (%d at one moment) and were cut; %d messages went through meanwhile", sockets, most, number)
}

// TestHalfOpen_Clients is the client process of TestHalfOpen.
func TestHalfOpen_Clients(t *testing.T) {
	address, count, ok := strings.Cut(os.Getenv(halfOpenVariable), " ")
	if !ok {
		t.Skip("runs only as the client process of TestHalfOpen")
	}
	sockets, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	handshake := amqptest.Handshake(amqptest.Options{})
	parts := []int{0, 0, 0, 4, 8, 30, len(handshake) - 1}
	half := make([]*amqptest.Conn, sockets)
	for i := range half {
		if half[i], err = amqptest.Dial(netip.MustParseAddrPort(address)); err != nil {
			t.Fatalf("socket %d: %v", i, err)
		}
		defer half[i].Abort()
		// On a slow machine the first ones are cut already: no error here.
		_ = half[i].Send(handshake[:parts[i%len(parts)]])
	}
	for i, c := range half {
		for err = nil; err == nil; {
			_, err = c.Next()
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatalf("socket %d is not cut: %v", i, err)
		}
		c.Abort()
	}
}
