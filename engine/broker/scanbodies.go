package broker

import (
	"errors"
	"sync"
	"time"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
)

// The scan after a start: for each queue that has names of external bodies, it
// walks the unsettled records until every name has been claimed by one. Names
// that are left over at the end have no record: the broker died between naming
// a body and appending its record, or between settling a message and removing
// its body. They are removed.
//
// Nothing waits for the scan, so it is slow on purpose: it pauses after each
// scanBytes of records. Queues are scanned one after the other.
const (
	scanBytes = 1 << 20
	scanPause = 5 * time.Millisecond
	// recordBytesMin is about what a record costs beyond its body.
	recordBytesMin = 8
)

// bodyScan is the scan's goroutine, and those for queues that were read later.
type bodyScan struct {
	mu     sync.Mutex
	stop   chan struct{} // nil: none has begun
	closed bool
	done   sync.WaitGroup
}

func (s *bodyScan) start(b *Broker, queues []*Queue) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	if s.stop == nil {
		s.stop = make(chan struct{})
	}
	s.done.Go(func() {
		for _, q := range queues {
			if !s.scan(b, q) {
				return
			}
		}
	})
}

// close cancels the scan and waits for its end.
func (s *bodyScan) close() {
	s.mu.Lock()
	if s.stop != nil && !s.closed {
		close(s.stop)
	}
	s.closed = true
	s.mu.Unlock()
	s.done.Wait()
}

// scan claims the names of one queue; false when cancelled.
func (s *bodyScan) scan(b *Broker, q *Queue) bool {
	reader := q.log.NewReader()
	defer reader.Close()
	woken := make(chan struct{}, 1)
	wake := func() { woken <- struct{}{} }
	var record segstore.Record
	bytes := 0
	end := q.log.Next() // later records have noted their bodies themselves
	at := uint64(0)
	for {
		var count uint64
		if at, count = q.nextScan(at, end); count == 0 {
			break
		}
		err := reader.Seek(at, wake)
		if errors.Is(err, segstore.ErrNotResident) {
			select {
			case <-woken:
			case <-s.stop:
				return false
			}
			continue
		}
		if next, ok := missing(err); ok {
			at = next
			continue
		}
		if err != nil {
			b.logger.Error("a queue cannot be read: bodies of large messages that belong to no message any more keep their space until the next start",
				"queue", q.Name, "vhost", q.VHost.Name, "err", err)
			q.endScan(false)
			return true
		}
		for count > 0 && reader.Next(&record) {
			if IsExternal(reader.Template(record.Template).Properties) {
				if ref, ok := bodies.DecodeRef(record.Body); ok {
					q.scanned(record.Offset, ref)
				}
			}
			bytes += len(record.Body) + recordBytesMin
			at, count = record.Offset+1, count-1
		}
		if bytes >= scanBytes {
			bytes = 0
			select {
			case <-time.After(scanPause):
			case <-s.stop:
				return false
			}
		}
	}
	orphans := q.endScan(true)
	if len(orphans) > 0 {
		b.logger.Info("bodies of large messages belonged to no message any more and are removed: an unclean stop leaves such",
			"queue", q.Name, "vhost", q.VHost.Name, "bodies", len(orphans))
		q.RemoveBodies(orphans)
	}
	return true
}

// nextScan returns the next unsettled offsets to look at; none when all names
// are claimed, or the queue is gone.
func (q *Queue) nextScan(from, end uint64) (first, count uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || q.external == nil || len(q.external.unseen) == 0 || from >= end {
		return 0, 0
	}
	first, count = q.log.NextUnsettled(from, end-from)
	if first >= end {
		return 0, 0
	}
	return first, min(count, end-first)
}

// scanned notes a body that the scan found, unless its message has been settled
// meanwhile: then the name is claimed by nobody, and goes at the end.
func (q *Queue) scanned(offset uint64, ref bodies.Ref) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return
	}
	if first, count := q.log.NextUnsettled(offset, 1); count == 1 && first == offset {
		q.foundBody(offset, ref.ID)
		if q.stream != nil {
			q.stream.addLarge(offset, ref.Size)
		}
	}
}

// endScan ends the time of unseen names; those left over are returned when all
// records have been seen.
func (q *Queue) endScan(complete bool) (orphans []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || q.external == nil {
		return nil
	}
	if complete {
		orphans = sortedIDs(q.external.unseen)
	}
	q.external.unseen = nil
	if q.external.empty() {
		q.external = nil
	}
	return orphans
}
