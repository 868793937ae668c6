package segstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// cutEnd is what was cut off the end of a segment without a valid trailer.
type cutEnd struct {
	copy  string // where the bytes are kept; "" where there was nothing to keep
	index bool   // it began as an index does: no records
}

// cutTail cuts the segment at seg.end and returns what there was.
func (s *Store) cutTail(l *Log, seg *segment, sc *scanner, bytes int64, why error) (badBytes, error) {
	// Any offset may have been in it. That of its first record tells whether the
	// journal has it.
	bad := badBytes{segment: seg, pos: seg.end, size: bytes - seg.end, lost: interval{seg.next, seg.next + 1}, why: why}
	head, err := sc.window(seg.end, indexHeaderBytes)
	if err != nil {
		return bad, fmt.Errorf("segstore: %w", err)
	}
	bad.cut = &cutEnd{index: isFooter(head)}
	if !s.o.AfterCleanStop {
		if bad.unwritten, err = s.unfinishedEnd(sc, head, bad); err != nil {
			return bad, fmt.Errorf("segstore: %w", err)
		}
	}
	if !bad.cut.index {
		bad.cut.copy, err = s.keepCopy(l, segmentName(seg.base), sc, seg.end, bytes)
		if disk.IsNoSpace(err) { // better no copy than no broker: consumers have to make space
			if bad.cut.copy != "" {
				_ = s.disk.Remove(l.path(bad.cut.copy)) // the beginning of one
			}
			bad.cut.copy, err = "none: the disk is full", nil
		}
		if err != nil {
			return bad, fmt.Errorf("segstore: %w", err)
		}
	}
	if err := disk.Run(s.disk, &disk.Op{Kind: disk.Truncate, File: sc.file, Pos: seg.end}); err != nil {
		return bad, fmt.Errorf("segstore: %w", err)
	}
	return bad, nil
}

// unfinishedEnd says whether the bytes of bad, which head begins, look like a
// write that a crash cut short: bytes are missing, at the end or within.
func (s *Store) unfinishedEnd(sc *scanner, head []byte, bad badBytes) (bool, error) {
	short := errors.Is(bad.why, errBeyond)
	if bad.cut.index {
		short = bad.size != FooterBytes(head)
	}
	if short {
		return true, nil
	}
	return sc.unwritten(bad.pos, bad.pos+bad.size)
}

// reportCut tells of an end that was cut off, as reportBad does of bytes in
// between. journaled: the journal has the records.
func (s *Store) reportCut(file string, b badBytes, journaled bool) {
	attributes := []any{"file", file, "pos", b.pos, "bytes", b.size}
	if b.cut.copy != "" {
		attributes = append(attributes, "copy", b.cut.copy)
	}
	attributes = append(attributes, "error", b.why)
	switch {
	case b.unwritten && b.cut.copy == "": // zeros, or a footer that is written again
	case b.cut.index:
		s.o.Logger.Error("segstore: the index of a segment is damaged: it is made anew, and no record is lost by it; check the disk", "file", file, "pos", b.pos, "bytes", b.size)
	case b.unwritten || journaled:
		s.o.Logger.Warn("segstore: the unfinished end of a segment was cut off", attributes...)
	default:
		s.corruptBatches.Add(1)
		s.o.Logger.Error("segstore: the end of a segment is damaged: it was cut off, and records in it are lost; check the disk", attributes...)
	}
}

// reportEmpty tells of a segment of no bytes, which a crash may leave, but no stop
// in good order where there is another one after it.
func (s *Store) reportEmpty(l *Log, name string, ceiling uint64) {
	if s.o.AfterCleanStop && ceiling < offsetMax {
		s.corruptBatches.Add(1)
		s.o.Logger.Error("segstore: a segment has lost its bytes since the stop: its records are lost; check the disk", "file", l.path(name))
	}
}

// keepCopy copies file bytes [from, to) to a .quarantine file, unless they are
// zeros.
func (s *Store) keepCopy(l *Log, name string, sc *scanner, from, to int64) (kept string, err error) {
	var out disk.File
	defer func() {
		if out != nil {
			err = cmp.Or(err, disk.Run(s.disk, &disk.Op{Kind: disk.Sync, File: out}), out.Close(), s.disk.SyncDir(l.dir()))
		}
	}()
	for pos := from; pos < to; {
		w, err := sc.window(pos, 1)
		if err != nil || len(w) == 0 {
			return kept, err
		}
		if out == nil && slices.ContainsFunc(w, func(b byte) bool { return b != 0 }) {
			entries, err := s.disk.ReadDir(l.dir())
			if err != nil {
				return "", err
			}
			kept = freeQuarantineName(entries, name)
			if out, err = s.disk.Open(l.path(kept), disk.CreateNew); err != nil {
				return "", err
			}
		}
		if out != nil {
			if err := disk.Run(s.disk, &disk.Op{Kind: disk.Write, File: out, Pos: pos - from, Buf: w}); err != nil {
				return kept, err
			}
		}
		pos += int64(len(w))
	}
	return kept, nil
}
