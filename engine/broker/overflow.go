package broker

import (
	"fmt"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
)

// Limits of length. They count ready messages and the bytes of their bodies, as
// RabbitMQ's do; what consumers hold does not count. They hold exactly, also
// for batches of publishes and however many publishers there are: everything
// happens under the queue's lock.
//
// drop-head makes room after the publish, at the moment when no consumer can
// take any more (attend). reject-publish looks at each message before: those
// that waiting consumers have room for go to them and never count.

// Overflow is the error of a publish of which not all records are in the queue:
// it refused some, or passed over duplicates, which count as taken.
type Overflow struct {
	Refused  []int // numbers of the records in the batch, ascending
	Appended int   // how many are in the log; refused ones are there if they become dead letters
}

func (o *Overflow) Error() string {
	return fmt.Sprintf("broker: the queue is at its limit and refused %d messages", len(o.Refused))
}

// MergeRefused is the ascending union of what two queues refused of a batch.
func MergeRefused(a, b []int) []int {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	a = append(slices.Clone(a), b...)
	slices.Sort(a)
	return slices.Compact(a)
}

// dropOverLimit drops from the head what is over the limits.
func (q *Queue) dropOverLimit() {
	e := q.upkeep
	if e.set.overflow != dropHead {
		return
	}
	for total, limit := q.total(), uint64(e.set.maxLength); total > limit; total = q.total() {
		top := q.top()
		top.dropHead(min(total-limit, top.ready()), maxLength)
	}
	for e.sizes != nil && q.totalBytes() > uint64(e.set.maxBytes) && q.total() > 0 {
		q.top().dropHead(1, maxLength)
	}
}

// publishKept is Publish for queues with an upkeep. The caller holds mu, which
// it releases.
func (q *Queue) publishKept(b *segstore.Batch, now int64, external []BodyAt) (end uint64, behind bool, err error) {
	e := q.upkeep
	given := b
	var duplicates, refused []int
	var values []dedupEntry
	var repeats []dedupRepeat
	if e.dedup != nil {
		duplicates, repeats, values = e.dedup.judge(b, now)
		if len(duplicates) > 0 {
			b = b.Without(duplicates)
			defer b.Release()
			var gone []BodyAt
			external, gone = splitBodies(external, duplicates)
			defer q.refuseBodies(gone)
		}
	}
	if e.set.rejects() {
		refused = q.refuse(b)
	}
	buried := len(refused) > 0 && e.set.overflow == rejectPublishDLX && e.set.deadLetters
	if len(refused)+len(duplicates) > 0 {
		full := &Overflow{Refused: withRepeats(renumber(refused, duplicates), repeats), Appended: b.Count()}
		values = slices.DeleteFunc(values, func(v dedupEntry) bool { _, found := slices.BinarySearch(full.Refused, v.at); return found })
		err = full
		if !buried && len(refused) > 0 {
			full.Appended -= len(refused)
			b = b.Without(refused)
			defer b.Release()
			var gone []BodyAt
			external, gone = splitBodies(external, refused)
			defer q.refuseBodies(gone)
		}
	}
	base, failure := q.log.Append(b)
	if failure != nil {
		q.mu.Unlock()
		q.refuseBodies(external)
		return 0, false, failure
	}
	if e.dedup != nil {
		q.reportDedup(e.dedup.remember(q.VHost.broker.store, values, e.dedup.mark(q), now))
	}
	count := uint64(b.Count())
	q.end = base + count
	if len(external) > 0 {
		q.noteBodies(base, external)
	}
	if e.sizes != nil {
		b.Each(func(i int, t segstore.Template, body []byte) {
			e.sizes.set(base+uint64(i), sizeOf(t.Properties, body))
		})
		e.entered(base, count)
	}
	if buried {
		for _, i := range refused {
			offset := base + uint64(i)
			e.holes.Add(offset, 1)
			e.left(offset, 1)
			e.dead.add(offset, 1, maxLength)
		}
		q.VHost.broker.deaths[maxLength].Add(uint64(len(refused)))
		q.VHost.broker.keeper.arm(q, 0)
	}
	q.needPace().published(given, externalBytes(external))
	q.countPublished(count, BodyBytes(b, external))
	if !buried {
		q.time(base)
	}
	wake := q.grantToken()
	q.attend()
	end, behind = q.end, q.behind(behindBytes, now)
	q.mu.Unlock()
	tell(wake, nil)
	return end, behind, err
}

// renumber gives records of a batch without the duplicates the numbers they had
// in the batch with them; both lists ascend.
func renumber(records, duplicates []int) []int {
	out := make([]int, len(records))
	passed := 0
	for i, n := range records {
		for passed < len(duplicates) && duplicates[passed] <= n+passed {
			passed++
		}
		out[i] = n + passed
	}
	return out
}

