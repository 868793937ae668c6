package segstore

import "sort"

// SettleEvery is Settle for count offsets from first on that are stride apart, as
// consumers settle them that take turns: each a part of the same range, at about the
// same time. So it goes through the intervals once, beside the offsets.
func (l *Log) SettleEvery(first, stride, count uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next, low := l.next.Load(), l.low.Load()
	if l.deleted || first >= next {
		return
	}
	count = min(count, (next-first+stride-1)/stride)
	if first < low {
		below := min(count, (low-first+stride-1)/stride)
		first, count = first+below*stride, count-below
	}
	if count == 0 {
		return
	}
	reached, done := l.settled.chain(low, first, stride, count)
	if reached > low {
		l.moveLow(reached)
		l.pending.advance(reached)
	}
	if first, count = first+done*stride, count-done; count > 0 {
		l.settled.addEvery(first, stride, count)
		l.pending.addEvery(first, stride, count)
		l.dropSettledWithin(first, first+(count-1)*stride+1)
		l.reap = l.reap || len(l.segments) > 0
	}
	l.settledMore()
}

// dropSettledWithin releases the wholly settled chunks that have offsets of [first, end).
func (l *Log) dropSettledWithin(first, end uint64) {
	i := sort.Search(len(l.chunks), func(i int) bool { return l.chunks[i].next > first })
	for i < len(l.chunks) && l.chunks[i].base < end {
		switch c := l.chunks[i]; {
		case i == len(l.chunks)-1 && l.tail != nil:
			return
		case l.isSettled(c.base, c.next):
			l.dropChunk(i)
		default:
			i++
		}
	}
}

// chain finds out how far the watermark gets from low, below which nothing is in the
// set, when count offsets from first on, stride apart, are added, and how many of
// them are below that.
func (s *intervalSet) chain(low, first, stride, count uint64) (reached, done uint64) {
	leaf, at := 0, 0
	for reached = low; done < count && first == reached; {
		reached++
		for leaf < len(s.leaves) {
			l := s.leaves[leaf]
			for at < len(l) && l[at].first <= reached {
				reached = max(reached, l[at].end)
				at++
			}
			if at < len(l) {
				break
			}
			leaf, at = leaf+1, 0
		}
		for done < count && first < reached {
			first, done = first+stride, done+1
		}
	}
	return reached, done
}

// everyWalkMax offsets between two that are added are so few that walking on is cheaper
// than a search.
const everyWalkMax = 128

// addEvery is add for count single offsets from first on that are stride apart.
func (s *intervalSet) addEvery(first, stride, count uint64) {
	leaf, at := s.find(first)
	for offset := first; count > 0; offset, count = offset+stride, count-1 {
		if stride > everyWalkMax {
			leaf, at = s.find(offset)
		} else {
			leaf, at = s.walk(leaf, at, offset)
		}
		if leaf == len(s.leaves) || s.leaves[leaf][at].first > offset+1 {
			leaf, at = s.put(leaf, at, interval{offset, offset + 1})
			continue
		}
		switch iv := &s.leaves[leaf][at]; {
		case iv.first == offset+1:
			iv.first--
			s.count++
		case iv.end == offset:
			s.count++
			iv.end++
			if next, i := s.walk(leaf, at+1, 0); next < len(s.leaves) && s.leaves[next][i].first == iv.end {
				s.count += s.leaves[next][i].end - iv.end // which swallow takes off
				s.leaves[leaf][at] = s.swallow(leaf, at, *iv)
			}
		}
	}
}

// put inserts an interval that touches no other at its place, and returns that.
func (s *intervalSet) put(leaf, at int, iv interval) (int, int) {
	s.count += iv.end - iv.first
	if leaf == len(s.leaves) {
		if leaf == 0 {
			s.leaves = append(s.leaves, append(make([]interval, 0, 8), iv))
			return 0, 0
		}
		leaf--
		at = len(s.leaves[leaf])
	}
	split := len(s.leaves[leaf]) == leafIntervalsMax
	if s.insert(leaf, at, iv); split {
		return s.find(iv.first)
	}
	return leaf, at
}

// walk is find for an offset that is not before the place (leaf, at).
func (s *intervalSet) walk(leaf, at int, offset uint64) (int, int) {
	for ; leaf < len(s.leaves); leaf, at = leaf+1, 0 {
		for l := s.leaves[leaf]; at < len(l); at++ {
			if l[at].end >= offset {
				return leaf, at
			}
		}
	}
	return leaf, 0
}
