// Command basaltmq is the broker: flags and wiring only.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/config"
	"github.com/basaltmq/basaltmq/engine/logs"
	"github.com/basaltmq/basaltmq/engine/systemd"
)

// version is set by the linker (see Makefile).
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run executes a command line and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	cl, err := config.ParseArgs(args)
	if err != nil {
		fmt.Fprintf(stderr, "basaltmq: %v (basaltmq --help lists the flags)\n", err)
		return 1
	}
	switch {
	case cl.Help:
		_ = config.PrintHelp(stdout)
		return 0
	case cl.Version:
		fmt.Fprintf(stdout, "basaltmq %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return 0
	case cl.PrintDefaultConfig:
		_ = config.PrintDefaults(stdout)
		return 0
	}
	c, err := cl.Load(os.Environ())
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			fmt.Fprintf(stderr, "basaltmq: %s\n", strings.TrimSuffix(line, "\n"))
		}
		return 1
	}
	if cl.Check {
		return report(c, stdout, stderr)
	}
	return serve(cl, c, stderr)
}

// report answers --check when nothing is wrong.
func report(c *config.Loaded, stdout, stderr io.Writer) int {
	for _, warning := range c.Warnings {
		fmt.Fprintf(stderr, "basaltmq: warning: %s\n", warning)
	}
	if c.File == "" {
		fmt.Fprintln(stdout, "the configuration is good; there is no file")
	} else {
		fmt.Fprintf(stdout, "the configuration is good; the file is %s\n", c.File)
	}
	return 0
}

// serve runs the broker until a signal stops it.
func serve(cl *config.CommandLine, c *config.Loaded, stderr io.Writer) int {
	service := systemd.FromEnvironment()
	tuneRuntime(c.Loops)
	level := new(slog.LevelVar)
	level.Set(levelOf(c.Log.Level))
	output, err := logs.Open(logs.Options{Level: level, Format: c.Log.Format, File: c.Log.File, Stderr: stderr})
	if err != nil {
		fmt.Fprintf(stderr, "basaltmq: cannot start: %v\n", err)
		return 1
	}
	tap := logs.NewTap(output)
	logger := slog.New(tap)
	for _, warning := range c.Warnings {
		logger.Warn(warning)
	}
	lookAtHost(logger)
	settings := engineConfig(&c.Config)
	settings.Logger, settings.Log, settings.LogExchange = logger, tap, c.Log.Exchange
	fail := func(err error) int {
		fmt.Fprintf(stderr, "basaltmq: cannot start: %v\n", err)
		return 1
	}
	if settings.Sockets, err = passedSockets(); err != nil {
		return fail(err)
	}
	r := &reloader{line: cl, level: level, logger: logger, service: service, reopen: output.Reopen, running: c.Config, place: c.Place}
	settings.OnReload, settings.Environment = r.reload, r.environment

	signals, hangups := make(chan os.Signal, 2), make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	signal.Notify(hangups, syscall.SIGHUP)

	began := time.Now()
	service.Status("Starting: reading " + c.DataDir)
	e, err := engine.Start(settings)
	if err != nil {
		return fail(advise(err, c.DataDir))
	}
	removePID, err := writePID(c.PIDFile)
	if err != nil {
		return fail(errors.Join(err, e.Stop()))
	}
	defer removePID()
	sockets, files := e.Backends()
	found := e.Recovered()
	logger.Info("BasaltMQ is ready", "version", version, "amqp", where(e.Addr()), "amqps", where(e.AMQPSAddr()), "http", where(e.HTTPAddr()), "https", where(e.HTTPSAddr()), "metrics", where(e.MetricsAddr()), "pid", os.Getpid(), "data_dir", c.DataDir, "config", c.File,
		"sockets", sockets, "files", files, "io", e.IOReason, "loops", e.Loops(), "durability", c.Durability,
		"queues", found.Queues, "messages", found.Messages, "took", time.Since(began).Round(time.Millisecond))
	r.started(e, "AMQP on "+where(e.Addr()))
	stopWatchdog := keepAlive(service, e)

	for stop := false; !stop; {
		select {
		case <-hangups:
			_, _ = r.reload() // it has logged how it went
		case s := <-signals:
			logger.Info("stopping; a second signal exits at once", "signal", s.String())
			stop = true
		}
	}
	service.Stopping()
	stopWatchdog()
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
func tuneRuntime(loops int) {
	if loops <= 0 {
		loops = runtime.NumCPU()
	}
	runtime.GOMAXPROCS(loops + 2)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
