package segstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// recovery is what is known of a log before its offsets are put together.
type recovery struct {
	settled  settledState // the settled file's, and what the journal adds
	holes    intervalSet  // in segments: no batch, or a bad one
	bad      []badBytes
	headless []headless
	next     uint64 // offsets that were in use end here
	stale    bool   // the journal knows more than the settled file
}

// headless is a segment with an unreadable header. It is set aside when all else
// of the log has been read, not before: only its name tells which offsets to avoid.
type headless struct {
	base, end uint64 // offsets in it that were in use
	level     slog.Level
	why       error
}

// badBytes are bytes of a segment between good batches.
type badBytes struct {
	segment   *segment
	pos, size int64
	lost      interval // offsets that they may have held
	why       error
	unwritten bool // a write that did not arrive before a crash
	cut       *cutEnd
}

// recoverLog builds the log from its directory. It runs before anybody else
// knows the log.
func (s *Store) recoverLog(l *Log) error {
	rec := new(recovery)
	if err := s.scanLog(l, rec); err != nil {
		return err
	}
	s.assemble(l, rec)
	return nil
}

// scanLog reads the log's directory: segments by their trailers, those without
// one by a scan, then the settled file and the holes that matter.
func (s *Store) scanLog(l *Log, rec *recovery) error {
	entries, err := s.disk.ReadDir(l.dir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	var bases []uint64
	for _, e := range entries {
		base, isSegment := parseSegmentName(e.Name())
		switch {
		case (isSegment || e.Name() == settledName) && e.Type()&^fs.ModeSymlink != 0:
			err = fmt.Errorf("%s is not a file", l.path(e.Name()))
		case isSegment:
			bases = append(bases, base)
		case e.Name() == settledName, strings.Contains(e.Name(), quarantineSuffix):
		case e.Name() == settledTempName, strings.HasSuffix(e.Name(), segmentTempSuffix):
			err = s.disk.Remove(l.path(e.Name())) // a rewrite that a crash cut short
		default:
			_, err = s.setAside(l.dir(), e.Name(), slog.LevelError, errors.New("not a file of a log"))
		}
		if err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
	}
	slices.Sort(bases)
	for i, base := range bases {
		ceiling := uint64(offsetMax)
		if i+1 < len(bases) {
			ceiling = bases[i+1]
		}
		end, err := s.recoverSegment(l, rec, base, ceiling)
		if err != nil {
			return err
		}
		rec.next = max(rec.next, end)
	}
	if err := s.recoverSettled(l, rec, entries); err != nil {
		return err
	}
	for _, seg := range l.segments {
		if seg.sealed && seg.records < seg.next-seg.base && seg.next > rec.settled.low {
			if err := s.findHoles(l, seg, &rec.holes); err != nil {
				return err
			}
		}
	}
	return s.setHeadlessAside(l, rec)
}

// recoverSegment opens one segment file and returns the end of the offsets it
// used. One with an unreadable header is to be set aside.
func (s *Store) recoverSegment(l *Log, rec *recovery, base, ceiling uint64) (end uint64, err error) {
	name := segmentName(base)
	h, err := s.files.acquire(fileKey{l.id, base}, l.path(name), disk.ReadWrite)
	if err != nil {
		return 0, fmt.Errorf("segstore: %w", err)
	}
	defer func() { s.files.release(h) }()
	bytes, err := h.file.Size()
	if err != nil {
		return 0, fmt.Errorf("segstore: %w", err)
	}
	if bytes == 0 { // created and not written before a crash
		s.files.forget(h.key)
		s.reportEmpty(l, name, ceiling)
		if err := s.disk.Remove(l.path(name)); err != nil {
			return 0, fmt.Errorf("segstore: %w", err)
		}
		return 0, nil
	}
	head := make([]byte, segmentHeaderBytes+batchHeaderBytes)
	tail := make([]byte, trailerBytes)
	readHead := disk.Op{Kind: disk.Read, File: h.file, Buf: head}
	readTail := disk.Op{Kind: disk.Read, File: h.file, Buf: tail, Pos: max(0, bytes-trailerBytes)}
	if err := disk.Run(s.disk, &readHead, &readTail); err != nil {
		return 0, fmt.Errorf("segstore: %w", err)
	}
	seg := &segment{base: base, next: base, sizeNext: base, size: segmentHeaderBytes, end: segmentHeaderBytes, created: true} // its holes are not known
	firstMs := firstTime(head[:readHead.N], base)
	head = head[:segmentHeaderBytes]
	if err := checkSegmentHeader(head[:min(readHead.N, segmentHeaderBytes)], l.id, base); err != nil {
		// Its offsets must not be used again, as far as they can be known.
		sc := scanner{store: s, file: h.file, limit: bytes, block: s.tune.blockBytes}
		defer sc.release()
		found, scanErr := sc.lastOffset(base, ceiling)
		if scanErr != nil {
			return 0, fmt.Errorf("segstore: %w", scanErr)
		}
		s.files.forget(h.key)
		level := slog.LevelError
		if !s.o.AfterCleanStop && allZeros(head) { // whatever sync covers the batches covers the header
			level, err = slog.LevelWarn, errNeverSynced
		}
		rec.headless = append(rec.headless, headless{base: base, end: found, level: level, why: err})
		return found, nil
	}
	if !seg.decodeTrailer(tail[:readTail.N], bytes) || seg.next > ceiling {
		*seg = segment{base: base, next: base, sizeNext: base, size: segmentHeaderBytes, end: segmentHeaderBytes, created: true, unsynced: true, bare: true, mapped: true}
		if err := s.scanSegment(l, rec, seg, h.file, bytes, ceiling); err != nil {
			return 0, err
		}
		// If a sync failed in an earlier life, the kernel may count the header as
		// clean though it is in the page cache only. Written again, the next sync
		// covers it; without it all that follows would be unreadable.
		again := disk.Op{Kind: disk.Write, File: h.file, Buf: head}
		if err := disk.Run(s.disk, &again); err != nil && !disk.IsNoSpace(err) {
			return 0, fmt.Errorf("segstore: %w", err)
		}
	}
	seg.entrySynced = seg.sealed
	seg.firstMs = firstMs
	l.segments = append(l.segments, seg)
	return seg.next, nil
}

// errNeverSynced says why the header of a segment is zeros.
var errNeverSynced = errors.New("segstore: nothing in the file was on stable storage before a crash, so nothing that was promised is in it")

func allZeros(data []byte) bool {
	return !slices.ContainsFunc(data, func(b byte) bool { return b != 0 })
}

// lastOffset returns the end of the last good batch in a file.
func (s *scanner) lastOffset(base, ceiling uint64) (uint64, error) {
	end := base
	for pos := int64(-1); ; {
		at, found, err := s.resync(pos, base, ceiling)
		if err != nil || !found {
			return end, err
		}
		batch, err := s.batch(at)
		if err != nil {
			return end, err
		}
		end = max(end, endOf(batch))
		pos = at + int64(batchLength(batch)) - 1
	}
}

// scanSegment reads an unsealed segment batch by batch. Bad bytes with good
// batches behind them are passed over and reported: their offsets are lost.
// Bad bytes at the end are what a crash leaves of a write: they are cut off, a
// copy is kept if they are more than zeros.
func (s *Store) scanSegment(l *Log, rec *recovery, seg *segment, file disk.File, bytes int64, ceiling uint64) error {
	sc := scanner{store: s, file: file, limit: bytes, block: s.tune.blockBytes}
	defer sc.release()
	for seg.end < bytes {
		batch, err := sc.batch(seg.end)
		if err == nil && (batchBase(batch) < seg.next || endOf(batch) > ceiling) {
			err = fmt.Errorf("%w: offset %d is out of order", errBatch, batchBase(batch))
		}
		if err == nil {
			if base := batchBase(batch); base > seg.next {
				rec.holes.add(seg.next, base)
			}
			if isHole(batch) {
				rec.holes.add(batchBase(batch), endOf(batch))
				seg.noteHole(batch, s.tune.indexBytes)
			} else {
				seg.note(batch, s.tune.indexBytes)
			}
			continue
		}
		if !isBatchError(err) {
			return fmt.Errorf("segstore: %w", err)
		}
		why := err
		at, found, err := sc.resync(seg.end, seg.next, ceiling)
		if err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
		if !found {
			bad, err := s.cutTail(l, seg, &sc, bytes, why)
			if err != nil {
				return err
			}
			rec.bad = append(rec.bad, bad)
			break
		}
		good, err := sc.batch(at)
		if err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
		bad := badBytes{segment: seg, pos: seg.end, size: at - seg.end, lost: interval{seg.next, batchBase(good)}, why: why}
		if !s.o.AfterCleanStop {
			if bad.unwritten, err = sc.unwritten(seg.end, at); err != nil {
				return fmt.Errorf("segstore: %w", err)
			}
		}
		rec.bad = append(rec.bad, bad)
		seg.end = at
	}
	seg.written()
	return nil
}

// setHeadlessAside sets the segments with unreadable headers aside.
func (s *Store) setHeadlessAside(l *Log, rec *recovery) error {
	for _, h := range rec.headless {
		moved, err := s.setAside(l.dir(), segmentName(h.base), h.level, h.why)
		if err != nil {
			return err
		}
		if !moved {
			rec.next = max(rec.next, h.base+1) // no other segment may want the name
		}
	}
	return nil
}

// recoverSettled reads the settled file, if there is one. What of it is
// unreadable is given up: some records come again.
func (s *Store) recoverSettled(l *Log, rec *recovery, entries []fs.DirEntry) error {
	if !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == settledName }) {
		return nil
	}
	h, err := s.files.acquire(fileKey{l.id, settledKey}, l.path(settledName), disk.ReadWrite)
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	defer func() { s.files.release(h) }()
	bytes, err := h.file.Size()
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	if bytes < settledHeaderBytes {
		return nil // created and not written before a crash; it is written anew
	}
	buf := s.arena.Get(int(bytes))
	defer buf.Release()
	op := disk.Op{Kind: disk.Read, File: h.file, Buf: buf.Bytes()[:bytes]}
	if err := disk.Run(s.disk, &op); err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	data := op.Buf[:op.N]
	if err := checkSettledHeader(data, l.id); err != nil {
		s.files.forget(h.key)
		_, err := s.setAside(l.dir(), settledName, slog.LevelError, err)
		return err
	}
	state, good := decodeSettled(data)
	if state.bad > 0 {
		s.o.Logger.Error("segstore: corrupt records in a settled file: some messages may come again",
			"file", l.path(settledName), "records", state.bad)
	}
	if good < bytes {
		if err := disk.Run(s.disk, &disk.Op{Kind: disk.Truncate, File: h.file, Pos: good}); err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
	}
	l.acks = &settledFile{exists: true}
	rec.settled.merge(&state)
	return nil
}
