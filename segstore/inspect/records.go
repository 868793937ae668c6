package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/basaltmq/basaltmq/segstore"
)

// Record is one record of a log. The bytes are valid until visit returns.
type Record struct {
	Offset     uint64
	Timestamp  int64 // Unix milliseconds
	Exchange   []byte
	RoutingKey []byte
	Properties []byte // as the protocol encoded them
	Body       []byte
	Settled    bool
	File       string // segment, or file of the journal, that holds it
	Pos        int64  // of its batch there
}

// RecordOptions choose records.
type RecordOptions struct {
	From    uint64 // the first offset
	Settled bool   // also those that are settled
	Visit   func(*Record) error
	Finding func(Finding) // called for each damaged place passed over; nil: not wanted
	Journal *Journal      // of the directory; nil: it is read first
}

// ErrStop returned by Visit ends Records without an error.
var ErrStop = errors.New("inspect: stop")

// ErrNoLog says that a log owns no files.
var ErrNoLog = errors.New("inspect: the log has no directory and no records in the journal: it holds no records on disk")

// Records visits the records of log id on disk in the order of their offsets,
// those that only the journal has in their place. Damaged places are passed
// over. The error is Visit's, the context's, ErrNoLog or that of a failed read.
func Records(ctx context.Context, fsys fs.FS, id uint64, o RecordOptions) error {
	j, err := o.Journal, error(nil)
	if j == nil {
		if j, err = ReadJournal(ctx, fsys); err != nil {
			return err
		}
	}
	s := &survey{fsys: fsys}
	s.lookLog(id)
	v := &visitor{o: o, w: &window{ctx: ctx, progress: new(Progress)}, journal: journalReader{j: j, w: &window{ctx: ctx, progress: new(Progress)}}}
	defer v.journal.close()
	if err := v.journal.collect(id); err != nil {
		return err
	}
	if o.Finding == nil {
		v.o.Finding = func(Finding) {}
	}
	for _, f := range append(j.Findings(), s.findings...) {
		if f.Level != Note {
			v.o.Finding(f)
		}
	}
	if _, err := fs.Stat(fsys, LogDir(id)); isMissing(err) && !v.journal.log.batches {
		return fmt.Errorf("%w (%s)", ErrNoLog, LogDir(id))
	}
	err = v.log(fsys, s)
	if errors.Is(err, ErrStop) {
		return nil
	}
	return err
}

// visitor walks the segments of one log.
type visitor struct {
	o       RecordOptions
	w       *window
	settled *settledSet
	large   []byte // a batch beyond the window
	journal journalReader
}

func (v *visitor) log(fsys fs.FS, s *survey) error {
	log := s.logs[0]
	v.settled = new(settledSet)
	if log.hasSettled {
		rep := &fileReport{file: path.Join(LogDir(log.id), segstore.SettledName)}
		err := withFile(fsys, rep.file, func(f io.ReaderAt) (err error) {
			v.w.open(f, log.settledBytes)
			v.settled, err = verifySettled(v.w, log.id, log.settledBytes, rep)
			return err
		})
		if err != nil {
			return err
		}
		v.report(rep)
	}
	v.settled.merge(v.journal.log.settled)
	v.settled.normalise()
	if err := v.journal.choose(v, fsys, s.units); err != nil {
		return err
	}
	for i := range s.units {
		u := &s.units[i]
		if u.kind != kindSegment || u.ceiling <= v.o.From {
			continue
		}
		rep := &fileReport{file: u.name}
		err := withFile(fsys, u.name, func(f io.ReaderAt) error {
			v.w.open(f, u.size)
			return v.segment(u, rep)
		})
		v.report(rep)
		if err != nil {
			return err
		}
	}
	return v.journaled(segstore.OffsetMax)
}

func (v *visitor) report(rep *fileReport) {
	for _, f := range rep.findings {
		v.o.Finding(f)
	}
}

// segment visits the records of one segment.
func (v *visitor) segment(u *unit, rep *fileReport) error {
	if u.size == 0 {
		return nil
	}
	c := &segmentCheck{segmentFile: u.segmentFile, window: v.w, settled: v.settled, rep: rep, next: u.base}
	if err := c.readFooter(); err != nil {
		return err
	}
	// Not from the index entry before From: that may lie in a hole.
	for pos := int64(segstore.SegmentHeaderBytes); pos < c.limit; {
		info, err := c.place(pos)
		if err == nil && !info.Hole && v.wanted(info) {
			info, err = c.batch(pos)
		}
		if err == nil && (info.Base < c.next || info.End > c.ceiling) {
			err = badBatch("offsets %d to %d are out of order", info.Base, info.End)
		}
		if err != nil {
			if !isBatchError(err) {
				return err
			}
			if pos, err = c.bad(pos, err.(*batchError)); err != nil {
				return err
			}
			continue
		}
		c.next = info.End
		if err := v.journaled(info.Base); err != nil {
			return err
		}
		v.journal.drop(info.End)
		if !info.Hole && v.wanted(info) {
			if err := v.batch(v.w, c.rep.file, pos, info); err != nil {
				return err
			}
		}
		pos += info.Bytes
	}
	return nil
}

// wanted says whether a batch holds records to visit.
func (v *visitor) wanted(info segstore.BatchInfo) bool {
	if info.End <= v.o.From {
		return false
	}
	first := max(info.Base, v.o.From)
	return v.o.Settled || v.settled.count(first, info.End) < info.End-first
}

// batch visits the records of the verified batch at pos of the window's file.
func (v *visitor) batch(w *window, file string, pos int64, info segstore.BatchInfo) error {
	data, err := w.bytes(pos, info.Bytes, &v.large)
	if err != nil {
		return err
	}
	segstore.WalkBatch(data, func(rec segstore.Record, t segstore.Template) bool {
		settled := v.settled.has(rec.Offset)
		if rec.Offset < v.o.From || settled && !v.o.Settled {
			return true
		}
		err = v.o.Visit(&Record{
			Offset: rec.Offset, Timestamp: rec.Timestamp, Exchange: t.Exchange, RoutingKey: t.RoutingKey,
			Properties: t.Properties, Body: rec.Body, Settled: settled, File: file, Pos: pos,
		})
		return err == nil
	})
	return err
}

// bytes returns size bytes at pos; large is a buffer for what is beyond the
// window.
func (w *window) bytes(pos, size int64, large *[]byte) ([]byte, error) {
	if size <= windowBytes {
		data, err := w.at(pos, int(size))
		return data[:min(int64(len(data)), size)], err
	}
	if int64(cap(*large)) < size {
		*large = make([]byte, size)
	}
	data := (*large)[:size]
	for got := int64(0); got < size; {
		part, err := w.at(pos+got, 1)
		if err != nil {
			return nil, err
		}
		got += int64(copy(data[got:], part))
	}
	return data, nil
}
