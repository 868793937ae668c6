// Command basaltmq is the broker: flags and wiring only.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/basaltmq/basaltmq/engine"
)

// version is set by the linker (see Makefile).
var version = "dev"

const usage = `basaltmq, a message broker for AMQP 0-9-1 clients.

Usage: basaltmq -D DIR [flags]

  -D, --data-dir DIR      where messages and definitions are kept (required)
  -b, --bind ADDR         address to listen on (127.0.0.1)
  -p, --amqp-port PORT    port for AMQP; 0 picks a free one (5672)
      --durability LEVEL  what a publisher confirm means:
                          fsync: on stable storage (default)
                          os: in the page cache; survives a crash of the broker,
                          not of the machine
      --io BACKEND        posix, uring (io_uring), or auto: what measured faster
      --loops N           event loops (one per core)
      --default-user NAME, --default-password PASSWORD
                          the user that the first start on a data directory makes:
                          an administrator with all permissions (guest, guest)
      --definitions FILE  definitions as RabbitMQ and LavinMQ export them, imported
                          at every start, wholly or not at all; if they have users,
                          the default user is not made
      --loopback-users L  users that may only connect from this machine, separated
                          by commas, or none (guest)
      --disk-free-min N   below this much free space publishers are blocked;
                          units KiB, MiB, GiB; 0 turns it off (128MiB)
      --max-message N     largest body of a message, at most 512MiB (128MiB)
      --set-timestamp     give messages without a timestamp property the time of
                          their arrival
  -l, --log-level LEVEL   debug, info, warn or error (info)
  -v, --version           print the version
  -h, --help              print this text
`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the parsed flags.
type options struct {
	config      engine.Config
	level       slog.Level
	showVersion bool
}

func parse(args []string) (*options, error) {
	o := &options{}
	var bind, durability, level, floor, loopback, largest string
	var port uint
	fs := flag.NewFlagSet("basaltmq", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	str := func(p *string, value string, names ...string) {
		for _, n := range names {
			fs.StringVar(p, n, value, "")
		}
	}
	str(&o.config.DataDir, "", "D", "data-dir")
	str(&bind, "127.0.0.1", "b", "bind")
	str(&durability, "fsync", "durability")
	str(&o.config.IO, "auto", "io")
	str(&level, "info", "l", "log-level")
	str(&floor, "128MiB", "disk-free-min")
	str(&o.config.DefaultUser, "", "default-user")
	str(&o.config.DefaultPassword, "", "default-password")
	str(&loopback, "guest", "loopback-users")
	str(&o.config.Definitions, "", "definitions")
	str(&largest, "128MiB", "max-message")
	fs.BoolVar(&o.config.SetTimestamp, "set-timestamp", false, "")
	for _, n := range []string{"p", "amqp-port"} {
		fs.UintVar(&port, n, 5672, "")
	}
	fs.IntVar(&o.config.Loops, "loops", 0, "")
	for _, n := range []string{"v", "version"} {
		fs.BoolVar(&o.showVersion, n, false, "")
	}
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if o.showVersion {
		return o, nil
	}
	var err error
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	case o.config.DataDir == "":
		return nil, errors.New("no data directory given: use -D DIR")
	case port > 65535:
		return nil, fmt.Errorf("--amqp-port %d is not between 0 and 65535", port)
	case o.config.Loops < 0 || o.config.Loops > 256:
		return nil, fmt.Errorf("--loops %d is not between 1 and 256", o.config.Loops)
	case durability != "fsync" && durability != "os":
		return nil, fmt.Errorf("--durability %q is neither fsync nor os", durability)
	case o.config.IO != "auto" && o.config.IO != "uring" && o.config.IO != "posix":
		return nil, fmt.Errorf("--io %q is none of auto, uring, posix", o.config.IO)
	case (o.config.DefaultUser == "") != (o.config.DefaultPassword == ""):
		return nil, errors.New("--default-user and --default-password need each other, and neither may be empty")
	}
	o.config.LoopbackUsers = []string{}
	if loopback != "none" {
		o.config.LoopbackUsers = strings.Split(loopback, ",")
	}
	if o.config.Bind, err = netip.ParseAddr(bind); err != nil {
		return nil, fmt.Errorf("--bind %q is not an IP address", bind)
	}
	if err := o.level.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("--log-level %q is none of debug, info, warn, error", level)
	}
	if o.config.DiskFreeMin, err = parseBytes(floor); err != nil {
		return nil, fmt.Errorf("--disk-free-min %q is not a size such as 128MiB", floor)
	}
	if o.config.DiskFreeMin == 0 {
		o.config.DiskFreeMin = -1
	}
	size, err := parseBytes(largest)
	if err != nil || size < 1 || size > engine.MessageBytesMax {
		return nil, fmt.Errorf("--max-message %q is not a size from 1 to 512MiB", largest)
	}
	o.config.MessageBytesMax = uint64(size)
	o.config.AMQPPort = uint16(port)
	o.config.DurabilityOS = durability == "os"
	o.config.Version = version
	return o, nil
}

// parseBytes reads a size: a number with one of the units KiB, MiB, GiB or none.
func parseBytes(s string) (int64, error) {
	shift := 0
	for unit, n := range map[string]int{"KiB": 10, "MiB": 20, "GiB": 30} {
		if number, ok := strings.CutSuffix(s, unit); ok {
			s, shift = number, n
			break
		}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 63-shift)
	return int64(n) << shift, err
}

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "basaltmq: %s (basaltmq --help lists the flags)\n", strings.TrimPrefix(err.Error(), "flag "))
		return 1
	case o.showVersion:
		fmt.Fprintf(stdout, "basaltmq %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return 0
	}
	tuneRuntime(o)
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: o.level}))
	o.config.Logger = logger

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)

	began := time.Now()
	e, err := engine.Start(o.config)
	if err != nil {
		fmt.Fprintf(stderr, "basaltmq: cannot start: %v\n", err)
		return 1
	}
	sockets, files := e.Backends()
	found := e.Recovered()
	durability := "fsync"
	if o.config.DurabilityOS {
		durability = "os"
	}
	logger.Info("BasaltMQ is ready", "version", version, "amqp", e.Addr().String(), "pid", os.Getpid(), "data_dir", o.config.DataDir,
		"sockets", sockets, "files", files, "io", e.IOReason, "loops", e.Loops(), "durability", durability,
		"queues", found.Queues, "messages", found.Messages, "took", time.Since(began).Round(time.Millisecond))

	s := <-signals
	logger.Info("stopping; a second signal exits at once", "signal", s.String())
	go func() {
		<-signals
		fmt.Fprintln(stderr, "basaltmq: second signal, exiting without a clean stop")
		os.Exit(1)
	}()
	if err := e.Stop(); err != nil {
		fmt.Fprintf(stderr, "basaltmq: stopped, but not cleanly: %v\n", err)
		return 1
	}
	logger.Info("stopped")
	return 0
}

// tuneRuntime sets what the Go runtime should know of a broker: its loops are
// threads that hold a processor for long, so others get one of their own; and
// its heap is small, because messages live outside of it.
func tuneRuntime(o *options) {
	loops := o.config.Loops
	if loops <= 0 {
		loops = runtime.NumCPU()
	}
	runtime.GOMAXPROCS(loops + 2)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
