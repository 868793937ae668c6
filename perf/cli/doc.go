// Package cli is what the subcommands of basaltmqperf have in common on the
// command line: options with the manners of getopt (flags.go), human units
// (units.go), JSON as AMQP field tables and properties (arguments.go), and
// errors that a user caused ([UsageError]).
//
// It knows nothing of brokers. A [FlagSet] belongs to one goroutine.
package cli
