package segstore

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// What is here is about names: remake.go makes files under other names, and these
// take the place of the old ones.

// reportLost tells of records that neither memory nor a good checksum has. The
// bytes where they were stay under another name.
func (m *remaker) reportLost(old *segment) error {
	s, l := m.store, m.log
	name, kept := "", ""
	if old != nil && slices.Contains(m.names, segmentName(old.base)) {
		name = segmentName(old.base)
		entries, err := s.disk.ReadDir(l.dir())
		if err != nil {
			return err
		}
		kept = freeQuarantineName(entries, name)
		if err := s.disk.Link(l.path(name), l.path(kept)); err != nil && !disk.IsNoSpace(err) {
			return err
		}
	}
	s.corruptBatches.Add(1)
	s.o.Logger.Error("segstore: records of a fenced log are neither in memory nor readable: they are lost",
		"log", l.id, "records", m.lost, "file", name, "copy", kept)
	return nil
}

// rename gives the new files their names: the settled file first, then segments
// in the order of offsets. Then it removes what nobody needs any more.
func (m *remaker) rename() error {
	l, d := m.log, m.store.disk
	if !l.transient {
		if err := d.Rename(l.path(settledTempName), l.path(settledName)); err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
		m.store.files.forget(fileKey{l.id, settledKey})
	}
	if err := d.SyncDir(l.dir()); err != nil { // what is settled must not be behind what lacks it
		return fmt.Errorf("segstore: %w", err)
	}
	for i := range m.parts {
		if err := m.renamePart(&m.parts[i]); err != nil {
			return fmt.Errorf("segstore: %w", err)
		}
	}
	err := m.removeStrangers()
	if err == nil {
		err = d.SyncDir(l.dir())
	}
	if err != nil {
		return fmt.Errorf("segstore: %w", err)
	}
	for _, p := range m.parts {
		if p.fresh != nil {
			p.fresh.entrySynced = true
		}
	}
	return nil
}

// renamePart has a fresh segment take its name, or removes an old one of which
// nothing is left. After a failure it finds out which of the two happened.
func (m *remaker) renamePart(p *remade) error {
	l, d := m.log, m.store.disk
	if p.named {
		return nil
	}
	base := uint64(0)
	var err error
	if p.fresh != nil {
		base = p.fresh.base
		if err = d.Rename(l.path(tempName(base)), l.path(segmentName(base))); err != nil {
			f, gone := d.Open(l.path(tempName(base)), disk.ReadOnly)
			if gone == nil {
				_ = f.Close()
			}
			p.named = errors.Is(gone, fs.ErrNotExist)
			p.unknown = gone != nil && !p.named
		}
	} else {
		base = p.old.base
		if err = d.Remove(l.path(segmentName(base))); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	p.named = p.named || err == nil
	m.store.files.forget(fileKey{l.id, base})
	return err
}

// removeStrangers removes the files of segments that had been given up, when a
// failure kept them from being removed.
func (m *remaker) removeStrangers() error {
	l, s := m.log, m.store
	for _, name := range m.names {
		base, ok := parseSegmentName(name)
		if !ok || slices.ContainsFunc(m.parts, func(p remade) bool {
			return p.fresh != nil && p.fresh.base == base || p.old != nil && p.old.base == base
		}) {
			continue
		}
		end := m.next
		for _, p := range m.parts {
			if p.fresh != nil && p.fresh.base > base {
				end = p.fresh.base
				break
			}
		}
		if m.isSettled(base, end) {
			if err := s.disk.Remove(l.path(name)); err != nil {
				return err
			}
			continue
		}
		if _, err := s.setAside(l.dir(), name, slog.LevelError, errors.New("no segment of the log that was opened again")); err != nil {
			return err
		}
	}
	return nil
}

// segments are those of the log after the renames, as far as those went.
func (m *remaker) segments() (segments []*segment) {
	for _, p := range m.parts {
		switch {
		case p.named && p.fresh != nil:
			segments = append(segments, p.fresh)
		case p.named, p.old == nil:
		default:
			p.old.replaced = p.unknown
			segments = append(segments, p.old)
		}
	}
	for i, seg := range segments {
		seg.full = seg.full || i+1 < len(segments)
	}
	return segments
}

// tidy removes new files that did not get their names.
func (m *remaker) tidy() {
	d := m.store.disk
	names := []string{settledTempName, tempName(m.first)}
	for _, p := range m.parts {
		if p.fresh != nil && !p.named && !p.unknown {
			names = append(names, tempName(p.fresh.base))
		}
	}
	for _, name := range names {
		_ = d.Remove(m.log.path(name)) // else the next attempt does, or the next start
	}
}
