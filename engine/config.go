package engine

import (
	"log/slog"
	"net/netip"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/config"
	"github.com/basaltmq/basaltmq/engine/logs"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Config is what an Engine needs to know. Zero values mean the defaults.
type Config struct {
	DataDir  string
	Bind     netip.Addr // 127.0.0.1
	AMQPPort int        // 0: a free port; negative: none without TLS
	// HTTP is where the management API listens; port 0: a free one; not valid, as
	// the zero value is: nowhere.
	HTTP netip.AddrPort
	// Metrics is where Prometheus collects, Debug where profiles are taken, both
	// without a password; not valid: nowhere.
	Metrics, Debug netip.AddrPort
	IO             string // auto, uring, posix
	Loops          int    // one per core
	// DurabilityOS makes a confirm mean "in the page cache" instead of "synced".
	DurabilityOS bool
	// FlushInterval and SyncInterval are those of segstore.Options; 0: its defaults.
	FlushInterval, SyncInterval time.Duration
	Version                     string
	Logger                      *slog.Logger
	// Log is in front of Logger's handler, for those who follow the log; nil:
	// nobody can. LogExchange has it published to amq.basaltmq.log.
	Log         *logs.Tap
	LogExchange bool

	// Secure is what comes before and around plain AMQP: see secure.go.
	Secure Secure
	Auth   Auth

	// Tuning is what connections are told and held to.
	Tuning amqp.Tuning
	// SetTimestamp gives messages that come without a timestamp property the time
	// of their arrival.
	SetTimestamp bool

	// DefaultUser and DefaultPassword are of the user that the first start makes;
	// both default to guest.
	DefaultUser, DefaultPassword string
	// DefaultPasswordHash is instead of the password, as definitions files have it.
	DefaultPasswordHash string
	// Definitions is a file that every start imports, wholly or not at all; with
	// users in it the usual default user is not made. Empty: none.
	Definitions string
	// LoopbackUsers may only connect from this machine; nil means guest.
	LoopbackUsers []string
	// Mechanisms replace those of Auth, for tests.
	Mechanisms func(b *broker.Broker) []amqp.Mechanism

	// Sockets are listening sockets to use instead of opening some, by the names in
	// SocketNames.
	Sockets map[string]int
	// OnReload reads the configuration anew and calls Reload; nil: nobody can ask
	// for that by the API.
	OnReload func() (Reloaded, error)
	// Environment is the configuration in force, for operators; nil: nothing is told.
	Environment func() []config.Setting
	// DrainTimeout is how long a stop waits for clients to close; 0 means five
	// seconds, negative not at all.
	DrainTimeout time.Duration

	// DiskFreeMin is the floor of free space in bytes: below it publishers are
	// blocked. 0 means DiskFreeMinDefault; negative: never.
	DiskFreeMin int64
	// SpaceInterval is how often free space is looked at; 0 means every second.
	SpaceInterval time.Duration
	// FreeSpace replaces the disk's own answer, for tests.
	FreeSpace func() (int64, error)

	disk disk.Disk // instead of files: for tests of failing disks
}

// defaultUser is the name, and the password, of the user that a first start makes
// when it is not told another. It may only connect from this machine.
const defaultUser = "guest"

// drainTimeoutDefault is how long Stop waits for clients to answer connection.close.
const drainTimeoutDefault = 5 * time.Second

// storeOptions are what the configuration says of the store.
func (e *Engine) storeOptions() segstore.Options {
	return segstore.Options{
		Disk: e.disk, Arena: &e.pool, Logger: e.logger, DurabilityOS: e.config.DurabilityOS, OnCommit: e.committed,
		FlushInterval: e.config.FlushInterval, SyncInterval: e.config.SyncInterval,
	}
}
