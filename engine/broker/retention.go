package broker

import "sort"

// Retention of streams: whole segments, the oldest first, are settled when the
// stream is larger than x-max-length-bytes, or when all of their messages are
// older than x-max-age, which is so when the next segment began before that. The
// last segment always stays. It is looked at when the store has closed a segment,
// and when the oldest one comes of age; a stream that has one segment only is on
// nobody's list.
//
// The bodies of large messages are in files of their own (bodies.go) and count
// too: for the size of the stream, and for the size of its segments, which are
// closed when messages and bodies together are as large as a segment may be.

// largeBody is the size of an external body.
type largeBody struct{ offset, bytes uint64 }

// streamSegmentBytes is the default size of a segment.
const streamSegmentBytes = 64 << 20

// noteSize accounts for a batch appended at base; the queue's mu is held. It is
// not left to the store to close a segment by its size: that sees no external
// bodies, and keeps records in the journal for as long as it can.
func (s *stream) noteSize(q *Queue, base uint64, bytes int, external []BodyAt) {
	s.fresh += uint64(bytes)
	for _, b := range external {
		s.addLarge(base+uint64(b.Index), b.Ref.Size)
		s.fresh += b.Ref.Size
	}
	if s.fresh >= uint64(s.segmentBytes) {
		s.fresh = 0
		q.log.Roll()
	}
}

// addLarge notes one body, in order or not: the scan after a start finds those
// of earlier lives.
func (s *stream) addLarge(offset, bytes uint64) {
	i := len(s.large)
	if i > 0 && s.large[i-1].offset >= offset {
		i = sort.Search(i, func(i int) bool { return s.large[i].offset >= offset })
		if s.large[i].offset == offset {
			return
		}
	}
	s.large = append(s.large, largeBody{})
	copy(s.large[i+1:], s.large[i:])
	s.large[i] = largeBody{offset, bytes}
}

// largeBytes is the size of the external bodies of [first, end).
func (s *stream) largeBytes(first, end uint64) (bytes uint64) {
	for i := sort.Search(len(s.large), func(i int) bool { return s.large[i].offset >= first }); i < len(s.large) && s.large[i].offset < end; i++ {
		bytes += s.large[i].bytes
	}
	return bytes
}

// dropExpired settles the segments that retention lets go, and returns the
// external bodies that went with them.
func (q *Queue) dropExpired(now int64) (ids []uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stream
	if q.deleted || s.maxAge == unlimited && s.maxBytes == unlimited {
		return nil
	}
	s.segments = q.log.Segments(s.segments[:0])
	if len(s.segments) < 2 {
		return nil
	}
	total := s.largeBytes(0, q.end)
	for _, seg := range s.segments {
		total += uint64(seg.Bytes)
	}
	low := q.log.Low()
	from := low
	for i, seg := range s.segments[:len(s.segments)-1] {
		if total <= uint64(s.maxBytes) && !s.expired(s.segments[i+1].FirstMs, now) {
			break
		}
		total -= uint64(seg.Bytes) + s.largeBytes(low, seg.Next)
		low = seg.Next
	}
	if low == from {
		return nil
	}
	ids = q.settle(from, low-from)
	i := sort.Search(len(s.large), func(i int) bool { return s.large[i].offset >= low })
	s.large = append(s.large[:0:0], s.large[i:]...)
	return ids
}

// expired says whether a segment is over whose successor began then.
func (s *stream) expired(nextFirstMs, now int64) bool {
	return s.maxAge != unlimited && nextFirstMs != 0 && later(nextFirstMs, s.maxAge) <= now
}

// nextExpiry is when the oldest segment comes of age.
func (q *Queue) nextExpiry(now int64) int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.stream
	if q.deleted || s.maxAge == unlimited {
		return unlimited
	}
	s.segments = q.log.Segments(s.segments[:0])
	if len(s.segments) < 2 || s.segments[1].FirstMs == 0 {
		return unlimited
	}
	return max(later(s.segments[1].FirstMs, s.maxAge), now+1)
}
