package inspect

import (
	"cmp"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
)

// sectorBytes is what a disk writes at once; less is never torn.
const sectorBytes = 512

// settledSet is a set of settled offsets as sorted, disjoint, non-adjacent ranges.
type settledSet struct {
	ranges []offsetRange
	cursor uint64
}

// offsetRange is [first, end).
type offsetRange struct{ first, end uint64 }

// add collects a range; normalise comes before any question.
func (s *settledSet) add(first, end uint64) {
	if first >= end {
		return
	}
	if n := len(s.ranges); n > 0 && first >= s.ranges[n-1].first && first <= s.ranges[n-1].end {
		s.ranges[n-1].end = max(s.ranges[n-1].end, end)
		return
	}
	s.ranges = append(s.ranges, offsetRange{first, end})
}

func (s *settledSet) normalise() {
	slices.SortFunc(s.ranges, func(a, b offsetRange) int { return cmp.Compare(a.first, b.first) })
	out := s.ranges[:0]
	for _, r := range s.ranges {
		if n := len(out); n > 0 && r.first <= out[n-1].end {
			out[n-1].end = max(out[n-1].end, r.end)
			continue
		}
		out = append(out, r)
	}
	s.ranges = out
}

// insert adds a range to a normalised set, which stays so.
func (s *settledSet) insert(first, end uint64) {
	if first >= end {
		return
	}
	i := s.find(first)
	if i > 0 && s.ranges[i-1].end == first {
		i--
	}
	k := i
	for ; k < len(s.ranges) && s.ranges[k].first <= end; k++ {
		first, end = min(first, s.ranges[k].first), max(end, s.ranges[k].end)
	}
	s.ranges = slices.Replace(s.ranges, i, k, offsetRange{first, end})
}

// merge adds another set; normalise comes after it.
func (s *settledSet) merge(other *settledSet) {
	for _, r := range other.ranges {
		s.add(r.first, r.end)
	}
	s.cursor = max(s.cursor, other.cursor)
}

// find returns the index of the first range that ends after offset.
func (s *settledSet) find(offset uint64) int {
	i, _ := slices.BinarySearchFunc(s.ranges, offset, func(r offsetRange, offset uint64) int {
		if r.end <= offset {
			return -1
		}
		return 1
	})
	return i
}

// count returns how many offsets of [first, end) are settled.
func (s *settledSet) count(first, end uint64) uint64 {
	n := uint64(0)
	for i := s.find(first); i < len(s.ranges) && s.ranges[i].first < end; i++ {
		n += min(end, s.ranges[i].end) - max(first, s.ranges[i].first)
	}
	return n
}

func (s *settledSet) has(offset uint64) bool { return s.count(offset, offset+1) == 1 }

// verifySettled checks the settled file of log id and returns what it says.
func verifySettled(w *window, id uint64, size int64, rep *fileReport) (*settledSet, error) {
	set := &settledSet{}
	if size < segstore.SettledHeaderBytes {
		rep.add(Unfinished, 0, size, "no whole header: created, and not written before a crash; the next start writes it anew")
		return set, nil
	}
	head, err := w.at(0, segstore.SettledHeaderBytes)
	if err != nil {
		return set, err
	}
	if err := segstore.VerifySettledHeader(head, id); err != nil {
		rep.add(Damage, 0, segstore.SettledHeaderBytes, "%s: the next start sets the file aside, and messages that were acknowledged come again", headerText(err))
		return set, nil
	}
	badAt, bad := int64(0), int64(0) // a run of bad records
	pos := int64(segstore.SettledHeaderBytes)
	for ; pos+segstore.SettledRecordBytes <= size; pos += segstore.SettledRecordBytes {
		r, err := w.at(pos, segstore.SettledRecordBytes)
		if err != nil {
			return set, err
		}
		if why := set.record(r[:segstore.SettledRecordBytes]); why != "" {
			if why != wrongChecksum {
				rep.add(Damage, pos, segstore.SettledRecordBytes, "%s", why)
			} else if bad++; bad == 1 {
				badAt = pos
			}
			continue
		}
		if bad > 0 {
			rep.add(Damage, badAt, pos-badAt, "%d records with a wrong checksum before good ones: messages that were acknowledged may come again", bad)
			bad = 0
		}
	}
	set.normalise()
	switch {
	case bad > 0:
		level, err := w.tornLevel(badAt, size)
		if err != nil {
			return set, err
		}
		rep.add(level, badAt, size-badAt, "%d records with a wrong checksum at the end: the next start cuts them off, and messages that were acknowledged may come again", bad)
	case pos < size:
		rep.add(Unfinished, pos, size-pos, "a record without its end: the next start cuts it off")
	}
	return set, nil
}

const wrongChecksum = "wrong checksum"

// record takes one record into the set; why it is no good otherwise.
func (s *settledSet) record(r []byte) (why string) {
	kind, a, b, ok := segstore.DecodeSettledRecord(r)
	switch {
	case !ok:
		return wrongChecksum
	case a > segstore.OffsetMax || b > segstore.OffsetMax:
		return "the record names an offset that cannot exist"
	case kind == segstore.SettledPunched: // says nothing of offsets
	case kind == segstore.SettledLow:
		s.add(0, a)
	case kind == segstore.SettledRange && a < b:
		s.add(a, b)
	case kind == segstore.SettledRange:
		return "the record settles an empty range"
	case kind == segstore.SettledCursor:
		s.cursor = a
	default:
		return "the record is of an unknown kind: written by a newer version?"
	}
	return ""
}

// overtaken says whether the bad bytes [from, to) before a good batch look like
// a write that did not arrive before a crash: they have a sector of zeros, or are
// zeros from the beginning of the last sector on, which the later write shares.
func (w *window) overtaken(from, to int64) (bool, error) {
	level, err := w.tornLevel(from, to)
	sector := to &^ (sectorBytes - 1)
	if err != nil || level == Unfinished || sector == to || sector < from {
		return level == Unfinished, err
	}
	data, err := w.at(sector, int(to-sector))
	if err != nil {
		return false, err
	}
	level, err = w.tornLevel(sector, sector+min(int64(len(data)), to-sector))
	return level == Unfinished, err
}

// tornLevel judges bad bytes at the end of a file, [from, to): a write that a
// power cut tore leaves whole sectors of zeros, or only zeros.
func (w *window) tornLevel(from, to int64) (Level, error) {
	zeros := 0 // of the sector, or what of it lies in the range
	allZero := true
	for pos := from; pos < to; {
		data, err := w.at(pos, 1)
		if err != nil {
			return Damage, err
		}
		data = data[:min(int64(len(data)), to-pos)]
		for i, c := range data {
			at := pos + int64(i)
			if at%sectorBytes == 0 {
				zeros = 0
			}
			if c != 0 {
				allZero = false
				continue
			}
			if zeros++; zeros == sectorBytes {
				return Unfinished, nil
			}
		}
		pos += int64(len(data))
	}
	if allZero {
		return Unfinished, nil
	}
	return Damage, nil
}
