package segstore

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/histogram"
)

// Errors callers decide on.
var (
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("segstore: the store is closed")
	// ErrDeleted: the log was deleted.
	ErrDeleted = errors.New("segstore: the log was deleted")
	// ErrNotResident: Seek has started reading from disk and will call wake.
	ErrNotResident = errors.New("segstore: the record is being read from disk")
)

// ErrMissing is returned by Seek for an offset that has no record: a hole left
// by records settled before they were written, or a corrupt batch. Next is the
// first offset after it that may have one. The caller settles [offset, Next).
type ErrMissing struct{ Next uint64 }

func (e ErrMissing) Error() string {
	return fmt.Sprintf("segstore: no record here, the next one may be at offset %d", e.Next)
}

// Options configure a Store. Disk and Arena are required.
type Options struct {
	Disk   disk.Disk
	Arena  *arena.Pool
	Logger *slog.Logger // nil: silent

	FlushInterval time.Duration // how old a record gets before it is written; 10 ms
	SyncInterval  time.Duration // how long written bytes stay unsynced; 1 s
	SegmentBytes  int64         // size at which a segment is closed; 64 MiB
	TailBytesHigh int64         // unwritten bytes of all logs that raise Pressured; 8 MiB
	TailBytesLow  int64         // and those that clear it; 4 MiB
	JournalBytes  int64         // size at which the journal changes to its other file; 128 MiB
	HeldBytes     int64         // memory for records that only the journal has; 8 MiB
	PunchBytes    int64         // what a segment must have to give back, and a 16th of it, before it is looked at; 256 KiB

	// DurabilityOS makes "durable" mean written to the page cache.
	DurabilityOS bool

	// AfterCleanStop says that the last store on these files was closed, without an
	// error. Then nothing that cannot be read is excused as what a crash leaves.
	AfterCleanStop bool

	// OnCommit is called from the flusher's goroutine when the Durable of some
	// log moved, a log was fenced, or pressure was relieved. Must not block.
	OnCommit func()

	// OnMeta is called by Open for each meta record that the journal holds, in
	// the order of AppendMeta. Some may be older than the last meta checkpoint:
	// sequence numbers tell. rec is valid during the call. Records without an
	// OnMeta stay in the journal, which makes Open fail.
	OnMeta func(seq uint64, rec []byte) error

	tune tuning
}

// tuning are the limits tests shrink.
type tuning struct {
	fullBytes     int64 // unwritten bytes in full chunks that are written at once
	frontBytes    int64 // written bytes a log keeps resident for its consumers
	keptBytes     int64 // the same for all logs together
	blockBytes    int   // size of a read behind the tail
	indexBytes    int64 // distance of index entries
	settledBytes  int64 // size at which a settled file is rewritten
	sealBytes     int64 // Close seals segments from this size on
	filesMax      int   // open file handles
	waveLogs      int   // logs flushed together
	bypassBytes   int64 // unsaved bytes of one log that go straight to its segment
	groupBytes    int64 // size at which a group of the journal is closed
	carryBytes    int64 // a checkpoint carries smaller tails over to the new file
	carryRanges   int   // and sets of up to so many settled ranges
	ackBytes      int64 // settled entries in one flush tick
	heldFactor    int64 // times HeldBytes, and the flusher waits for the filer
	stepLogs      int   // logs that a checkpoint writes out in one step
	aheadBytes    int64 // zeros written ahead in the journal
	spaceWait     time.Duration
	manual        bool // no flusher goroutine: tests call cycle
	now           func() time.Time
	workersMax    int // goroutines that read behind the tail
	blocksPerLog  int // cached blocks of a log
	indexesPerLog int // cached indexes of sealed segments of a log
}

