package segstore

import (
	"errors"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// stageBytes is how much is written at once.
const stageBytes = arena.BufBytesMax

// emit adds a batch to the segment being made, and begins another one where the
// log would. The checksum of one from memory may never have been computed.
func (m *remaker) emit(batch []byte, seal bool) error {
	base, size := batchBase(batch), int64(len(batch))
	m.miss(base)
	m.done = batchEnd(batch)
	if m.seg != nil && m.last && m.seg.end > segmentHeaderBytes && (m.seg.end+size > m.limit || m.rolled(base)) {
		if err := m.closeSegment(); err != nil {
			return err
		}
	}
	if m.seg == nil {
		if p := &m.parts[len(m.parts)-1]; p.old == nil || p.fresh != nil {
			m.first = base
		}
		if err := m.openSegment(); err != nil {
			return err
		}
	}
	m.seg.note(batch, m.store.tune.indexBytes)
	if m.n+len(batch) > m.buf.Len() {
		if err := m.flush(); err != nil {
			return err
		}
		if len(batch) > m.buf.Len() {
			m.buf.Release()
			m.buf = m.store.arena.Get(len(batch))
		}
	}
	to := m.buf.Bytes()[m.n : m.n+len(batch) : m.n+len(batch)]
	copy(to, batch)
	if seal {
		sealBatch(to)
	}
	m.n += len(batch)
	return nil
}

// rolled reports whether a segment is to end before base, after the one being made
// began.
func (m *remaker) rolled(base uint64) bool {
	return slices.ContainsFunc(m.rolls, func(at uint64) bool { return at > m.seg.base && at <= base })
}

func (m *remaker) openSegment() (err error) {
	m.seg = &segment{base: m.first, next: m.first, sizeNext: m.first, size: segmentHeaderBytes, end: segmentHeaderBytes, created: true, mapped: true}
	if m.file, err = m.store.disk.Open(m.log.path(tempName(m.first)), disk.CreateNew); err != nil {
		return err
	}
	if m.buf == nil {
		m.buf = m.store.arena.Get(stageBytes)
	}
	m.to, m.n = 0, copy(m.buf.Bytes(), encodeSegmentHeader(m.version, m.log.id, m.first, m.store.tune.now().UnixMilli()))
	return nil
}

func tempName(base uint64) string {
	return strings.TrimSuffix(segmentName(base), segmentSuffix) + segmentTempSuffix
}

func (m *remaker) flush() error {
	op := disk.Op{Kind: disk.Write, File: m.file, Pos: m.to, Buf: m.buf.Bytes()[:m.n]}
	if err := disk.Run(m.store.disk, &op); err != nil {
		return err
	}
	m.store.writes.Add(1)
	m.store.writtenBytes.Add(uint64(m.n))
	m.to, m.n = m.to+int64(m.n), 0
	return nil
}

// closeSegment completes the segment being made, if there is one.
func (m *remaker) closeSegment() error {
	if m.seg == nil {
		return nil
	}
	err := m.flush()
	if err == nil {
		err = m.sync(m.file)
	}
	if err = errors.Join(err, m.file.Close()); err != nil {
		m.file = nil
		return err
	}
	m.seg.written()
	if p := &m.parts[len(m.parts)-1]; p.fresh == nil {
		p.fresh = m.seg
	} else {
		m.parts = append(m.parts, remade{fresh: m.seg})
	}
	m.seg, m.file = nil, nil
	return nil
}
