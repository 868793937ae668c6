package inspect

import (
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/segstore"
)

// segmentFile is a segment to be checked.
type segmentFile struct {
	id      uint64 // of its log
	base    uint64
	ceiling uint64 // base of the next segment, OffsetMax for the last
	size    int64
	// cover is told which offsets the file answers for; nil: not wanted.
	cover func(first, end uint64)
	// found is told of each good batch; nil: not wanted.
	found func(pos int64, info segstore.BatchInfo) error
}

// segmentCheck is the state of checking one segment.
type segmentCheck struct {
	segmentFile
	*window
	settled *settledSet
	rep     *fileReport

	trailer segstore.Trailer
	sealed  bool
	indexed bool // entries and holes are good
	entries []segstore.IndexEntry
	holes   []segstore.Hole // what the index lists
	gaps    []segstore.Hole // what the data shows
	punched []segstore.Hole // offsets of the holes that were punched, see segstore/punch.go
	next    uint64          // end of the last good batch
	damaged bool            // totals say nothing any more
}

// verifySegment checks one segment file. An error is a failed read or the
// context's; everything else goes to rep.
func verifySegment(w *window, f segmentFile, settled *settledSet, rep *fileReport) error {
	c := &segmentCheck{segmentFile: f, window: w, settled: settled, rep: rep, next: f.base}
	if f.size == 0 {
		rep.add(Unfinished, WholeFile, 0, "empty: created, and not written before a crash; the next start removes it")
		return nil
	}
	head, err := w.at(0, segstore.SegmentHeaderBytes)
	if err != nil {
		return err
	}
	if err := segstore.VerifySegmentHeader(head, f.id, f.base); err != nil {
		level := Damage
		if f.size < segstore.SegmentHeaderBytes {
			level = Unfinished
		}
		rep.add(level, 0, min(f.size, segstore.SegmentHeaderBytes), "%s: the next start sets the whole file aside as %s", headerText(err), segstore.QuarantineSuffix)
		c.damaged = true
	}
	if err := c.readFooter(); err != nil {
		return err
	}
	if err := c.batches(); err != nil {
		return err
	}
	c.compareFooter()
	rep.sealed = c.sealed
	if c.cover != nil && c.sealed && c.indexed && c.trailer.HolesListed {
		// The broker takes the index's word, also for a batch that is damaged.
		eachCovered(c.base, min(c.trailer.Next, c.ceiling), c.holes, c.cover)
	}
	return nil
}

// eachCovered calls cover for what is between the holes of [base, end).
func eachCovered(base, end uint64, holes []segstore.Hole, cover func(first, end uint64)) {
	for _, hole := range holes {
		if hole.First > base {
			cover(base, min(hole.First, end))
		}
		base = max(base, hole.End)
	}
	if base < end {
		cover(base, end)
	}
}

func headerText(err error) string { return strings.TrimPrefix(err.Error(), "segstore: ") }

// readFooter reads trailer and index, if the segment has them, and limits the
// window to the batches.
func (c *segmentCheck) readFooter() error {
	if c.size < segstore.SegmentHeaderBytes+segstore.TrailerBytes {
		return nil
	}
	tail, err := c.at(c.size-segstore.TrailerBytes, segstore.TrailerBytes)
	if err != nil {
		return err
	}
	if c.trailer, c.sealed = segstore.DecodeTrailer(tail, c.base, c.size); !c.sealed {
		return nil
	}
	if c.trailer.Next > c.ceiling {
		c.rep.add(Damage, c.size-segstore.TrailerBytes, segstore.TrailerBytes,
			"the trailer says that offsets go up to %d, but the next segment begins at %d", c.trailer.Next, c.ceiling)
	}
	data := make([]byte, c.trailer.IndexBytes) // at most the file's size: DecodeTrailer compared
	for got := int64(0); got < int64(len(data)); {
		part, err := c.at(c.trailer.BatchesEnd+got, 1)
		if err != nil {
			return err
		}
		got += int64(copy(data[got:], part))
	}
	c.entries, c.holes, err = c.trailer.DecodeIndex(data)
	c.indexed = err == nil
	if err != nil {
		c.rep.add(Damage, c.trailer.BatchesEnd, c.trailer.IndexBytes, "the index is corrupt: reading is slow, but no record is lost by it")
	}
	c.limit = c.trailer.BatchesEnd
	return nil
}

