package broker

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// External bodies. The record of a large message holds a reference to a file
// of package bodies instead of the body (bodies.Ref), and says so by
// flagExternal in the flags of its properties. No client can set that bit: the
// codec refuses it. It is taken out before the properties leave.
//
// A queue knows which of its offsets have such bodies, so that it can remove
// them when the messages are settled. Nearly all queues have none: then
// Queue.external is nil, and that is all it costs. After a start the knowledge
// is found again in the background (scanbodies.go); until then it comes from
// consumers, who say what they found (FoundBody) before it can be settled.

// flagExternal is bit 1 of the property flags; AMQP 0-9-1 leaves it undefined.
const flagExternal = 0x0002

// IsExternal says whether the encoded properties belong to a record whose body
// is external.
func IsExternal(properties []byte) bool {
	return len(properties) >= 2 && properties[1]&flagExternal != 0
}

// MarkExternal sets the mark in encoded properties.
func MarkExternal(properties []byte) {
	binary.BigEndian.PutUint16(properties, binary.BigEndian.Uint16(properties)|flagExternal)
}

// UnmarkExternal takes the mark out.
func UnmarkExternal(properties []byte) {
	binary.BigEndian.PutUint16(properties, binary.BigEndian.Uint16(properties)&^flagExternal)
}

// BodyAt names the external body of one record of a batch.
type BodyAt struct {
	Index int // of the record
	Ref   bodies.Ref
}

// externalBodies is what a queue knows of its external bodies. Guarded by
// Queue.mu.
type externalBodies struct {
	at map[uint64]uint64 // body id by offset, of unsettled records
	// unseen are the bodies that the start found and no record has claimed yet;
	// nil when the scan is done.
	unseen map[uint64]struct{}
	// shelved are offsets that were taken, and whose bodies could not be read. They
	// count as unacknowledged.
	shelved []uint64
}

// BodyDir is where the queue's external bodies are.
func (q *Queue) BodyDir() bodies.Dir {
	return bodies.Dir{Log: q.ID, Transient: !q.Durable || q.Exclusive()}
}

// noteBodies records the external bodies of a batch appended at base; the
// caller holds mu.
func (q *Queue) noteBodies(base uint64, external []BodyAt) {
	if q.external == nil {
		q.external = &externalBodies{at: map[uint64]uint64{}}
	}
	for _, b := range external {
		q.external.at[base+uint64(b.Index)] = b.Ref.ID
	}
}

// refuseBodies removes bodies whose records the queue did not take.
func (q *Queue) refuseBodies(external []BodyAt) {
	ids := make([]uint64, len(external))
	for i, b := range external {
		ids[i] = b.Ref.ID
	}
	q.RemoveBodies(ids)
}

// RefuseBodies gives up the bodies of a batch that q does not get.
func (q *Queue) RefuseBodies(external []BodyAt) {
	if len(external) > 0 {
		q.refuseBodies(external)
	}
}

// RemoveBodies removes external bodies that settled messages had.
func (q *Queue) RemoveBodies(ids []uint64) {
	if len(ids) > 0 {
		q.VHost.broker.bodies.Remove(q.BodyDir(), ids)
	}
}

// FoundBody says that the unsettled record at offset has an external body. Who
// took the offset says so before it is settled.
func (q *Queue) FoundBody(offset, id uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.deleted && offset >= q.log.Low() {
		q.foundBody(offset, id)
	}
}

func (q *Queue) foundBody(offset, id uint64) {
	if q.external == nil {
		q.external = &externalBodies{at: map[uint64]uint64{}}
	}
	q.external.at[offset] = id
	delete(q.external.unseen, id)
}

// settle settles offsets in the log and returns the external bodies that go
// with them; the caller holds mu and calls RemoveBodies after unlocking. Both
// happen under the lock, so that a scan does not note what is being settled.
func (q *Queue) settle(first, count uint64) (ids []uint64) {
	if e := q.external; e != nil {
		ids = e.take(first, count)
		if e.empty() {
			q.external = nil
		}
	}
	q.log.Settle(first, count)
	if q.upkeep != nil {
		q.upkeep.settled(q, first, count)
	}
	return ids
}

func (e *externalBodies) empty() bool {
	return len(e.at) == 0 && e.unseen == nil && len(e.shelved) == 0
}

// take removes the offsets from first on and returns their bodies.
func (e *externalBodies) take(first, count uint64) (ids []uint64) {
	if count <= uint64(len(e.at)) {
		for offset := first; offset < first+count; offset++ {
			if id, ok := e.at[offset]; ok {
				ids = append(ids, id)
				delete(e.at, offset)
			}
		}
		return ids
	}
	for offset, id := range e.at {
		if offset-first < count {
			ids = append(ids, id)
			delete(e.at, offset)
		}
	}
	return ids
}

