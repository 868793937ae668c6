package engine

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/metrics"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Engine is a running broker.
type Engine struct {
	config Config
	logger *slog.Logger

	askedForUser bool        // a default user other than the usual one
	defaultHash  access.Hash // of its password; zero: the password itself is known
	drainTimeout atomic.Int64
	diskFreeMin  atomic.Int64

	lock     *os.File
	pool     arena.Pool
	disk     disk.Disk
	store    *segstore.Store
	bodies   *bodies.Store
	broker   *broker.Broker
	loops    []*loop.Loop
	server   atomic.Pointer[amqp.Server]
	handler  atomic.Pointer[admin.Handler]
	stats    *metrics.Stats
	observed observed
	control  *admin.Server
	http     *admin.Server  // nil: not asked for
	listener *loop.Listener // nil: fronts serve the port
	fronts   fronts
	login    login
	identify atomic.Pointer[func(c *x509.Certificate) string]
	space    atomic.Pointer[space]

	https                       *admin.Server // likewise
	httpListener, httpsListener *net.TCPListener

	stop    chan struct{}
	trimmed chan struct{}
	watched chan struct{}

	// IOReason says which backends run and why.
	IOReason string
}

// Start opens the data directory and serves it. Errors name what to do.
func Start(c Config) (*Engine, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if !c.Bind.IsValid() {
		c.Bind = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	if c.Loops <= 0 {
		c.Loops = runtime.NumCPU()
	}
	if c.IO == "" {
		c.IO = "auto"
	}
	asked := c.DefaultUser != ""
	if !asked {
		c.DefaultUser, c.DefaultPassword = defaultUser, defaultUser
	}
	if c.LoopbackUsers == nil {
		c.LoopbackUsers = []string{defaultUser}
	}
	e := &Engine{config: c, askedForUser: asked, logger: c.Logger, observed: observed{leaving: make(chan struct{})}, stop: make(chan struct{}), trimmed: make(chan struct{}), watched: make(chan struct{})}
	if c.DefaultPasswordHash != "" {
		var err error
		if e.defaultHash, err = access.ParseSaltedHash(c.DefaultPasswordHash); err != nil {
			return nil, fmt.Errorf("default_password_hash: %w", err)
		}
	}
	e.adopt(c)
	if err := e.start(); err != nil {
		e.abort()
		return nil, err
	}
	return e, nil
}

func (e *Engine) start() error {
	sharpenTimers()
	// Find out early: nothing has been read or written yet.
	if err := e.openFronts(); err != nil {
		return err
	}
	listener, err := e.listen()
	if err != nil {
		if errors.Is(err, unix.EADDRINUSE) {
			return fmt.Errorf("%w: another program has the port; choose another with --amqp-port", err)
		}
		return err
	}
	e.listener = listener
	if err := e.listenHTTP(); err != nil {
		return err
	}
	if err := e.listenWatch(); err != nil {
		return err
	}
	if err := e.unusedSockets(); err != nil {
		return err
	}
	file, err := e.readDefinitions()
	if err != nil {
		return err
	}
	if err := e.lockDir(); err != nil {
		return err
	}
	if e.disk = e.config.disk; e.disk != nil {
		e.IOReason = "as the test says"
	} else if e.disk, e.IOReason, err = openDisk(e.config.IO, e.config.DataDir); err != nil {
		return err
	}
	clean, err := e.cleanMark()
	if err != nil {
		return err
	}
	var journaled []broker.MetaRecord
	options := e.storeOptions()
	options.AfterCleanStop = clean
	options.OnMeta = func(seq uint64, rec []byte) error {
		journaled = append(journaled, broker.MetaRecord{Seq: seq, Data: bytes.Clone(rec)})
		return nil
	}
	e.store, err = segstore.Open(options)
	if err != nil {
		return err
	}
	e.bodies, err = bodies.Open(bodies.Options{Disk: e.disk, Arena: &e.pool, Logger: e.logger, NoSync: e.config.DurabilityOS})
	if err != nil {
		return err
	}
	if err := e.takeCleanMark(); err != nil {
		return err
	}
	e.broker, err = broker.Open(broker.Options{
		Store: e.store, Bodies: e.bodies, Disk: e.disk, Logger: e.logger, Journaled: journaled, CleanStop: clean,
		DefaultUser:   e.defaultUserFor(file),
		LoopbackUsers: e.config.LoopbackUsers,
		LogExchange:   e.config.Log != nil && e.config.LogExchange,
	})
	if err != nil {
		return err
	}
	if e.askedForUser && !e.broker.MadeDefaultUser() {
		e.logger.Info("the data directory has users already: the default user asked for is not made", "user", e.config.DefaultUser)
	}
	if err := e.importDefinitions(file); err != nil {
		return err
	}
	for i := range e.config.Loops {
		l, err := loop.New(loop.Options{ID: i, Arena: &e.pool, Logger: e.logger, Backend: socketBackend(e.config.IO)})
		if err != nil {
			return err
		}
		e.loops = append(e.loops, l)
	}
	if err := e.openLogin(); err != nil {
		return err
	}
	server := amqp.NewServer(amqp.Options{
		Broker: e.broker, Mechanisms: e.login.mechanisms, Attempts: &e.login.attempts, Loops: e.loops,
		Logger: e.logger, Version: e.config.Version, Node: nodeName(), Tuning: e.config.Tuning, SetTimestamp: e.config.SetTimestamp,
	})
	e.server.Store(server)
	for _, l := range e.loops {
		l.Start()
	}
	e.stats = metrics.NewStats(e.broker, server)
	e.stats.Start()
	e.newExporter()
	e.serveWatch()
	if err := e.serveControl(); err != nil {
		return err
	}
	if e.listener != nil {
		local := e.listener.Addr()
		if local.Addr().IsUnspecified() {
			local = netip.AddrPort{} // each connection has its own
		}
		e.listener.Serve(e.loops[0], func(fd int, remote netip.AddrPort) { server.Accept(fd, remote, local) })
	}
	e.fronts.serve(server.AcceptTransport)
	e.followLog()
	go e.trim()
	go e.watchSpace()
	return nil
}

// socketBackend chooses how loops wait: epoll unless io_uring is asked for.
// Measured with 128 KiB chunks, the two move the same; with many connections
// and small messages io_uring saves about a tenth of the loop's time, and
// epoll notices resets of paused connections at once.
func socketBackend(io string) string {
	if io == "uring" {
		return "uring"
	}
	return "epoll"
}

// committed passes progress of the store on to the connections that wait.
func (e *Engine) committed() {
	if s := e.server.Load(); s != nil {
		s.Committed()
	}
	if h := e.handler.Load(); h != nil {
		h.Committed()
	}
}

// Addr is where AMQP clients connect without TLS; invalid if they cannot.
func (e *Engine) Addr() netip.AddrPort {
	if e.listener != nil {
		return e.listener.Addr()
	}
	return addrOf(e.fronts.amqp)
}

// Recovered says what the start found.
func (e *Engine) Recovered() broker.Recovered { return e.broker.Recovered() }

// Loops is the number of event loops.
func (e *Engine) Loops() int { return len(e.loops) }

// Backends names the I/O backends of sockets and files.
func (e *Engine) Backends() (sockets, files string) { return e.loops[0].Backend(), e.disk.Name() }

// Broker gives access to the model, for tests and tools.
func (e *Engine) Broker() *broker.Broker { return e.broker }

// AMQP is the server of AMQP connections, for tests and tools.
func (e *Engine) AMQP() *amqp.Server { return e.server.Load() }

// Pool is the pool that all big buffers come from.
func (e *Engine) Pool() *arena.Pool { return &e.pool }

// Connections is the number of open sockets, those in their handshake included.
func (e *Engine) Connections() int { return e.server.Load().Conns() }

// Stop ends the broker in good order.
func (e *Engine) Stop() error {
	server := e.server.Load()
	close(e.observed.leaving)
	e.closeListeners()
	controlErr := errors.Join(e.closeControl(), e.closeHTTP())
	server.Shutdown()
	deadline := time.Now().Add(time.Duration(e.drainTimeout.Load()))
	for server.Conns() > 0 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	e.closeWatch()
	e.stats.Close()
	e.stopLoops()
	close(e.stop)
	if e.observed.unfollow != nil {
		e.observed.unfollow()
	}
	<-e.trimmed
	<-e.watched
	e.login.close()
	e.broker.Close()
	err := errors.Join(controlErr, e.bodies.Close(), e.store.Close())
	if err == nil {
		err = e.leaveCleanMark()
	}
	return errors.Join(err, e.disk.Close(), e.lock.Close())
}

func (e *Engine) stopLoops() {
	for _, l := range e.loops {
		l.Stop()
	}
	for _, l := range e.loops {
		l.Wait()
	}
}

// abort undoes a start that failed half way.
func (e *Engine) abort() {
	_ = e.closeControl()
	_ = e.closeHTTP()
	e.closeWatch()
	if e.stats != nil {
		e.stats.Close()
	}
	e.stopLoops() // those that were made need it even if they never ran
	if e.broker != nil {
		e.broker.Close()
	}
	if e.bodies != nil {
		_ = e.bodies.Close()
	}
	if e.store != nil {
		_ = e.store.Close()
	}
	if e.disk != nil {
		_ = e.disk.Close()
	}
	e.closeListeners()
	e.login.close()
	e.closePassed()
	if e.lock != nil {
		e.lock.Close()
	}
}
