package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

// Names in the journal's directory, as package journal gives them: two files
// that are written in turn, and files kept for one log each.
const (
	JournalDir = journal.Dir
	keptSuffix = ".kept"
)

// journalFile is one file of the journal, and what a look at it found.
type journalFile struct {
	name string
	size int64
	kept bool
	log  uint64 // that a kept file counts for

	identity   uint64
	generation uint64 // 0: no sound group
	sequence   uint64 // of the last sound group
	groups     int
	good       []span // runs of sound groups
	done       uint64 // the highest generation that a Done entry names
	// From here on entries count: behind a Done entry of the own generation.
	cleanPos   int64
	cleanEntry int

	counts bool // a start replays it
	report *fileReport
}

// span is the bytes [from, to) of a file.
type span struct{ from, to int64 }

// Journal is what the journal of a data directory holds: which groups of its
// files a start would replay. It keeps positions, no contents.
type Journal struct {
	fsys     fs.FS
	files    []*journalFile // in the order a start replays them
	findings []Finding      // about the journal as a whole
}

// ReadJournal looks through the journal's files; having none is no error. The
// error is the context's.
func ReadJournal(ctx context.Context, fsys fs.FS) (*Journal, error) {
	s := &survey{fsys: fsys}
	s.lookJournal()
	j := &Journal{fsys: fsys, files: s.journal, findings: s.findings}
	return j, j.scan(&window{ctx: ctx, progress: new(Progress)})
}

// Findings are what is wrong with the journal.
func (j *Journal) Findings() []Finding {
	r := &Report{Findings: slices.Clone(j.findings)}
	for _, f := range j.files {
		if f.report != nil {
			r.merge(f.report)
		}
	}
	r.sort()
	return r.Findings
}

// lookJournal lists the journal's files.
func (s *survey) lookJournal() {
	for _, e := range s.readDir(JournalDir) {
		f := &journalFile{name: path.Join(JournalDir, e.Name())}
		e, followErr := follow(s.fsys, JournalDir, e)
		switch isKept := f.parseKept(e.Name()); {
		case strings.Contains(e.Name(), segstore.QuarantineSuffix):
			s.note(Note, f.name, "a copy of damaged bytes that the broker made; yours to inspect and to remove")
			continue
		case !isKept && e.Name() != "0" && e.Name() != "1":
			s.note(Note, f.name, "not a file of the journal: the broker leaves it alone")
			continue
		case followErr != nil:
			s.note(readLevel(followErr), f.name, "a link that leads nowhere: %v", plainError(followErr))
			continue
		case !e.Type().IsRegular():
			s.note(Damage, f.name, "not a file: the broker does not start; restore the data directory from a backup")
			continue
		}
		if size, ok := s.size(f.name, e); ok {
			f.size = size
			s.journal = append(s.journal, f)
			s.bytes += size
		}
	}
}

// parseKept reads the name of a file kept for one log.
func (f *journalFile) parseKept(name string) bool {
	var generation uint64
	_, err := fmt.Sscanf(name, "%020d-%016x"+keptSuffix, &generation, &f.log)
	f.kept = err == nil && name == fmt.Sprintf("%020d-%016x%s", generation, f.log, keptSuffix)
	return f.kept
}

// scan looks through all files and decides which of them count.
func (j *Journal) scan(w *window) error {
	identity := uint64(0) // the second file is read knowing that of the first
	for _, f := range j.files {
		f.report = &fileReport{file: f.name}
		if !f.kept {
			f.identity = identity
		}
		err := withFile(j.fsys, f.name, func(at io.ReaderAt) error {
			w.open(at, f.size)
			return f.scan(w)
		})
		if ctxErr := w.ctx.Err(); ctxErr != nil {
			return ctxErr
		}
		if err != nil {
			f.report.unreadable(err)
		}
		w.count(f.size)
		if !f.kept {
			identity = f.identity
		}
	}
	j.choose()
	return nil
}

// choose decides which files count, as a start would, and sorts them.
func (j *Journal) choose() {
	var pair []*journalFile
	for _, f := range j.files {
		if f.kept {
			f.counts = f.generation > 0
		} else {
			pair = append(pair, f)
		}
	}
	slices.SortStableFunc(pair, func(a, b *journalFile) int { return cmp.Compare(b.generation, a.generation) })
	for i, f := range pair {
		switch now := pair[0]; {
		case i == 0:
			f.counts = f.generation > 0
		case f.generation > 0 && (f.generation == now.generation || f.identity != now.identity):
			f.counts = true // nobody knows
			f.report.add(Damage, WholeFile, 0, "it does not belong together with %s: the broker refuses to start; restore the directory from a backup, or move one of them away", now.name)
		default:
			f.counts = f.generation > now.done
		}
	}
	for _, f := range j.files {
		if !f.counts && f.generation > 0 { // what is wrong with stale bytes hurts nobody
			f.report = &fileReport{file: f.name}
		}
	}
	slices.SortStableFunc(j.files, func(a, b *journalFile) int {
		switch {
		case a.kept == b.kept:
			return cmp.Compare(a.generation, b.generation)
		case a.kept:
			return -1
		}
		return 1
	})
}

// unreadable adds that the file could not be read, or not from somewhere on.
func (r *fileReport) unreadable(err error) {
	pos := int64(WholeFile)
	var failed readError
	if errors.As(err, &failed) {
		pos, err = failed.pos, failed.err
	}
	r.findings = append(r.findings, Finding{
		Level: readLevel(err), File: r.file, Pos: pos,
		Text: fmt.Sprintf("the file cannot be read from here on: %v", plainError(err)),
	})
}
