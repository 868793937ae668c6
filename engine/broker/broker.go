package broker

import (
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Options configure a Broker.
type Options struct {
	Store  *segstore.Store
	Disk   disk.Disk
	Logger *slog.Logger
	// Bodies keeps large bodies; nil: there are none.
	Bodies *bodies.Store
	// Journaled are the definition records that the store's journal held.
	Journaled []MetaRecord
	// CleanStop says that the last broker on these files stopped in good order.
	CleanStop bool
	// DefaultUser is made when there have never been users; nil: nobody is.
	DefaultUser *DefaultUser
	// LoopbackUsers may only come from this machine.
	LoopbackUsers []string

	// LogExchange gives the default virtual host the exchange of that name.
	LogExchange bool

	// For tests: another clock (Unix milliseconds), and no keeper of its own.
	now    func() int64
	manual bool
}

// Broker is the set of virtual hosts of one data directory.
type Broker struct {
	store   *segstore.Store
	logger  *slog.Logger
	bodies  *bodies.Store
	scan    bodyScan
	keeper  keeper
	commits commits
	defs    *Definitions

	// admin is held while users, permissions and virtual hosts change; it comes
	// before all other locks.
	admin    sync.Mutex
	users    *access.Registry
	loopback []string
	seeded   bool // there are records of users; guarded by admin
	first    bool // this start made the default user

	totals      totals
	logExchange bool
	deaths      [len(reasonNames)]atomic.Uint64 // by reason

	parameters map[parameterKey][]byte // guarded by admin

	revoked atomic.Pointer[func()]
	replays replays

	mu        sync.RWMutex
	vhosts    map[string]*VHost
	dropped   map[uint64]bool // log ids of queues that a record deleted; only while starting
	nextID    atomic.Uint64
	recovered Recovered
	cleanStop bool       // the broker before this one stopped in good order
	rereading sync.Mutex // held while a queue is read again, see unread.go; comes before all others
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
	b := newBroker(&o)
	b.cleanStop = o.CleanStop
	b.replays.stopping = make(chan struct{})
	b.keeper.now, b.keeper.never = o.now, o.manual
	b.keeper.init(b)
	defs, err := loadDefinitions(o.Disk, o.Store, o.Journaled, b.apply)
	if err != nil {
		return nil, err
	}
	b.forgetUnrecorded()
	b.matchPolicies()
	b.defs = defs
	o.Store.SetMetaCheckpoint(b.checkpoint)
	if err := b.openLogs(&o); err != nil {
		return nil, err
	}
	b.dropped = nil
	if err := b.seed(o.DefaultUser); err != nil {
		return nil, err
	}
	b.keeper.start() // not before everything is there that dead letters are routed by
	return b, nil
}

func newBroker(o *Options) *Broker {
	b := &Broker{
		store: o.Store, logger: o.Logger, bodies: o.Bodies, vhosts: map[string]*VHost{},
		users: access.NewRegistry(), loopback: o.LoopbackUsers, dropped: map[uint64]bool{},
		parameters: map[parameterKey][]byte{}, logExchange: o.LogExchange,
	}
	b.reserveLogID(1)
	b.vhost(DefaultVHost)
	return b
}

// ReadOffline makes the model that a stopped broker's definitions say: the
// contents of the file, nil if there is none, and what the journal has beyond it.
// It is for tools that list what there is: nothing in it has a log, and nothing
// can be changed.
func ReadOffline(file []byte, journaled []MetaRecord) (*Broker, error) {
	b := newBroker(&Options{Logger: slog.New(slog.DiscardHandler)})
	if err := new(Definitions).replay(file, journaled, b.apply); err != nil {
		return nil, err
	}
	b.forgetUnrecorded()
	b.matchPolicies()
	return b, nil
}

// openLogs opens the log of each queue that the definitions left, and puts
// directories that belong to none aside.
func (b *Broker) openLogs(o *Options) error {
	known := map[uint64]*Queue{}
	ids, err := b.store.ListLogs()
	if err != nil {
		return err
	}
	present := map[uint64]bool{}
	for _, id := range ids {
		present[id] = true
	}
	var left []bodies.Left
	if b.bodies != nil {
		left = b.bodies.Left()
	}
	for _, dir := range left {
		present[dir.Log] = true
	}
	for _, vh := range b.vhosts {
		for _, e := range vh.exchanges {
			if !isPredeclared(e.Name) {
				b.recovered.Exchanges++
			}
			b.recovered.Bindings += e.index.Len()
			if e.history != nil {
				if err := vh.openHistory(e); err != nil {
					return err
				}
				known[e.history.ID] = e.history
			}
			if e.delayed != nil {
				if err := vh.openDelayed(e); err != nil {
					return err
				}
				known[e.delayed.ID], known[e.delayed.hidden.scheduleID] = e.delayed, e.delayed
				b.recovered.Messages += e.delayed.log.Unsettled()
			}
		}
		for _, q := range vh.queues {
			if queueType(q.Arguments) == "stream" {
				q.newStream()
			}
			if err := q.openStored(o.CleanStop, func(id uint64) bool { return present[id] }, known); err != nil {
				return err
			}
			if err := q.adopt(o.CleanStop); err != nil {
				q.shut(err)
			}
			b.recovered.Queues++
			b.recovered.Messages += q.total()
		}
	}
	values, err := b.openDeduplicators(known)
	if err != nil {
		return err
	}
	var stay []uint64
	for _, id := range ids {
		b.reserveLogID(id + 1)
		if known[id] != nil || values[id] || b.dropped[id] && b.finishDrop(id) {
			continue
		}
		switch err := b.store.Quarantine(id); {
		case disk.IsNoSpace(err): // consumers have to make space, and wait for the start
			stay = append(stay, id)
		case err != nil:
			b.logger.Error("a log that belongs to no queue cannot be put aside: the next start tries again", "log", id, "err", err)
		}
	}
	if len(stay) > 0 {
		b.logger.Warn("logs that belong to no queue cannot be put aside because the disk is full: the next start tries again", "logs", stay)
	}
	b.openBodies(known, left)
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

func (b *Broker) newLogID() uint64 { return b.newLogIDs(1) }

// newLogIDs gives out n consecutive ids and returns the first.
func (b *Broker) newLogIDs(n uint64) uint64 { return b.nextID.Add(n) - n }

// reserveLogID makes ids below n unavailable.
func (b *Broker) reserveLogID(n uint64) {
	if n > b.nextID.Load() {
		b.nextID.Store(n)
	}
}

// checkpoint writes a snapshot of the definitions. The store calls it, from one
// goroutine at a time.
func (b *Broker) checkpoint() error {
	b.admin.Lock()
	defer b.admin.Unlock()
	b.mu.RLock()
	vhosts := slices.Collect(maps.Values(b.vhosts))
	b.mu.RUnlock()
	for _, vh := range vhosts {
		vh.mu.RLock()
	}
	// All changes are made under the locks just taken: none is half done.
	seq := b.defs.Last()
	var records [][]byte
	if seq != b.defs.saved {
		b.snapshot(vhosts, func(rec []byte) { records = append(records, rec) })
	}
	for _, vh := range vhosts {
		vh.mu.RUnlock()
	}
	if records == nil {
		return nil
	}
	return b.defs.save(seq, records)
}

// snapshot is the shortest series of records that leads to the present state.
func (b *Broker) snapshot(vhosts []*VHost, emit func(rec []byte)) {
	emit(fields{recNextLogID}.num(b.nextID.Load()))
	b.snapshotAccess(vhosts, emit)
	b.snapshotPolicies(vhosts, emit)
	for _, vh := range vhosts {
		vh.snapshot(emit)
	}
}

// finishDrop deletes the log of a queue whose deletion is recorded, but which a
// crash interrupted.
func (b *Broker) finishDrop(id uint64) bool {
	log, err := b.store.OpenLog(id, segstore.LogOptions{})
	if err != nil {
		return false
	}
	return log.Delete() == nil
}

// Bodies returns the store of large bodies; nil if there is none.
func (b *Broker) Bodies() *bodies.Store { return b.bodies }

// Close ends what runs in the background. The stores are the caller's to
// close, after it: closing asks for a last snapshot of the definitions.
func (b *Broker) Close() {
	b.replays.close()
	b.scan.close()
	b.keeper.close()
}
