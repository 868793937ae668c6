package broker

import (
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// A stream (x-queue-type=stream) is a queue whose records stay until retention
// removes them, by whole segments from the front (retention.go). It is a log
// like that of any queue (segstore, retained.go); what differs is who has
// cursors: not the queue, but each of its consumers.
//
//	  low                 cursors of consumers          end
//	   |  retention  ...     |      |         |          |
//	segment | segment | segment | segment being written  |
//
// A consumer takes windows of offsets from its cursor on, all of them for itself,
// and reads them from the log: bytes in the tail, or in a block that it shares
// with whoever reads there. At the end it is put on the waiting list; a publish
// wakes everybody on that. Acknowledgements only give the consumer its credit
// back, and move its tracked offset (tracking.go).
//
// Filters (streamfilter.go): publishers say by the header x-stream-filter-value
// what a message is about; each batch carries a small Bloom filter of these
// values, so that consumers that want few of them pass over batches and index
// entries of segments (segstore, filter.go).
//
// Offsets and crashes. Consumers are given records before these are on disk, as
// with any queue; but of a stream they keep offsets. So a start after a crash
// leaves out streamSkip offsets, more than can have been in memory only, and
// gives nothing out until one record of the new life is durable, by which the
// gap is too (gate).
//
// A stream has an upkeep, for its place on the keeper's list, but no settings:
// nothing of what other queues do to single messages happens to it.
//
// Guarded by Queue.mu, but for what the keeper owns.
type stream struct {
	maxAge       int64 // ms
	maxBytes     int64
	segmentBytes int64
	filterBytes  int
	single       bool // x-single-active-consumer

	waiting []*Consumer // for more records
	active  *Consumer   // the one that is served, if single
	gate    uint64      // 0: open

	large   []largeBody // external bodies, by offset
	fresh   uint64      // bytes published since the last roll
	tracked trackedOffsets

	segments []segstore.Segment // the keeper's scratch
}

const (
	streamSkip = 1 << 24
	// streamRunMax bounds one window; with a filter most of it may be passed over.
	streamRunMax = 1 << 14
	// streamPoll is how often a stream behind its gate is looked at, ms.
	streamPoll = 2
	// streamFilterBytes is the default of x-stream-filter-size-bytes.
	streamFilterBytes = 16
	// streamSegmentBytesMin keeps a stream from having a file per message.
	streamSegmentBytesMin = 4 << 10
)

// StreamConsumer is what a consumer of a stream has besides.
type StreamConsumer struct {
	// Query is for its reader; nil: it wants everything.
	Query *segstore.Query

	filter   *streamFilter
	since    int64  // ms; older records before sinceEnd are not wanted
	sinceEnd uint64 // 0: no such limit
	tracking bool

	// Guarded by Queue.mu.
	cursor  uint64
	waiting bool
}

// Early says whether a record is older than what the consumer asked for.
func (v *StreamConsumer) Early(offset uint64, timestamp int64) bool {
	if v.since == 0 {
		return false
	}
	if offset < v.sinceEnd && timestamp < v.since {
		return true
	}
	v.endSince() // from here on time may run as it likes
	return false
}

// endSince ends the time of records that are too early. The query may be in use
// by others: there is a new one.
func (v *StreamConsumer) endSince() {
	if v.since = 0; v.filter == nil {
		v.Query = nil
	} else {
		v.Query = &segstore.Query{Wanted: v.filter.query.Wanted}
	}
}

// Wants says whether messages with these encoded properties pass the filter.
func (v *StreamConsumer) Wants(properties []byte) bool {
	return v.filter == nil || v.filter.matches(properties)
}

// Filtered says whether there is a filter at all.
func (v *StreamConsumer) Filtered() bool { return v.filter != nil }

// Tracks says whether somebody wants to know what it has acknowledged.
func (c *Consumer) Tracks() bool {
	return c.Stream != nil && (c.Stream.tracking || c.Queue.stream.single)
}

// IsStream says whether the queue is a stream.
func (q *Queue) IsStream() bool { return q.stream != nil }

// newStream makes q a stream, before its log is opened. The arguments have been
// checked.
func (q *Queue) newStream() {
	s := &stream{maxAge: unlimited, maxBytes: unlimited, segmentBytes: streamSegmentBytes, filterBytes: streamFilterBytes}
	q.stream = s
	q.upkeep = &upkeep{set: &plainSettings}
	arguments := settingSource{q.Arguments, "x-"}
	if n := arguments.number("stream-max-segment-size-bytes"); n != unlimited {
		s.segmentBytes = max(n, streamSegmentBytesMin)
	}
	if n := arguments.number("stream-filter-size-bytes"); n != unlimited {
		s.filterBytes = int(n)
	}
	if v, ok := q.Arguments.Lookup("x-single-active-consumer"); ok {
		s.single, _ = v.Bool()
	}
	s.tracked.init()
}

// effectiveStream sets what may come from policies too; nil for none.
func (q *Queue) effectiveStream(policy, operatorPolicy amqp.Table) {
	sources := [...]settingSource{{q.Arguments, "x-"}, {policy, ""}, {operatorPolicy, ""}}
	age, bytes := int64(unlimited), int64(unlimited)
	for _, s := range sources {
		bytes = min(bytes, s.number("max-length-bytes"))
		if text, ok := s.text("max-age"); ok {
			if ms, ok := parseAge(text); ok {
				age = min(age, ms)
			}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.deleted {
		q.stream.maxAge, q.stream.maxBytes = age, bytes
		q.VHost.broker.keeper.arm(q, 0)
	}
}

// logOptions are those of the queue's log. clean says that the log is new, or
// that the last broker on it stopped in good order.
func (q *Queue) logOptions(clean bool) segstore.LogOptions {
	o := segstore.LogOptions{Transient: !q.Durable || q.Exclusive()}
	if s := q.stream; s != nil {
		o.Retained = &segstore.RetainedOptions{
			SegmentBytes: s.segmentBytes + s.segmentBytes/4, // see noteSize
			Sealed:       func() { q.VHost.broker.keeper.arm(q, 0) },
		}
		if !clean {
			o.Retained.Skip = streamSkip
		}
	}
	return o
}

// recoverStream is Queue.recover for a stream.
func (q *Queue) recoverStream(clean bool) {
	q.end = q.log.Next()
	if segments := q.log.Segments(nil); len(segments) > 0 && !segments[len(segments)-1].Sealed {
		q.stream.fresh = uint64(segments[len(segments)-1].Bytes)
	}
	if !clean {
		q.stream.gate, q.crashed = q.end, q.end
	}
}

// publishStream is Publish for a stream; the caller holds mu.
func (q *Queue) publishStream(b *segstore.Batch, external []BodyAt) (end uint64, err error) {
	s := q.stream
	if headed(b) {
		q.mu.Unlock() // computing the filter takes a while
		s.setFilter(b)
		q.mu.Lock()
	}
	base, err := q.log.Append(b)
	b.SetFilter(nil) // it may go to other queues
	if err != nil {
		q.mu.Unlock()
		if len(external) > 0 {
			q.refuseBodies(external)
		}
		return 0, err
	}
	q.end = base + uint64(b.Count())
	if len(external) > 0 {
		q.noteBodies(base, external)
	}
	s.noteSize(q, base, b.Size(), external)
	q.countPublished(uint64(b.Count()), BodyBytes(b, external))
	end = q.end
	q.wakeWaiting() // unlocks
	return end, nil
}

// wakeWaiting wakes all who wait for more. It is called with mu held and
// releases it.
func (q *Queue) wakeWaiting() {
	s := q.stream
	for len(s.waiting) > 0 {
		var some [16]*Consumer
		n := copy(some[:], s.waiting)
		for _, c := range some[:n] {
			c.Stream.waiting = false
		}
		s.waiting = slices.Delete(s.waiting, 0, n)
		q.mu.Unlock()
		for _, c := range some[:n] {
			c.Owner.Wake()
		}
		if n < len(some) {
			return // who came meanwhile has seen what there is
		}
		q.mu.Lock()
	}
	q.mu.Unlock()
}

// visible is the offset below which records may be given out.
func (s *stream) visible(q *Queue) uint64 {
	durable := q.log.Durable()
	switch {
	case s.gate > 0 && durable > s.gate:
		s.gate = 0
	case s.gate > 0:
		durable = 0
		if q.end == s.gate {
			return s.gate // nothing new
		}
	}
	end := q.end
	if s.gate > 0 {
		end = s.gate
	} else if end > durable+streamSkip/2 {
		end = durable + streamSkip/2
	}
	if end < q.end {
		q.log.WantDurable()
		k := &q.VHost.broker.keeper
		k.arm(q, k.now()+streamPoll)
	}
	return end
}

// TakeStream gives c the next window of offsets; with a count of 0 there is
// nothing for it now, and it will be woken.
func (q *Queue) TakeStream(c *Consumer) Run {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.heed(c)
	s, v := q.stream, c.Stream
	if q.deleted || !c.attached || q.paused || s.single && s.active != c {
		return Run{}
	}
	end := s.visible(q)
	v.cursor = max(v.cursor, q.log.Low())
	if v.cursor >= end {
		if !v.waiting {
			v.waiting = true
			s.waiting = append(s.waiting, c)
		}
		return Run{}
	}
	// Over gaps in one step: that of a crash is long.
	first, count := q.log.NextUnsettled(v.cursor, streamRunMax)
	if first >= end {
		first, count = end, 0
	}
	run := Run{First: first, Count: min(end-first, count)}
	v.cursor = first + run.Count
	return run
}

// AttachStream adds a consumer to a stream, as its arguments ask for. Errors:
// those of Attach, 406 for arguments that make no sense.
func (q *Queue) AttachStream(c *Consumer, arguments amqp.Table) error {
	v := &StreamConsumer{}
	spec, problem := parseOffsetSpec(arguments)
	if problem != "" {
		return q.badConsume("x-stream-offset", problem)
	}
	var name string
	if v.filter, name, problem = parseStreamFilter(arguments); problem != "" {
		return q.badConsume(name, problem)
	}
	if v.tracking, problem = tracks(arguments, c.Tag, spec.given); problem != "" {
		return q.badConsume(argumentTracking, problem)
	}
	if c.Stream = v; v.filter != nil {
		v.Query = &v.filter.query
	}
	if err := q.Attach(c); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted {
		return nil // it is told
	}
	q.place(c, spec)
	return nil
}

func (q *Queue) badConsume(argument, problem string) error {
	return amqp.Errorf(amqp.CodePreconditionFailed, 0, "invalid arg '%s' for queue '%s' in vhost '%s': %s", argument, q.Name, q.VHost.Name, problem)
}

// place puts the cursor of a new consumer where it wants to begin; the caller
// holds mu.
func (q *Queue) place(c *Consumer, spec offsetSpec) {
	s, v := q.stream, c.Stream
	now := q.VHost.broker.keeper.now()
	v.cursor, v.since = spec.resolve(q.log, q.end, now)
	if v.since > 0 {
		v.sinceEnd = q.end
		query := segstore.Query{SinceMs: v.since}
		if v.filter != nil {
			query.Wanted = v.filter.query.Wanted
		}
		v.Query = &query
	}
	stored, known := s.tracked.of[c.Tag]
	if s.single {
		stored, known = s.tracked.of[groupTag]
		if s.active == nil {
			s.active = c
			if spec.given || !known {
				// The group begins anew: who follows goes on from here, even if
				// nothing is acknowledged until then.
				q.groupAt(v.cursor)
				return
			}
		}
	} else if !v.tracking {
		return
	}
	if known {
		v.resume(stored.offset)
	}
}

// groupAt notes where the group of a single active consumer is; the caller holds mu.
func (q *Queue) groupAt(offset uint64) {
	if q.stream.tracked.set(groupTag, offset) {
		q.trackSoon()
	}
}

// trackSoon has tracked offsets written in a while; the caller holds mu.
func (q *Queue) trackSoon() {
	k := &q.VHost.broker.keeper
	k.arm(q, k.now()+trackDelay)
}

// resume moves the cursor to where an earlier consumer got to.
func (v *StreamConsumer) resume(offset uint64) {
	v.cursor = offset
	v.endSince()
}

// detachStream forgets a consumer and returns the one that is to be served in
// its place; the caller holds mu.
func (q *Queue) detachStream(c *Consumer) (next *Consumer) {
	s := q.stream
	if i := slices.Index(s.waiting, c); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	if s.active != c {
		return nil
	}
	s.active = nil
	if len(q.consumers) > 0 {
		next = q.consumers[0]
		s.active = next
		if stored, ok := s.tracked.of[groupTag]; ok {
			next.Stream.resume(stored.offset)
		}
	}
	return next
}

// tendStream is tend for a stream.
func (k *keeper) tendStream(q *Queue, now int64) (again int64) {
	q.RemoveBodies(q.dropExpired(now))
	again = min(k.writeTracked(q, now), q.nextExpiry(now))
	q.mu.Lock()
	if !q.deleted {
		q.wakeWaiting()
		return again
	}
	q.mu.Unlock()
	return again
}
