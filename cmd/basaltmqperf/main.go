// Command basaltmqperf measures AMQP brokers. All of it is in package perf;
// here are only the process's own things: arguments, streams and signals.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/basaltmq/basaltmq/perf"
)

func main() {
	ctx, restore := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// After the first signal the default action comes back, so that a second
	// one ends a run that hangs in its farewell.
	context.AfterFunc(ctx, restore)
	os.Exit(perf.Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
