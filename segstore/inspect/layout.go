package inspect

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
)

// kind says what a file is.
type kind uint8

const (
	kindSegment kind = iota
	kindSettled
)

// unit is one file to be checked.
type unit struct {
	kind kind
	name string
	log  *logState
	segmentFile
}

// survey is what a data directory holds.
type survey struct {
	fsys     fs.FS
	units    []unit
	logs     []*logState
	journal  []*journalFile
	bodies   map[uint64]*bodyDir
	bytes    int64 // of all units and bodies
	findings []Finding

	bodyFiles int

	cleanStop bool
}

// Names at the top of a data directory that belong to the broker, not to its
// store. They are checked by who knows their formats.
const (
	LockName        = ".lock"
	DefinitionsName = "definitions"
	CleanStopName   = "clean-stop"   // there between a stop in good order and the next start
	ControlName     = "control.sock" // a socket; a broker that was killed leaves it
)

func (s *survey) note(level Level, file, format string, args ...any) {
	s.findings = append(s.findings, Finding{Level: level, File: file, Pos: WholeFile, Text: fmt.Sprintf(format, args...)})
}

// LogDir is the directory of a log, relative to the data directory.
func LogDir(id uint64) string { return fmt.Sprintf("%s/%016x", segstore.LogsDir, id) }

// isMissing says that a name is not there (any more).
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// look surveys the directory, with the bodies of large messages if they are to
// be checked. An error means that it cannot be read at all.
func look(fsys fs.FS, withBodies bool) (*survey, error) {
	s := &survey{fsys: fsys, bodies: map[uint64]*bodyDir{}}
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	if !holdsData(entries) {
		return nil, errNoDataDir
	}
	for _, e := range entries {
		e, followErr := follow(fsys, ".", e)
		name, wrong := e.Name(), misplaced(e)
		switch {
		case wrong != "" && followErr != nil:
			s.note(readLevel(followErr), name, "a link that leads nowhere: %v", plainError(followErr))
		case wrong != "":
			s.note(Damage, name, "%s", wrong)
		case name == LockName || name == DefinitionsName || name == ControlName || name == ControlName+".new":
		case name == CleanStopName:
			s.cleanStop = true
		case name == segstore.LogsDir && e.IsDir():
			err = s.lookLogs()
		case name == JournalDir && e.IsDir():
			s.lookJournal()
		case (name == segstore.TransientDir || name == segstore.TrashDir) && e.IsDir():
			// Wiped at the next start, and worth nothing until then.
		case (name == bodies.SpoolDir || name == bodies.TransientDir) && e.IsDir():
			// Wiped at the next start too.
		case name == bodies.DurableDir && e.IsDir():
			if withBodies {
				s.lookBodies()
			}
		case name == segstore.QuarantineDir && e.IsDir():
			err = s.lookQuarantine()
		case strings.HasPrefix(name, DefinitionsName+"."):
			s.note(Note, name, "a leftover of the definitions file (.new: a snapshot that a crash cut short; the next one overwrites it)")
		default:
			s.note(Note, name, "not a name of the broker's; it leaves it alone")
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

var errNoDataDir = errors.New("inspect: this is not a data directory of the broker: it holds neither definitions nor logs")

// CheckDataDir returns an error if a directory is none of the broker's, or
// cannot be read at all.
func CheckDataDir(fsys fs.FS) error {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return fmt.Errorf("inspect: %w", err)
	}
	if !holdsData(entries) {
		return errNoDataDir
	}
	return nil
}

// holdsData says that one of the names is of a kind that every data directory has.
func holdsData(entries []fs.DirEntry) bool {
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
		return slices.Contains([]string{LockName, DefinitionsName, segstore.LogsDir, JournalDir}, e.Name())
	})
}

// follow returns what a link leads to, as the broker sees it; an entry that is
// no link, or leads nowhere, stays as it is.
func follow(fsys fs.FS, dir string, e fs.DirEntry) (fs.DirEntry, error) {
	if e.Type()&fs.ModeSymlink == 0 {
		return e, nil
	}
	info, err := fs.Stat(fsys, path.Join(dir, e.Name()))
	if err != nil {
		return e, err
	}
	return fs.FileInfoToDirEntry(info), nil
}

