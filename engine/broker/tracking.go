package broker

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Tracked offsets. For consumers with a tag of their own that give no
// x-stream-offset, or ask for it by x-stream-automatic-offset-tracking, the
// stream keeps how far they have acknowledged: the offset of the oldest message
// that is not (never the reader's position, which would lose what was sent and
// not acknowledged). The next consumer of that tag goes on there. With a single
// active consumer it is the group's offset that is kept, whoever is active.
//
// What changes is written a little later, and for many at once, to a log beside
// the stream's own, which is made with the first of them; the definitions name
// it (Queue.countsID):
//
//	record body: uvarint offset, consumer tag
//
// The last record of a tag counts; those before it are settled. A crash may lose
// the last moments: then some messages come again. At most trackedMax tags are
// kept; beyond that the one that has not changed for longest is forgotten.

const (
	argumentTracking = "x-stream-automatic-offset-tracking"
	trackedMax       = 10_000
	trackDelay       = 100 // ms
	groupTag         = ""  // no consumer has it
)

type trackedOffset struct {
	offset uint64
	record uint64 // its record's offset in the log of tracked offsets, plus 1; 0: none
	dirty  bool
	used   uint64 // order of changes
}

type trackedOffsets struct {
	of    map[string]*trackedOffset
	dirty []string
	over  []uint64 // records of forgotten tags, plus 1
	clock uint64
}

func (t *trackedOffsets) init() { t.of = map[string]*trackedOffset{} }

// tracks says whether a consumer's offset is tracked.
func tracks(arguments amqp.Table, tag string, offsetGiven bool) (on bool, problem string) {
	v, ok := arguments.Lookup(argumentTracking)
	if !ok || v.Kind() == amqp.KindVoid {
		return !offsetGiven && !strings.HasPrefix(tag, "amq.ctag-"), ""
	}
	if text, ok := v.Bytes(); ok && (string(text) == "true" || string(text) == "false") {
		return string(text) == "true", ""
	}
	on, ok = v.Bool()
	if !ok {
		problem = unacceptableType(v)
	}
	return on, problem
}

// set keeps an offset; it reports whether that changed anything.
func (t *trackedOffsets) set(tag string, offset uint64) bool {
	o := t.of[tag]
	if o == nil {
		if len(t.of) >= trackedMax {
			t.forgetOldest()
		}
		o = &trackedOffset{}
		t.of[tag] = o
	} else if o.offset == offset {
		return false
	}
	t.clock++
	o.offset, o.used = offset, t.clock
	if !o.dirty {
		o.dirty = true
		t.dirty = append(t.dirty, tag)
	}
	return true
}

func (t *trackedOffsets) forgetOldest() {
	oldest := ""
	for tag, o := range t.of {
		if best := t.of[oldest]; best == nil || o.used < best.used {
			oldest = tag
		}
	}
	if o := t.of[oldest]; o != nil && o.record > 0 {
		t.over = append(t.over, o.record)
	}
	delete(t.of, oldest)
}

// Acknowledged says that c has acknowledged everything below offset.
func (q *Queue) Acknowledged(c *Consumer, offset uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.heed(c)
	if q.deleted {
		return
	}
	t, changed := &q.stream.tracked, false
	if c.Stream.tracking {
		changed = t.set(strings.Clone(c.Tag), offset)
	}
	if q.stream.single && (q.stream.active == c || q.stream.active == nil) {
		changed = t.set(groupTag, offset) || changed
	}
	if changed {
		q.trackSoon()
	}
}

// TrackedOffset is where a consumer of that tag would go on.
func (q *Queue) TrackedOffset(tag string) (offset uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if o := q.stream.tracked.of[tag]; o != nil {
		return o.offset, true
	}
	return 0, false
}

// writeTracked writes what has changed.
func (k *keeper) writeTracked(q *Queue, now int64) (again int64) {
	q.mu.Lock()
	t := &q.stream.tracked
	dirty, over := t.dirty, t.over
	t.dirty, t.over = nil, nil
	bodies := make([][]byte, len(dirty))
	for i, tag := range dirty {
		if o := t.of[tag]; o != nil {
			o.dirty = false
			bodies[i] = append(binary.AppendUvarint(nil, o.offset), tag...)
		}
	}
	q.mu.Unlock()
	if len(dirty) == 0 && len(over) == 0 {
		return unlimited
	}
	log, err := q.VHost.countsLog(q)
	if err == nil && log != nil {
		err = k.appendTracked(q, log, dirty, bodies, over, now)
	}
	if err != nil && !errors.Is(err, segstore.ErrDeleted) && !errors.Is(err, segstore.ErrClosed) {
		k.broker.logger.Error("offsets of a stream's consumers cannot be written", "queue", q.Name, "vhost", q.VHost.Name, "err", err)
	}
	return unlimited
}

func (k *keeper) appendTracked(q *Queue, log *segstore.Log, tags []string, bodies [][]byte, over []uint64, now int64) error {
	b := k.broker.store.NewBatch()
	defer b.Release()
	b.Reset(now)
	none := b.Template(nil, nil, nil)
	for _, body := range bodies {
		if body != nil {
			b.Add(none, body)
		}
	}
	base, err := log.Append(b)
	if err != nil {
		return err
	}
	q.mu.Lock()
	for i, tag := range tags {
		if bodies[i] == nil {
			continue
		}
		if o := q.stream.tracked.of[tag]; o == nil {
			over = append(over, base+1) // forgotten since
		} else {
			if o.record > 0 {
				over = append(over, o.record)
			}
			o.record = base + 1
		}
		base++
	}
	q.mu.Unlock()
	slices.Sort(over)
	for _, record := range over {
		log.Settle(record-1, 1)
	}
	return nil
}

// readTracked reads a log of tracked offsets. It waits for the disk.
func readTracked(log *segstore.Log) (*trackedOffsets, error) {
	t := new(trackedOffsets)
	t.init()
	return t, readLog(log, t.read)
}

// read takes the record at an offset of the log.
func (t *trackedOffsets) read(at uint64, body []byte) {
	offset, n := binary.Uvarint(body)
	if n <= 0 {
		return
	}
	tag := string(body[n:])
	o := t.of[tag]
	if o == nil {
		o = &trackedOffset{}
		t.of[tag] = o
	} else {
		t.over = append(t.over, o.record)
	}
	t.clock++
	o.offset, o.record, o.used = offset, at+1, t.clock
}