// batches walks the segment batch by batch.
func (c *segmentCheck) batches() error {
	entry := 0
	for pos := int64(segstore.SegmentHeaderBytes); pos < c.limit; {
		info, err := c.span(pos)
		if err == nil && (info.Base < c.next || info.End > c.ceiling) {
			err = badBatch("offsets %d to %d are out of order: they must lie between %d and %d", info.Base, info.End, c.next, c.ceiling)
		}
		if err != nil {
			if !isBatchError(err) {
				return err
			}
			at, err := c.bad(pos, err.(*batchError))
			if err != nil {
				return err
			}
			for entry < len(c.entries) && c.entries[entry].Pos < at {
				entry++
			}
			pos = at
			continue
		}
		entry = c.compareEntry(entry, pos, info)
		if err := c.compareFilter(entry-1, pos, info); err != nil {
			return err
		}
		if info.Base > c.next && len(c.gaps) <= len(c.holes) {
			c.gaps = append(c.gaps, segstore.Hole{First: c.next, End: info.Base})
		}
		if c.cover != nil {
			from := info.Base
			if c.next < from && c.settled.count(c.next, from) == from-c.next {
				from = c.next // a hole that nobody misses
			}
			c.cover(from, info.End)
		}
		c.next = info.End
		if info.Hole {
			c.hole(pos, info)
		} else {
			if c.found != nil {
				if err := c.found(pos, info); err != nil {
					return err
				}
			}
			c.rep.batches++
			c.rep.records += info.End - info.Base
			c.rep.unsettled += info.End - info.Base - c.settled.count(info.Base, info.End)
		}
		pos += info.Bytes
		c.count(pos)
	}
	if entry < len(c.entries) {
		c.rep.add(Damage, c.trailer.BatchesEnd, c.trailer.IndexBytes, "the index names position %d, where no batch begins", c.entries[entry].Pos)
	}
	return nil
}

// hole takes note of a hole. What is in it was settled, on stable storage, before
// it was made.
func (c *segmentCheck) hole(pos int64, info segstore.BatchInfo) {
	c.punched = append(c.punched, segstore.Hole{First: info.Base, End: info.End})
	c.rep.holes++
	c.rep.holeBytes += uint64(info.Bytes)
	if !c.indexed || !c.trailer.HolesListed {
		return // who knows what was never there
	}
	lost := uint64(0)
	eachCovered(info.Base, info.End, within(c.holes, info.Base, info.End), func(first, end uint64) {
		lost += end - first - c.settled.count(first, end)
	})
	if lost > 0 {
		c.rep.add(Damage, pos, segstore.HoleMarkBytes,
			"%d of the offsets %d to %d are not settled, though their space was given back when all of them were: acknowledgements were lost", lost, info.Base, info.End-1)
	}
}

// within returns those of the holes that lie in [first, end).
func within(holes []segstore.Hole, first, end uint64) []segstore.Hole {
	from := 0
	for from < len(holes) && holes[from].First < first {
		from++
	}
	to := from
	for to < len(holes) && holes[to].End <= end {
		to++
	}
	return holes[from:to]
}

// compareEntry checks the index entries up to the batch at pos and returns the
// number of the next one.
func (c *segmentCheck) compareEntry(entry int, pos int64, info segstore.BatchInfo) int {
	for ; entry < len(c.entries) && c.entries[entry].Pos <= pos; entry++ {
		e := c.entries[entry]
		switch {
		case e.Pos < pos:
			c.rep.add(Damage, c.trailer.BatchesEnd, c.trailer.IndexBytes, "the index names position %d, where no batch begins", e.Pos)
		case e.Offset != info.Base || e.Timestamp != info.Timestamp:
			c.rep.add(Damage, c.trailer.BatchesEnd, c.trailer.IndexBytes,
				"the index says offset %d, time %d of the batch at position %d; it has offset %d, time %d", e.Offset, e.Timestamp, pos, info.Base, info.Timestamp)
		}
	}
	for info.Hole && entry < len(c.entries) && c.entries[entry].Pos < pos+info.Bytes {
		entry++ // nothing is to be seen there
	}
	return entry
}

// compareFilter checks that who looks for what is in the batch at pos finds it by
// the index entry with that number.
func (c *segmentCheck) compareFilter(entry int, pos int64, info segstore.BatchInfo) error {
	if entry < 0 || entry >= len(c.entries) || len(c.entries[entry].Filter) == 0 || info.Hole {
		return nil
	}
	var filter []byte
	if info.Filtered {
		end := pos + info.Bytes
		last, err := c.at(end-1, 1)
		if err != nil {
			return err
		}
		n := int64(last[0])
		data, err := c.at(end-1-n, int(n))
		if err != nil {
			return err
		}
		filter = data[:n]
	}
	if !segstore.FilterCovers(c.entries[entry].Filter, filter) {
		c.rep.add(Damage, c.trailer.BatchesEnd, c.trailer.IndexBytes,
			"the index does not have the filter of the batch at position %d: consumers with a filter do not find its messages", pos)
	}
	return nil
}

