package segstore

import "sort"

// interval is the half-open range of offsets [first, end).
type interval struct{ first, end uint64 }

// leafIntervalsMax bounds a leaf: an insertion moves at most 2 KiB.
const leafIntervalsMax = 128

// intervalSet is a set of offsets kept as sorted, disjoint, non-adjacent
// intervals in leaves of at most leafIntervalsMax. No leaf is empty. With
// 100,000 intervals an operation is two binary searches and one short move.
// The zero value is empty. Not safe for concurrent use.
type intervalSet struct {
	leaves [][]interval
	count  uint64 // offsets in the set
}

func (s *intervalSet) empty() bool { return len(s.leaves) == 0 }

// intervals returns how many intervals the set holds.
func (s *intervalSet) intervals() int {
	n := 0
	for _, leaf := range s.leaves {
		n += len(leaf)
	}
	return n
}

// find locates the first interval whose end is >= offset; leaf == len(leaves)
// when there is none.
func (s *intervalSet) find(offset uint64) (leaf, at int) {
	leaf = sort.Search(len(s.leaves), func(i int) bool {
		l := s.leaves[i]
		return l[len(l)-1].end >= offset
	})
	if leaf == len(s.leaves) {
		return leaf, 0
	}
	l := s.leaves[leaf]
	return leaf, sort.Search(len(l), func(i int) bool { return l[i].end >= offset })
}

// add puts [first, end) into the set and returns the interval that holds it
// now, merged with all it overlaps or touches. first < end.
func (s *intervalSet) add(first, end uint64) interval {
	leaf, at := s.find(first)
	if leaf == len(s.leaves) {
		iv := interval{first, end}
		s.count += end - first
		if leaf == 0 {
			s.leaves = append(s.leaves, []interval{iv})
			return iv
		}
		s.insert(leaf-1, len(s.leaves[leaf-1]), iv)
		return iv
	}
	if have := s.leaves[leaf][at]; have.first > end {
		iv := interval{first, end}
		s.count += end - first
		s.insert(leaf, at, iv)
		return iv
	}
	merged := s.leaves[leaf][at]
	s.count -= merged.end - merged.first
	merged.first = min(merged.first, first)
	merged.end = max(merged.end, end)
	merged = s.swallow(leaf, at, merged)
	s.leaves[leaf][at] = merged
	s.count += merged.end - merged.first
	return merged
}

// swallow removes the intervals after (leaf, at) that merged reaches.
func (s *intervalSet) swallow(leaf, at int, merged interval) interval {
	l := s.leaves[leaf]
	k := at + 1
	for k < len(l) && l[k].first <= merged.end {
		s.count -= l[k].end - l[k].first
		merged.end = max(merged.end, l[k].end)
		k++
	}
	s.leaves[leaf] = append(l[:at+1], l[k:]...)
	if k < len(l) {
		return merged
	}
	next := leaf + 1
	for next < len(s.leaves) {
		l, k = s.leaves[next], 0
		for k < len(l) && l[k].first <= merged.end {
			s.count -= l[k].end - l[k].first
			merged.end = max(merged.end, l[k].end)
			k++
		}
		if k < len(l) {
			s.leaves[next] = append(l[:0], l[k:]...)
			break
		}
		next++
	}
	if next > leaf+1 {
		s.removeLeaves(leaf+1, next)
	}
	return merged
}

func (s *intervalSet) removeLeaves(from, to int) {
	n := copy(s.leaves[from:], s.leaves[to:])
	clear(s.leaves[from+n:])
	s.leaves = s.leaves[:from+n]
	if len(s.leaves) == 0 && cap(s.leaves) > 16 {
		s.leaves = nil
	}
}

func (s *intervalSet) insert(leaf, at int, iv interval) {
	l := s.leaves[leaf]
	if len(l) == leafIntervalsMax {
		// Ascending additions leave full leaves behind, others split evenly.
		cut := leafIntervalsMax / 2
		if at == leafIntervalsMax && leaf == len(s.leaves)-1 {
			cut = leafIntervalsMax
		}
		right := append(make([]interval, 0, leafIntervalsMax), l[cut:]...)
		s.leaves = append(s.leaves, nil)
		copy(s.leaves[leaf+2:], s.leaves[leaf+1:])
		s.leaves[leaf], s.leaves[leaf+1] = l[:cut], right
		if at >= cut {
			leaf, at = leaf+1, at-cut
		}
		l = s.leaves[leaf]
	}
	l = append(l, interval{})
	copy(l[at+1:], l[at:])
	l[at] = iv
	s.leaves[leaf] = l
}

// advance removes everything below low and returns the new watermark: low, or
// the end of an interval that low reaches.
func (s *intervalSet) advance(low uint64) uint64 {
	leaf := 0
	for leaf < len(s.leaves) {
		l := s.leaves[leaf]
		k := 0
		for k < len(l) && l[k].first <= low {
			s.count -= l[k].end - l[k].first
			low = max(low, l[k].end)
			k++
		}
		if k < len(l) {
			s.leaves[leaf] = append(l[:0], l[k:]...)
			break
		}
		leaf++
	}
	if leaf > 0 {
		s.removeLeaves(0, leaf)
	}
	return low
}

// containsRange reports whether all of [first, end) is in the set; first < end.
func (s *intervalSet) containsRange(first, end uint64) bool {
	iv, ok := s.after(first)
	return ok && iv.first <= first && iv.end >= end
}

// after returns the first interval that ends above offset.
func (s *intervalSet) after(offset uint64) (interval, bool) {
	if len(s.leaves) == 0 {
		return interval{}, false
	}
	leaf, at := s.find(offset + 1)
	if leaf == len(s.leaves) {
		return interval{}, false
	}
	return s.leaves[leaf][at], true
}

// within calls f for what of [first, end) is in the set, in order, until it
// returns false.
func (s *intervalSet) within(first, end uint64, f func(interval) bool) {
	leaf, at := s.find(first + 1)
	for ; leaf < len(s.leaves); leaf, at = leaf+1, 0 {
		for _, iv := range s.leaves[leaf][at:] {
			if iv.first >= end || !f(interval{max(iv.first, first), min(iv.end, end)}) {
				return
			}
		}
	}
}

// each calls f for all intervals in order until it returns false.
func (s *intervalSet) each(f func(interval) bool) {
	for _, leaf := range s.leaves {
		for _, iv := range leaf {
			if !f(iv) {
				return
			}
		}
	}
}