// Shelve ends the delivery of a message that was taken, and whose body cannot be read
// because the disk fails: it is neither lost nor in the way of those behind it, and waits
// until the queue is restarted (RestartQueue), or the broker. Streams need no such thing.
func (q *Queue) Shelve(offset uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || q.stream != nil {
		return
	}
	if q.external == nil {
		q.external = &externalBodies{at: map[uint64]uint64{}}
	}
	q.external.shelved = append(q.external.shelved, offset)
}

// unshelve makes shelved messages ready, and bodies that failed no longer suspect. It
// says whether there was anything to do.
func (q *Queue) unshelve() bool {
	store := q.VHost.broker.bodies
	if store == nil {
		return false
	}
	suspects := store.Retry(q.BodyDir())
	q.mu.Lock()
	var runs []Run
	if q.external != nil && !q.deleted {
		for _, offset := range q.external.shelved {
			runs = append(runs, Run{Queue: q, First: offset, Count: 1})
		}
		q.external.shelved = nil
	}
	q.mu.Unlock()
	if len(runs) > 0 {
		q.requeue(false, runs...)
	}
	return suspects+len(runs) > 0
}

// ForgetBody has the body of a message stay when the message is settled: it is put aside.
func (q *Queue) ForgetBody(offset uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.external != nil {
		delete(q.external.at, offset)
	}
}

// Excuses says of an unreadable body of the record at offset that it is what a
// crash may leave, and nothing that was promised is lost. A persistent body is
// durable before its record is written, so if its file is gone, the message had been
// settled, and the record of that was lost. Other bodies are not synced.
func (q *Queue) Excuses(offset uint64, properties []byte, err error) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return offset < q.crashed && (errors.Is(err, fs.ErrNotExist) || amqp.DeliveryMode(properties) != 2)
}

// externalBytes is the size of a batch's external bodies.
func externalBytes(external []BodyAt) (bytes uint64) {
	for _, b := range external {
		bytes += b.Ref.Size
	}
	return bytes
}

// BodyBytes is the size of the bodies of a batch, those in files included.
func BodyBytes(b *segstore.Batch, external []BodyAt) uint64 {
	if len(external) == 0 {
		return b.BodyBytes()
	}
	return b.BodyBytes() + externalBytes(external) - uint64(len(external)*bodies.RefBytes)
}

// openBodies tells queues of the bodies that an earlier run left, and starts
// looking for their records. Directories that belong to no queue are put aside.
func (b *Broker) openBodies(known map[uint64]*Queue, found []bodies.Left) {
	var scans []*Queue
	var stay []uint64
	for _, left := range found {
		b.reserveLogID(left.Log + 1)
		q := known[left.Log]
		if q == nil {
			switch err := b.bodies.Quarantine(left.Log); {
			case disk.IsNoSpace(err):
				stay = append(stay, left.Log)
			case err != nil:
				b.logger.Error("bodies of large messages belong to no queue, and cannot be put aside: the next start tries again", "log", left.Log, "err", err)
			default:
				b.logger.Warn("bodies of large messages belong to no queue: their directory is put aside under quarantine/",
					"log", left.Log, "bodies", len(left.IDs), "err", left.Err)
			}
			continue
		}
		if left.Err != nil { // the queue is closed
			continue
		}
		q.leftBodies(left)
		if q.unread == nil { // else when it is read
			scans = append(scans, q)
		}
	}
	if len(stay) > 0 {
		b.logger.Warn("bodies of large messages belong to no queue, and cannot be put aside because the disk is full: the next start tries again",
			"logs", stay)
	}
	if len(scans) > 0 {
		b.scan.start(b, scans)
	}
}

// leftBodies tells q of the bodies that an earlier run left.
func (q *Queue) leftBodies(left bodies.Left) {
	unseen := make(map[uint64]struct{}, len(left.IDs))
	for _, id := range left.IDs {
		unseen[id] = struct{}{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return
	}
	if q.external == nil {
		q.external = &externalBodies{at: map[uint64]uint64{}}
	}
	q.external.unseen = unseen
}

// lacksBody says that bodies of a batch have no name in q's directory, which could not
// be listed when they were to get it.
func (q *Queue) lacksBody(external []BodyAt) error {
	for _, b := range external {
		if err := q.VHost.broker.bodies.Lacks(q.BodyDir(), b.Ref); err != nil {
			return fmt.Errorf("broker: queue '%s' in vhost '%s' takes no large message: %w", q.Name, q.VHost.Name, err)
		}
	}
	return nil
}

// missing tells an offset without a record from a failed read.
func missing(err error) (next uint64, ok bool) {
	var m segstore.ErrMissing
	if errors.As(err, &m) {
		return m.Next, true
	}
	return 0, false
}

// sortedIDs is for logs and tests.
func sortedIDs(set map[uint64]struct{}) []uint64 {
	ids := make([]uint64, 0, len(set))
	for id := range set {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
