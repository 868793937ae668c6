package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Definitions is the file of durable exchanges, queues and bindings: a header
// and then records (see records.go), appended by group commit.
//
//	8 bytes "BMQDEFS\x01": magic and format version
//	records
//
// Steps of a commit, all on one goroutine: take what has been appended since
// the last one; write it; fdatasync; publish the sequence number reached;
// call onDurable. What is appended meanwhile rides the next commit, so ten
// thousand pipelined declares cost a handful of syncs.
//
// A crash can leave a torn last record: it was never answered, and Open cuts
// it off (keeping what was cut beside the file). After a failed write or sync
// nothing is reported durable any more: the state of the file is unknown until
// it is read again at the next start.
type Definitions struct {
	disk      disk.Disk
	logger    *slog.Logger
	sync      bool // false: durability level "os"
	onDurable func()

	mu      sync.Mutex
	pending []byte // framed records not yet written
	replace []byte // not nil: a whole new file, then pending
	seq     uint64
	dead    int // records since the last rewrite that deleted something
	closed  bool
	kick    chan struct{}
	done    chan struct{}

	durable atomic.Uint64
	failed  atomic.Pointer[error]

	file disk.File
	pos  int64
}

const (
	definitionsName  = "definitions"
	definitionsMagic = "BMQDEFS\x01"
	recordHeader     = 8
	// recordBytesMax bounds one record: names of 255 bytes and an argument
	// table of at most a frame.
	recordBytesMax = 1 << 20
	// rewriteAfter deletions the file is written anew.
	rewriteAfter = 8192
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errClosed = errors.New("broker: definitions are closed")

// openDefinitions reads the file, calls apply for each record, and starts the
// committing goroutine.
func openDefinitions(d disk.Disk, sync bool, logger *slog.Logger, onDurable func(), apply func(rec []byte) error) (*Definitions, error) {
	f := &Definitions{disk: d, logger: logger, sync: sync, onDurable: onDurable, kick: make(chan struct{}, 1), done: make(chan struct{})}
	file, err := d.Open(definitionsName, disk.Create)
	if err != nil {
		return nil, err
	}
	f.file = file
	if err := f.load(apply); err != nil {
		file.Close()
		return nil, err
	}
	go f.run()
	return f, nil
}

func (f *Definitions) load(apply func(rec []byte) error) error {
	size, err := f.file.Size()
	if err != nil {
		return err
	}
	buf := make([]byte, size)
	if err := disk.Run(f.disk, &disk.Op{Kind: disk.Read, File: f.file, Buf: buf}); err != nil {
		return err
	}
	if strings.HasPrefix(definitionsMagic, string(buf)) { // new, or torn when it was new
		f.pos = int64(len(definitionsMagic))
		if err := disk.Run(f.disk, &disk.Op{Kind: disk.Write, File: f.file, Buf: []byte(definitionsMagic)}); err != nil {
			return err
		}
		return f.syncAll()
	}
	if len(buf) < len(definitionsMagic) || string(buf[:len(definitionsMagic)]) != definitionsMagic {
		return fmt.Errorf("broker: %s is not a definitions file of this version: restore it from a backup, or move it away to start without queues and exchanges", definitionsName)
	}
	pos := len(definitionsMagic)
	for pos < len(buf) {
		rec, n := nextRecord(buf[pos:])
		if n == 0 {
			break
		}
		if err := apply(rec); err != nil {
			return fmt.Errorf("%s at byte %d: %w", definitionsName, pos, err)
		}
		if kind := rec[0]; kind == recExchangeDelete || kind == recQueueDelete || kind == recUnbind {
			f.dead++
		}
		pos += n
	}
	f.pos = int64(pos)
	return f.cutTail(buf[pos:])
}

// cutTail removes what follows the last good record.
func (f *Definitions) cutTail(tail []byte) error {
	if len(tail) == 0 {
		return nil
	}
	for at := 1; at < len(tail); at++ {
		if _, n := nextRecord(tail[at:]); n != 0 {
			return fmt.Errorf("broker: %s is damaged at byte %d, with good records after it: restore it from a backup, or cut it there to lose what follows", definitionsName, f.pos)
		}
	}
	f.logger.Warn("the last definition record was torn by a crash and is dropped; it had not been answered", "file", definitionsName, "bytes", len(tail))
	if err := writeWhole(f.disk, definitionsName+".torn", tail); err != nil {
		return err
	}
	if err := disk.Run(f.disk, &disk.Op{Kind: disk.Truncate, File: f.file, Pos: f.pos}); err != nil {
		return err
	}
	return f.syncAll()
}

// nextRecord parses one framed record; n == 0 when there is no whole, sound one.
func nextRecord(buf []byte) (rec []byte, n int) {
	if len(buf) < recordHeader {
		return nil, 0
	}
	size := binary.LittleEndian.Uint32(buf)
	if size == 0 || size > recordBytesMax || uint64(size) > uint64(len(buf)-recordHeader) {
		return nil, 0
	}
	rec = buf[recordHeader : recordHeader+size]
	if crc32.Checksum(rec, castagnoli) != binary.LittleEndian.Uint32(buf[4:]) {
		return nil, 0
	}
	return rec, recordHeader + int(size)
}

func appendRecord(dst, rec []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(rec)))
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(rec, castagnoli))
	return append(dst, rec...)
}