// bad reports the bytes at pos, which are no good batch, and returns where to go
// on: the next good batch, or the end.
func (c *segmentCheck) bad(pos int64, why *batchError) (int64, error) {
	c.damaged = true
	at, found, err := c.resync(pos, c.next, c.ceiling)
	if err != nil {
		return 0, err
	}
	if !found && !c.sealed {
		return c.size, c.badEnd(pos, why)
	}
	end := c.next
	if !found {
		at = c.limit
		end = max(end, min(c.trailer.Next, c.ceiling))
	} else {
		info, err := c.place(at)
		if err != nil {
			return 0, err
		}
		end = info.Base
	}
	if found && !c.sealed {
		torn, err := c.overtaken(pos, at)
		if err != nil {
			return 0, err
		}
		if torn {
			c.rep.add(Unfinished, pos, at-pos, "a write that did not arrive before a later one did: %s; nothing that was promised is lost, offsets %d to %d count as settled unless the journal has them", why.text, c.next, end-1)
			return at, nil
		}
	}
	switch lost := end - c.next - c.settled.count(c.next, end); {
	case end == c.next:
		c.rep.add(Damage, pos, at-pos, "no good batch: %s; no offset is missing", why.text)
	case lost == 0:
		c.rep.add(Damage, pos, at-pos, "no good batch: %s; offsets %d to %d are lost, all of them settled", why.text, c.next, end-1)
	default:
		c.rep.add(Damage, pos, at-pos, "no good batch: %s; offsets %d to %d are lost, %d of them not settled", why.text, c.next, end-1, lost)
	}
	return at, nil
}

// badEnd reports the bytes from pos to the end of an unsealed segment.
func (c *segmentCheck) badEnd(pos int64, why *batchError) error {
	data, err := c.at(pos, segstore.BatchHeaderBytes)
	if err != nil {
		return err
	}
	left := c.size - pos
	if segstore.IsFooter(data) {
		want := segstore.FooterBytes(data)
		trailer, err := c.at(c.size-segstore.TrailerBytes, 8)
		switch {
		case err != nil:
			return err
		case left == want || segstore.IsTrailer(trailer):
			c.rep.add(Damage, pos, left, "index or trailer is corrupt: no record is lost by it, and the next start makes them anew")
		default:
			c.rep.add(Unfinished, pos, left, "a footer that was not written completely; the next start makes it anew")
		}
		return nil
	}
	level := Unfinished
	if !why.short {
		if level, err = c.tornLevel(pos, c.size); err != nil {
			return err
		}
	}
	c.rep.add(level, pos, left, "no good batch up to the end: %s; the next start cuts it off, keeping a copy as %s unless it is zeros", why.text, segstore.QuarantineSuffix)
	return nil
}

// compareFooter compares the trailer's totals and the holes with the data.
func (c *segmentCheck) compareFooter() {
	if !c.sealed || c.damaged {
		return
	}
	pos := c.size - segstore.TrailerBytes
	hidden, known := c.hidden()
	if known && c.rep.records+hidden != c.trailer.Records {
		c.rep.add(Damage, pos, segstore.TrailerBytes, "the trailer counts %d records, there are %d", c.trailer.Records, c.rep.records+hidden)
	}
	if c.next != c.trailer.Next {
		c.rep.add(Damage, pos, segstore.TrailerBytes, "the trailer says that the next offset is %d, the batches end at %d", c.trailer.Next, c.next)
	}
	if c.indexed && c.trailer.HolesListed && !slices.Equal(c.holes, c.gaps) {
		c.rep.add(Damage, c.trailer.BatchesEnd, c.trailer.IndexBytes, "the index lists %d holes in the offsets that are not those between the batches", len(c.holes))
	}
}

// hidden is the number of records that were in punched holes, and takes the
// index's holes inside them out of those to be compared; known is false where
// the index does not list them.
func (c *segmentCheck) hidden() (records uint64, known bool) {
	if len(c.punched) == 0 {
		return 0, true
	}
	for _, h := range c.punched {
		records += h.End - h.First
	}
	seen := c.holes[:0:0]
	at := 0
	for _, h := range c.holes {
		for at < len(c.punched) && c.punched[at].End <= h.First {
			at++
		}
		if at < len(c.punched) && c.punched[at].First <= h.First && h.End <= c.punched[at].End {
			records -= h.End - h.First
			continue
		}
		seen = append(seen, h)
	}
	c.holes = seen
	return records, c.indexed && c.trailer.HolesListed
}