// misplaced says what is wrong with a name that the broker cannot do without and
// that is of another kind than it should be.
func misplaced(e fs.DirEntry) string {
	switch name := e.Name(); {
	case (name == segstore.LogsDir || name == JournalDir || name == bodies.DurableDir) && !e.IsDir():
		return "not a directory: the broker does not start; restore the data directory from a backup"
	case name == DefinitionsName && e.IsDir():
		return "a directory where a file should be: the broker does not start; restore the data directory from a backup"
	case name == LockName && e.IsDir():
		return "a directory where a file should be: the broker does not start; remove it"
	}
	return ""
}

// readDir lists a directory below the root; one that cannot be read is a
// finding, not an end.
func (s *survey) readDir(dir string) []fs.DirEntry {
	entries, err := fs.ReadDir(s.fsys, dir)
	if err != nil && !isMissing(err) {
		s.note(readLevel(err), dir, "the directory cannot be read: %v", plainError(err))
	}
	return entries
}

func (s *survey) lookQuarantine() error {
	for _, e := range s.readDir(segstore.QuarantineDir) {
		s.note(Note, path.Join(segstore.QuarantineDir, e.Name()), "a log that belonged to no queue, or a damaged body; yours to inspect and to remove")
	}
	return nil
}

func (s *survey) lookLogs() error {
	for _, e := range s.readDir(segstore.LogsDir) {
		name := path.Join(segstore.LogsDir, e.Name())
		id, err := strconv.ParseUint(e.Name(), 16, 64)
		switch {
		case strings.Contains(e.Name(), segstore.QuarantineSuffix):
			s.note(Note, name, "set aside by the broker as unreadable; yours to inspect and to remove")
		case err != nil || LogDir(id) != name:
			s.note(Note, name, "not the directory of a log: the next start sets it aside as %s", segstore.QuarantineSuffix)
		default:
			s.lookLog(id)
		}
	}
	return nil
}

func (s *survey) lookLog(id uint64) {
	dir := LogDir(id)
	log := &logState{id: id}
	var segments []unit
	for _, e := range s.readDir(dir) {
		name := path.Join(dir, e.Name())
		base, isSegment := segstore.ParseSegmentName(e.Name())
		switch {
		case isSegment && e.Type().IsRegular():
			if size, ok := s.size(name, e); ok {
				segments = append(segments, unit{kind: kindSegment, name: name, log: log, segmentFile: segmentFile{id: id, base: base, size: size}})
			}
		case e.Name() == segstore.SettledName && e.Type().IsRegular():
			if size, ok := s.size(name, e); ok {
				log.settledBytes, log.hasSettled = size, true
				s.bytes += size
			}
		case isSegment, e.Name() == segstore.SettledName:
			s.note(Damage, name, "not a file: the broker starts without this log, and its queue is closed until it is one again")
		case strings.Contains(e.Name(), segstore.QuarantineSuffix):
			s.note(Note, name, "set aside by the broker as unreadable; yours to inspect and to remove")
		case e.Name() == segstore.SettledTempName, strings.HasSuffix(e.Name(), segstore.SegmentTempEnd):
			s.note(Unfinished, name, "a rewrite that a crash cut short; the next start removes it")
		default:
			s.note(Note, name, "not a file of a log: the next start sets it aside as %s", segstore.QuarantineSuffix)
		}
	}
	// Names have a fixed width, so directory order is the order of offsets.
	for i := range segments {
		segments[i].ceiling = segstore.OffsetMax
		if i+1 < len(segments) {
			segments[i].ceiling = segments[i+1].base
		}
		s.bytes += segments[i].size
	}
	log.left.Store(int64(len(segments)))
	if len(segments) == 0 && log.hasSettled {
		log.left.Store(1)
		segments = append(segments, unit{kind: kindSettled, name: path.Join(dir, segstore.SettledName), log: log})
	}
	s.logs = append(s.logs, log)
	s.units = append(s.units, segments...)
}

// size stats a file; one that cannot be is a finding.
func (s *survey) size(name string, e fs.DirEntry) (int64, bool) {
	info, err := e.Info()
	if err != nil {
		s.note(readLevel(err), name, "the file cannot be read: %v", plainError(err))
		return 0, false
	}
	return info.Size(), true
}

// readLevel tells a question of permissions from a failing disk.
func readLevel(err error) Level {
	if errors.Is(err, fs.ErrPermission) {
		return Unreadable
	}
	return Damage
}

// plainError is an error without the path that the finding names already.
func plainError(err error) error {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err
	}
	return err
}

// logIDs are the ids of the logs found, ascending.
func (s *survey) logIDs() []uint64 {
	ids := make([]uint64, 0, len(s.logs))
	for _, log := range s.logs {
		ids = append(ids, log.id)
	}
	slices.Sort(ids)
	return ids
}
