package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"sync"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// Definitions makes durable exchanges, queues and bindings survive. A change is
// a record (see records.go) with a sequence number, which goes into the store's
// journal: ten thousand pipelined declares, and the messages published
// meanwhile, share a handful of syncs. When the journal wants a file of it back
// (a checkpoint), the present state is written as a snapshot:
//
//	8 bytes "BMQDEFS\x01": magic and format version
//	records, each u32 length | u32 CRC-32C | u8 kind | payload; the first is
//	recSnapshot: sequence number the state includes, number of records
//
// The snapshot is written beside the old one, synced, and renamed over it, so
// there is always a whole one. A start reads it and applies those records of
// the journal that are newer.
//
// States a crash can leave, and what mends them:
//
//  1. records in the journal only: applied at the next start;
//  2. records in the journal and in the snapshot: skipped by their numbers;
//  3. an unfinished definitions.new: overwritten by the next snapshot.
//
// Damage inside the snapshot stops the start with an explanation: without it
// every log would look like an orphan.
type Definitions struct {
	store *segstore.Store
	disk  disk.Disk
	base  uint64 // sequence number that the start recovered

	mu  sync.Mutex
	seq uint64 // last number given out

	saved uint64 // number that the snapshot includes; only the checkpoint looks
}

const (
	definitionsName  = "definitions"
	definitionsTemp  = "definitions.new"
	definitionsMagic = "BMQDEFS\x01"
	recordHeader     = 8
	// recordBytesMax bounds one record: names of 255 bytes and an argument
	// table of at most a frame.
	recordBytesMax = 1 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// MetaRecord is a definition record that the journal held at the start.
type MetaRecord struct {
	Seq  uint64
	Data []byte
}

// loadDefinitions reads the snapshot and what the journal has beyond it, and
// calls apply for each record.
func loadDefinitions(d disk.Disk, store *segstore.Store, journaled []MetaRecord, apply func(rec []byte) error) (*Definitions, error) {
	f := &Definitions{store: store, disk: d}
	data, err := readWhole(d, definitionsName)
	if err != nil {
		err = fmt.Errorf("broker: nothing is known of queues and users without the definitions: mend the disk or the permissions, or restore the data directory from a backup: %w", err)
	} else {
		err = f.replay(data, journaled, apply)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// replay applies a snapshot, nil for none, and what the journal has beyond it.
func (f *Definitions) replay(data []byte, journaled []MetaRecord, apply func(rec []byte) error) (err error) {
	if data != nil {
		if f.saved, err = readSnapshot(data, apply); err != nil {
			return err
		}
	}
	f.seq = f.saved
	for _, m := range journaled {
		if m.Seq <= f.seq {
			continue
		}
		if m.Seq != f.seq+1 {
			return fmt.Errorf("broker: definition records %d to %d are missing between %s and the journal: an older %s than the journal belongs to, or a damaged journal; restore both from one backup", f.seq+1, m.Seq-1, definitionsName, definitionsName)
		}
		if len(m.Data) == 0 {
			return errRecord
		}
		if err := apply(m.Data); err != nil {
			return fmt.Errorf("definition record %d of the journal: %w", m.Seq, err)
		}
		f.seq = m.Seq
	}
	f.base = f.seq
	return nil
}

// readSnapshot applies the records of a definitions file and returns the
// sequence number it includes.
func readSnapshot(data []byte, apply func(rec []byte) error) (seq uint64, err error) {
	if len(data) < len(definitionsMagic) || string(data[:len(definitionsMagic)]) != definitionsMagic {
		return 0, fmt.Errorf("broker: %s is not a definitions file of this version: restore it from a backup, or move it away to start without queues and exchanges", definitionsName)
	}
	pos, count, want := len(definitionsMagic), uint64(0), uint64(0)
	for pos < len(data) {
		rec, n := nextRecord(data[pos:])
		if n == 0 {
			return 0, damaged(pos)
		}
		if pos == len(definitionsMagic) {
			if seq, want, err = parseSnapshotRecord(rec); err != nil {
				return 0, err
			}
		} else if err := apply(rec); err != nil {
			return 0, fmt.Errorf("%s at byte %d: %w", definitionsName, pos, err)
		}
		pos += n
		count++
	}
	if count == 0 || count != want {
		return 0, damaged(pos)
	}
	return seq, nil
}

func damaged(pos int) error {
	return fmt.Errorf("broker: %s is damaged at byte %d: restore it from a backup", definitionsName, pos)
}

// parseSnapshotRecord reads the first record of a definitions file.
func parseSnapshotRecord(rec []byte) (seq, count uint64, err error) {
	r := &reader{rest: rec[1:]}
	seq, count = r.num(), r.num()
	if rec[0] != recSnapshot || r.err != nil {
		return 0, 0, damaged(len(definitionsMagic))
	}
	return seq, count, nil
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

// Append puts a record into the journal and returns its sequence number. Called
// under the lock of what it describes.
func (f *Definitions) Append(rec []byte) uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	f.store.AppendMeta(f.seq, rec)
	return f.seq
}

// Durable returns the sequence number up to which records are safe.
func (f *Definitions) Durable() uint64 { return max(f.base, f.store.MetaDurable()) }

// Last returns the last sequence number given out.
func (f *Definitions) Last() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seq
}

// pendingSeq is the last sequence number given out, 0 if it is durable.
func (f *Definitions) pendingSeq() uint64 {
	if seq := f.Last(); seq > f.Durable() {
		return seq
	}
	return 0
}

// Err returns why nothing gets durable any more; nil while all is well.
func (f *Definitions) Err() error {
	if err := f.store.MetaErr(); err != nil {
		return fmt.Errorf("broker: definitions cannot be written any more, durable declarations are refused until a restart: %w", err)
	}
	return nil
}

// save replaces the snapshot by records, which describe the state at seq.
func (f *Definitions) save(seq uint64, records [][]byte) error {
	data := []byte(definitionsMagic)
	data = appendRecord(data, fields{recSnapshot}.num(seq).num(uint64(len(records)+1)))
	for _, rec := range records {
		data = appendRecord(data, rec)
	}
	if err := writeWhole(f.disk, definitionsTemp, data); err != nil {
		return err
	}
	if err := f.disk.Rename(definitionsTemp, definitionsName); err != nil {
		return err
	}
	if err := f.disk.SyncDir("."); err != nil {
		return err
	}
	f.saved = seq
	return nil
}

// readWhole returns the contents of a small file; nil when there is none.
func readWhole(d disk.Disk, name string) ([]byte, error) {
	file, err := d.Open(name, disk.ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	size, err := file.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	return data, disk.Run(d, &disk.Op{Kind: disk.Read, File: file, Buf: data})
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