// reportDedup logs that values cannot be kept.
func (q *Queue) reportDedup(err error) {
	if err != nil {
		q.VHost.broker.logger.Error("values for deduplication are forgotten with the next restart", "queue", q.Name, "vhost", q.VHost.Name, "err", err)
	}
}

// refuse says which records of the batch the queue has no room for.
func (q *Queue) refuse(b *segstore.Batch) (refused []int) {
	e := q.upkeep
	length, bytes, free := q.total(), q.totalBytes(), q.room()
	if free >= length {
		length, bytes, free = 0, 0, free-length // all of them are as good as gone
	} else {
		length -= free
		bytes -= min(bytes, q.bytesBefore(free))
		free = 0
	}
	b.Each(func(i int, t segstore.Template, body []byte) {
		size := sizeOf(t.Properties, body)
		switch {
		case length+1 > uint64(e.set.maxLength) || bytes+size > uint64(e.set.maxBytes):
			refused = append(refused, i)
		case free > 0:
			free--
		default:
			length++
			bytes += size
		}
	})
	return refused
}

// bytesBefore is the size of the n messages that are taken next.
func (q *Queue) bytesBefore(n uint64) (bytes uint64) {
	q.each(func(l *Queue) {
		part := min(n, l.ready())
		bytes += l.headBytes(part)
		n -= part
	})
	return bytes
}

// headBytes is the size of the n messages at the head.
func (q *Queue) headBytes(n uint64) (bytes uint64) {
	e := q.upkeep
	if e.sizes == nil {
		return 0
	}
	for _, s := range q.returned.spans {
		part := min(n, s.end-s.first)
		bytes += e.sizes.sum(s.first, part)
		if n -= part; n == 0 {
			return bytes
		}
	}
	at := q.cursor
	for _, hole := range e.holes.spans {
		part := min(n, hole.first-at)
		bytes += e.sizes.sum(at, part)
		if n -= part; n == 0 {
			return bytes
		}
		at = hole.end
	}
	return bytes + e.sizes.sum(at, min(n, q.end-at))
}

// splitBodies renumbers the bodies of a batch for one without the refused
// records, whose bodies are gone.
func splitBodies(external []BodyAt, refused []int) (kept, gone []BodyAt) {
	for _, b := range external {
		before := 0
		for before < len(refused) && refused[before] < b.Index {
			before++
		}
		if before < len(refused) && refused[before] == b.Index {
			gone = append(gone, b)
			continue
		}
		kept = append(kept, BodyAt{Index: b.Index - before, Ref: b.Ref})
	}
	return kept, gone
}

// readSizes finds out the sizes of records that were there before their bytes
// were limited (a start, a new policy), a step at a time. Until it is through,
// those not seen yet count as empty.
func (k *keeper) readSizes(q *Queue, now int64) (again int64) {
	e := q.upkeep
	q.mu.Lock()
	first, count := e.sizeFrom, uint64(0)
	if e.sizes != nil && e.sizeFrom < e.sizeEnd {
		first, count = q.log.NextUnsettled(e.sizeFrom, e.sizeEnd-e.sizeFrom)
	}
	if first >= e.sizeEnd {
		count = 0
	}
	if count == 0 {
		e.sizeFrom, e.sizeEnd = 0, 0
	} else {
		count = min(count, e.sizeEnd-first)
	}
	q.mu.Unlock()
	if count == 0 {
		e.scan.close()
		return unlimited
	}
	if e.scan.reader == nil {
		e.scan.reader = q.log.NewReader()
	}
	r := e.scan.reader
	next := first
	switch state, after := k.seek(q, r, first); state {
	case reading:
		return unlimited
	case failed:
		return now + retryInterval
	case absent:
		next = after
	}
	type size struct{ offset, bytes uint64 }
	var sizes []size
	var rec segstore.Record
	for next == first+uint64(len(sizes)) && uint64(len(sizes)) < count && r.Next(&rec) {
		sizes = append(sizes, size{rec.Offset, sizeOf(r.Template(rec.Template).Properties, rec.Body)})
		next++
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.deleted || e.sizes == nil {
		return unlimited
	}
	for _, s := range sizes {
		if s.offset < e.sizes.base {
			continue // settled meanwhile
		}
		e.sizes.set(s.offset, s.bytes)
		if q.isReady(s.offset) {
			e.readyBytes += s.bytes
		}
	}
	e.sizeFrom = next
	q.attend()
	return 0
}

// isReady says whether an offset is among the ready ones.
func (q *Queue) isReady(offset uint64) bool {
	if offset >= q.cursor {
		return offset < q.end && !q.upkeep.holes.Contains(offset)
	}
	return q.returned.Contains(offset)
}
