package broker

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Options configure a Broker.
type Options struct {
	Store  *segstore.Store
	Disk   disk.Disk
	Logger *slog.Logger
	// SyncDefinitions is false at durability level "os".
	SyncDefinitions bool
	// CleanStop says that the last broker on these files stopped in good order.
	CleanStop bool
	// OnDurable is called, from any goroutine, when Definitions.Durable moved or
	// Definitions.Err was set.
	OnDurable func()
}

// Broker is the set of virtual hosts of one data directory.
type Broker struct {
	store  *segstore.Store
	logger *slog.Logger
	defs   *Definitions

	mu        sync.RWMutex
	vhosts    map[string]*VHost
	nextID    atomic.Uint64
	rewriting atomic.Bool
	recovered Recovered
}

// Recovered says what a start found.
type Recovered struct {
	Queues, Exchanges, Bindings int
	Messages                    uint64
}

// DefaultVHost exists always.
const DefaultVHost = "/"

// Open reads the definitions and opens the logs of all durable queues.
func Open(o Options) (*Broker, error) {
	b := &Broker{store: o.Store, logger: o.Logger, vhosts: map[string]*VHost{}}
	b.reserveLogID(1)
	b.vhost(DefaultVHost)
	defs, err := openDefinitions(o.Disk, o.SyncDefinitions, o.Logger, func() {
		o.OnDurable()
		b.rewriteIfDue()
	}, b.apply)
	if err != nil {
		return nil, err
	}
	b.defs = defs
	if err := b.openLogs(&o); err != nil {
		return nil, errors.Join(err, defs.close())
	}
	return b, nil
}

// openLogs opens the log of each queue that the definitions left, and puts
// directories that belong to none aside.
func (b *Broker) openLogs(o *Options) error {
	known := map[uint64]bool{}
	for _, vh := range b.vhosts {
		for _, e := range vh.exchanges {
			if !isPredeclared(e.Name) {
				b.recovered.Exchanges++
			}
			b.recovered.Bindings += e.index.Len()
		}
		for _, q := range vh.queues {
			log, err := b.store.OpenLog(q.ID, segstore.LogOptions{})
			if err != nil {
				return err
			}
			q.log = log
			q.recover(o.CleanStop)
			known[q.ID] = true
			b.recovered.Queues++
			b.recovered.Messages += q.ready()
		}
	}
	ids, err := b.store.ListLogs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		b.reserveLogID(id + 1)
		if !known[id] {
			b.logger.Warn("a log belongs to no queue: its directory is put aside under quarantine/", "log", id)
			if err := b.store.Quarantine(id); err != nil {
				return err
			}
		}
	}
	return nil
}

// Recovered returns what Open found.
func (b *Broker) Recovered() Recovered { return b.recovered }

// Definitions returns the file of durable definitions.
func (b *Broker) Definitions() *Definitions { return b.defs }

// Store returns the message store.
func (b *Broker) Store() *segstore.Store { return b.store }

// VHost finds a virtual host; nil if there is none of that name.
func (b *Broker) VHost(name string) *VHost {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.vhosts[name]
}

// vhost finds or makes a virtual host, while starting.
func (b *Broker) vhost(name string) *VHost {
	vh := b.vhosts[name]
	if vh == nil {
		vh = newVHost(b, name)
		b.vhosts[name] = vh
	}
	return vh
}

// record appends a definition record. While the file itself is being replayed
// there is nothing to record.
func (b *Broker) record(rec []byte) uint64 {
	if b.replaying() {
		return 0
	}
	return b.defs.Append(rec)
}

// replaying says that the definitions file is being read. Exchanges are then
// not deleted automatically: bindings to what is not durable are missing, and
// there is a record for each exchange that really went.
func (b *Broker) replaying() bool { return b.defs == nil }

// pendingSeq is the sequence number of the last definition record if it is not
// durable yet, else 0.
func (b *Broker) pendingSeq() uint64 {
	if b.replaying() {
		return 0
	}
	return b.defs.pendingSeq()
}

func (b *Broker) newLogID() uint64 { return b.nextID.Add(1) - 1 }

// reserveLogID makes ids below n unavailable.
func (b *Broker) reserveLogID(n uint64) {
	if n > b.nextID.Load() {
		b.nextID.Store(n)
	}
}

// rewriteIfDue replaces the definitions file by a short one when most of it
// has been deleted since.
func (b *Broker) rewriteIfDue() {
	if !b.defs.wantsRewrite() || !b.rewriting.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer b.rewriting.Store(false)
		b.Rewrite()
	}()
}

// Rewrite writes the definitions file anew from the present state.
func (b *Broker) Rewrite() {
	b.mu.RLock()
	defer b.mu.RUnlock()
	records := appendRecord(nil, fields{recNextLogID}.num(b.nextID.Load()))
	for _, vh := range b.vhosts {
		vh.mu.Lock()
		defer vh.mu.Unlock()
		vh.snapshot(func(rec []byte) { records = appendRecord(records, rec) })
	}
	b.defs.rewrite(records)
}

// Close commits the definitions. The store is the caller's to close.
func (b *Broker) Close() error { return b.defs.close() }