func (o *Options) setDefaults() {
	setDefault(&o.Logger, slog.New(slog.NewTextHandler(io.Discard, nil)))
	setDefault(&o.FlushInterval, 10*time.Millisecond)
	setDefault(&o.SyncInterval, time.Second)
	setDefault(&o.SegmentBytes, 64<<20)
	setDefault(&o.TailBytesHigh, 8<<20)
	setDefault(&o.TailBytesLow, o.TailBytesHigh/2)
	setDefault(&o.JournalBytes, 128<<20)
	setDefault(&o.HeldBytes, 8<<20)
	setDefault(&o.PunchBytes, 256<<10)
	if o.OnCommit == nil {
		o.OnCommit = func() {}
	}
	t := &o.tune
	setDefault(&t.fullBytes, 1<<20)
	setDefault(&t.frontBytes, 2<<20)
	setDefault(&t.keptBytes, 8<<20)
	setDefault(&t.blockBytes, arena.BufBytesMax)
	setDefault(&t.indexBytes, 64<<10)
	setDefault(&t.settledBytes, 64<<10)
	setDefault(&t.sealBytes, 1<<20)
	setDefault(&t.filesMax, 2048)
	setDefault(&t.waveLogs, 200)
	setDefault(&t.bypassBytes, arena.BufBytesMax)
	setDefault(&t.groupBytes, 4<<20)
	setDefault(&t.carryBytes, 2<<10)
	setDefault(&t.carryRanges, 32)
	setDefault(&t.ackBytes, 64<<10)
	setDefault(&t.heldFactor, 2)
	setDefault(&t.stepLogs, 32)
	setDefault(&t.aheadBytes, 1<<20)
	setDefault(&t.spaceWait, 2*o.FlushInterval)
	setDefault(&t.workersMax, 8)
	setDefault(&t.blocksPerLog, 4)
	setDefault(&t.indexesPerLog, 4)
	if t.now == nil {
		t.now = time.Now
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Flags of Log.lists: which lists of the store name the log.
const (
	listDirty  = 1 << iota // to be seen at the next flush tick
	listUrgent             // to be seen at once
	listSlow               // to be seen at the next sync tick
	listParked             // transient, written only when memory gets short
	listHeld               // has records that only the journal has
	listTaken              // used while lists are taken
)

// Store is a set of logs in one directory tree with one flusher.
type Store struct {
	o     Options
	tune  tuning
	disk  disk.Disk
	arena *arena.Pool
	files fileCache

	unwritten     atomic.Int64 // bytes appended, neither in the journal nor in a segment nor skipped
	heldBytes     atomic.Int64 // of chunks that are partly in the journal alone
	keptBytes     atomic.Int64
	residentBytes atomic.Int64
	blockBytes    atomic.Int64 // the part of residentBytes read behind the tail
	openTails     atomic.Int64 // logs with an open chunk
	crowded       atomic.Bool  // they are many, see spill.go
	commits       atomic.Uint64
	pressured     atomic.Bool
	journalBehind atomic.Bool  // both files are full
	spaceWaiters  atomic.Int32 // crews that wait for space
	rootMu        sync.Mutex   // held while logs/ is synced; a leaf
	rootUnsynced  atomic.Bool  // directories were made in logs/ since

	skippedBytes   atomic.Uint64
	writtenBytes   atomic.Uint64
	readBytes      atomic.Uint64
	writes         atomic.Uint64
	syncs          atomic.Uint64
	cycles         atomic.Uint64
	corruptBatches atomic.Uint64
	punches        atomic.Uint64
	punchedBytes   atomic.Uint64
	fencedLogs     atomic.Int64
	unreadLogs     atomic.Int64 // of them

	histograms Histograms

	chunkMu   sync.Mutex
	chunkFree []*chunk

	// mu is taken after any Log.mu, never before one.
	mu        sync.Mutex
	logs      map[uint64]*Log
	idMax     uint64 // the highest id that is on disk or was opened
	dirty     []*Log
	urgent    []*Log
	slow      []*Log
	parked    []*Log
	holders   []*Log
	spareList []*Log // empty, to be the next of these
	closed    bool

	kick    chan struct{}    // capacity 1: something was listed
	calls   chan func(error) // for the flusher's goroutine, see onFlusher
	stop    chan struct{}
	stopped chan struct{}
	flusher flusher
	filer   filer
	reopens sync.WaitGroup // begun by the flusher
	journal journalState
	gate    gate
	fetcher fetcher
	puncher puncher
}

// list puts the log on a list of the store unless it is there already. Called
// with the log's mutex held: if the flusher has taken the log off the list just
// now, it will lock that mutex and see why it was listed.
func (l *Log) list(flag uint32) {
	if l.lists.Load()&flag != 0 {
		return
	}
	s := l.store
	s.mu.Lock()
	l.lists.Or(flag)
	var list *[]*Log
	switch flag {
	case listDirty:
		list = &s.dirty
	case listUrgent:
		list = &s.urgent
	case listSlow:
		list = &s.slow
	case listParked:
		list = &s.parked
	case listHeld:
		list = &s.holders
	}
	*list = append(*list, l)
	first := len(*list) == 1
	s.mu.Unlock()
	if first && flag&(listParked|listHeld) == 0 {
		s.wake()
	}
}

// takeList moves a list of the store to logs, without those already there. Called
// by the flusher with s.mu held; untake ends it. It gives s.mu up meanwhile: the
// flags of a thousand logs are as many misses of the cache, and loops want to list
// others. Who finds a flag still set need not list the log again: it is visited
// after all flags were cleared, which takes its lock.
func (s *Store) takeList(logs []*Log, list *[]*Log, flag uint32) []*Log {
	taken := *list
	if len(taken) == 0 {
		return logs
	}
	*list, s.spareList = s.spareList, nil
	s.mu.Unlock()
	for _, l := range taken {
		if l.lists.And(^flag)&listTaken == 0 {
			l.lists.Or(listTaken)
			logs = append(logs, l)
		}
	}
	clear(taken)
	s.mu.Lock()
	s.spareList = taken[:0]
	return logs
}

func untake(logs []*Log) {
	for _, l := range logs {
		l.lists.And(^uint32(listTaken))
	}
}

// wake makes the flusher look at the lists.
func (s *Store) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// appended accounts bytes that a log took in.
func (s *Store) appended(bytes int) {
	if s.unwritten.Add(int64(bytes)) > s.o.TailBytesHigh && s.pressured.CompareAndSwap(false, true) {
		s.wake()
	}
}

// Pressured reports that the disk does not keep up: more than TailBytesHigh
// bytes are unwritten, and they have not fallen to TailBytesLow since; or the
// journal is full and what its older file holds is still on its way to the
// segments; or the disk is full.
// Publishers should wait; OnCommit tells when it is over.
func (s *Store) Pressured() bool {
	return s.pressured.Load() || s.journalBehind.Load() || s.NoSpace()
}

// Commits counts the calls of OnCommit, before each, and the logs that take no
// more. While it stays the same, no Durable and no Err has changed.
func (s *Store) Commits() uint64 { return s.commits.Load() }

// NoSpace reports that the disk is full: a write waits until there is space
// again. Nothing is lost; OnCommit tells when it changes.
func (s *Store) NoSpace() bool { return s.spaceWaiters.Load() > 0 }

// Stats are figures of a store. Counters count from Open.
type Stats struct {
	Logs           int
	OpenFiles      int
	FencedLogs     int
	UnreadLogs     int    // of them: could not be read when they were opened
	UnwrittenBytes int64  // appended, neither written nor settled
	ResidentBytes  int64  // arena bytes of log tails and read blocks
	WrittenBytes   uint64 // handed to the disk, of any kind
	SkippedBytes   uint64 // settled before they had to be written
	ReadBytes      uint64 // read behind the tail
	Writes         uint64
	Syncs          uint64
	Cycles         uint64 // of the flusher
	CorruptBatches uint64
	Punches        uint64 // holes given back to the file system
	PunchedBytes   uint64 // and their blocks

	HeldBytes       int64         // memory of records that only the journal has
	JournalBytes    uint64        // written to the journal
	JournalGroups   uint64        //
	JournalSyncs    uint64        //
	Checkpoints     uint64        // finished
	BypassedBytes   uint64        // written to segments without the journal
	ReplayedEntries uint64        // by Open
	RecoveryTime    time.Duration // of Open
}

// Histograms are distributions of what the flusher did since Open.
type Histograms struct {
	Sync         histogram.Histogram // time of a wave of writes and syncs, with at least one sync
	GroupBytes   histogram.Histogram // of groups of the journal
	GroupEntries histogram.Histogram
}

// Histograms returns them. Any goroutine.
func (s *Store) Histograms() *Histograms { return &s.histograms }

// Stats returns current figures.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	logs := len(s.logs)
	s.mu.Unlock()
	return Stats{
		Logs:           logs,
		OpenFiles:      s.files.count(),
		FencedLogs:     int(s.fencedLogs.Load()),
		UnreadLogs:     int(s.unreadLogs.Load()),
		UnwrittenBytes: s.unwritten.Load(),
		ResidentBytes:  s.residentBytes.Load(),
		WrittenBytes:   s.writtenBytes.Load(),
		SkippedBytes:   s.skippedBytes.Load(),
		ReadBytes:      s.readBytes.Load(),
		Writes:         s.writes.Load(),
		Syncs:          s.syncs.Load(),
		Cycles:         s.cycles.Load(),
		CorruptBatches: s.corruptBatches.Load(),
		Punches:        s.punches.Load(),
		PunchedBytes:   s.punchedBytes.Load(),

		HeldBytes:       s.heldBytes.Load(),
		JournalBytes:    s.journal.bytes.Load(),
		JournalGroups:   s.journal.groups.Load(),
		JournalSyncs:    s.journal.syncs.Load(),
		Checkpoints:     s.journal.checkpoints.Load(),
		BypassedBytes:   s.journal.bypassed.Load(),
		ReplayedEntries: s.journal.replayed,
		RecoveryTime:    s.journal.recovery,
	}
}
