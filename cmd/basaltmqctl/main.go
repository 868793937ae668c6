// Command basaltmqctl is the administrator's tool: flags and wiring only.
//
// How it is put together: command.go holds the tree, its help and the parsing
// of command lines; commands.go lists the commands; each command is one file
// named after it (store_verify.go, store_dump.go) that returns a command
// value. A new one is a file and a line in commands.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker (see Makefile).
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}