// Append queues a record and returns its sequence number (from 1). Called
// under the lock of what it describes.
func (f *Definitions) Append(rec []byte) uint64 {
	f.mu.Lock()
	f.pending = appendRecord(f.pending, rec)
	f.seq++
	if kind := rec[0]; kind == recExchangeDelete || kind == recQueueDelete || kind == recUnbind {
		f.dead++
	}
	seq := f.seq
	f.mu.Unlock()
	f.wake()
	return seq
}

func (f *Definitions) wake() {
	select {
	case f.kick <- struct{}{}:
	default:
	}
}

// Durable returns the sequence number up to which records are safe.
func (f *Definitions) Durable() uint64 { return f.durable.Load() }

// pendingSeq is the last sequence number given out, 0 if it is durable.
func (f *Definitions) pendingSeq() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.durable.Load() >= f.seq {
		return 0
	}
	return f.seq
}

// Err returns why nothing gets durable any more; nil while all is well.
func (f *Definitions) Err() error {
	if e := f.failed.Load(); e != nil {
		return *e
	}
	return nil
}

// wantsRewrite says that the file holds much that has been deleted since.
func (f *Definitions) wantsRewrite() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dead > rewriteAfter
}

// rewrite replaces the file's contents by records, which describe the state
// that everything appended so far led to. The caller holds the locks under
// which records are appended.
func (f *Definitions) rewrite(records []byte) {
	f.mu.Lock()
	f.replace = append([]byte(definitionsMagic), records...)
	f.pending = nil
	f.dead = 0
	f.mu.Unlock()
	f.wake()
}

func (f *Definitions) run() {
	defer close(f.done)
	for range f.kick {
		f.mu.Lock()
		pending, replace, seq, closed := f.pending, f.replace, f.seq, f.closed
		f.pending, f.replace = nil, nil
		f.mu.Unlock()
		if f.Err() == nil && (len(pending) > 0 || replace != nil) {
			f.commit(pending, replace, seq)
		}
		if closed {
			return
		}
	}
}

func (f *Definitions) commit(pending, replace []byte, seq uint64) {
	err := f.write(pending, replace)
	if err != nil {
		err = fmt.Errorf("broker: definitions cannot be written any more, durable declarations are refused until a restart: %w", err)
		f.logger.Error("definitions cannot be written; durable declarations are refused until a restart", "file", definitionsName, "err", err)
		f.failed.Store(&err)
	} else {
		f.durable.Store(seq)
	}
	f.onDurable()
}

func (f *Definitions) write(pending, replace []byte) error {
	if replace != nil {
		const tmp = definitionsName + ".new"
		if err := writeWhole(f.disk, tmp, replace); err != nil {
			return err
		}
		if err := f.disk.Rename(tmp, definitionsName); err != nil {
			return err
		}
		file, err := f.disk.Open(definitionsName, disk.ReadWrite)
		if err != nil {
			return err
		}
		f.file.Close()
		f.file, f.pos = file, int64(len(replace))
		if err := f.disk.SyncDir("."); err != nil {
			return err
		}
	}
	if len(pending) == 0 {
		return nil
	}
	if err := disk.Run(f.disk, &disk.Op{Kind: disk.Write, File: f.file, Pos: f.pos, Buf: pending}); err != nil {
		return err
	}
	f.pos += int64(len(pending))
	if !f.sync {
		return nil
	}
	return disk.Run(f.disk, &disk.Op{Kind: disk.Sync, File: f.file})
}

func (f *Definitions) syncAll() error {
	if err := disk.Run(f.disk, &disk.Op{Kind: disk.Sync, File: f.file}); err != nil {
		return err
	}
	return f.disk.SyncDir(".")
}

// close commits what is pending and ends the goroutine.
func (f *Definitions) close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return errClosed
	}
	f.closed = true
	f.mu.Unlock()
	f.wake()
	<-f.done
	err := f.Err()
	if err == nil {
		err = disk.Run(f.disk, &disk.Op{Kind: disk.Sync, File: f.file})
	}
	return errors.Join(err, f.file.Close())
}

// writeWhole creates or replaces a small file and syncs its contents.
func writeWhole(d disk.Disk, name string, data []byte) error {
	_ = d.Remove(name)
	file, err := d.Open(name, disk.CreateNew)
	if err != nil {
		return err
	}
	err = disk.Run(d, &disk.Op{Kind: disk.Write, File: file, Buf: data})
	if err == nil {
		err = disk.Run(d, &disk.Op{Kind: disk.Sync, File: file})
	}
	return errors.Join(err, file.Close())
}
