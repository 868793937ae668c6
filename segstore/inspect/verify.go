package inspect

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore"
)

// Options adjust Verify. The zero value is good.
type Options struct {
	Workers  int       // files read at the same time; 0: one per core
	Progress *Progress // nil: not wanted
	// Meta is called for each meta record that the journal holds and a start
	// would replay, in order; nil: not wanted. An error ends Verify.
	Meta func(MetaRecord) error
	// External says whether a record with these properties has, in place of its
	// body, a reference to a file (package bodies); nil: such files are not checked.
	External func(properties []byte) bool
}

// Progress tells how far Verify is. Any goroutine may read it.
type Progress struct{ done, total, files, filesTotal atomic.Int64 }

// Bytes returns the bytes checked, and those to be checked (0 until known).
func (p *Progress) Bytes() (done, total int64) { return p.done.Load(), p.total.Load() }

// Files returns the files checked, and those to be checked (0 until known).
func (p *Progress) Files() (done, total int64) { return p.files.Load(), p.filesTotal.Load() }

func (p *Progress) add(n int64) { p.done.Add(n) }

// logState is what the segments of a log share.
type logState struct {
	id           uint64
	hasSettled   bool
	settledBytes int64
	journal      *journalLog  // nil: the journal does not name it
	left         atomic.Int64 // units not finished: then settled is dropped

	once    sync.Once
	settled *settledSet
	err     error // of the context
}

// run is one call of Verify.
type run struct {
	fsys     fs.FS
	progress *Progress
	journal  map[uint64]*journalLog
	external func(properties []byte) bool

	mu     sync.Mutex
	bodies map[uint64]*bodyDir
	report *Report
	err    error // the first that ends the run
}

// Verify checks the store in the data directory fsys, which nobody may be
// writing to. The error is the context's, or says that there is nothing to
// check; what is wrong with the files is in the report.
//
// The unit of work is a segment: the first one of a log that a worker takes
// loads the log's settled set for all of them, the last one drops it, so that
// with logs in order only a few sets are in memory. The journal is read before,
// for what it says of settled offsets, and after that again, for the records
// that no segment has. Large bodies come last, when all references are known.
func Verify(ctx context.Context, fsys fs.FS, o Options) (*Report, error) {
	s, err := look(fsys, o.External != nil)
	if err != nil {
		return nil, err
	}
	if o.Progress == nil {
		o.Progress = new(Progress)
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	r := &run{fsys: fsys, progress: o.Progress, external: o.External, bodies: s.bodies, report: &Report{
		CleanStop: s.cleanStop, Logs: len(s.logs), LogIDs: s.logIDs(), Bytes: s.bytes, Findings: s.findings,
	}}
	o.Progress.filesTotal.Store(int64(len(s.units) + len(s.journal) + s.bodyFiles))
	o.Progress.total.Store(s.bytes)
	j := &Journal{fsys: fsys, files: s.journal}
	w := &window{ctx: ctx, progress: o.Progress}
	if err := r.beginJournal(w, j, s, o.Meta); err != nil {
		return nil, err
	}
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(o.Workers, max(1, len(s.units))) {
		workers.Go(func() {
			w := &window{ctx: ctx, progress: o.Progress}
			for i := next.Add(1) - 1; i < int64(len(s.units)) && r.failed() == nil; i = next.Add(1) - 1 {
				if err := r.unit(w, &s.units[i]); err != nil {
					r.fail(err)
				}
				o.Progress.files.Add(1)
			}
		})
	}
	workers.Wait()
	if r.err != nil {
		return nil, r.err
	}
	if err := r.endJournal(w, j); err != nil {
		return nil, err
	}
	if err := r.checkBodies(ctx, o.Workers); err != nil {
		return nil, err
	}
	r.report.sort()
	return r.report, nil
}

func (r *run) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

func (r *run) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// unit checks one file.
func (r *run) unit(w *window, u *unit) error {
	defer func() {
		if u.log.left.Add(-1) == 0 {
			u.log.settled = nil
		}
	}()
	u.log.once.Do(func() { u.log.err = r.settled(w, u.log) })
	if u.log.err != nil || u.kind == kindSettled {
		return u.log.err
	}
	if l := u.log.journal; l != nil && l.batches {
		u.cover = l.addCover
	}
	u.found = func(pos int64, info segstore.BatchInfo) error {
		return r.references(w, pos, info, u.log.id, u.name, u.log.settled)
	}
	return r.file(w, u.name, u.size, func(rep *fileReport) error {
		return verifySegment(w, u.segmentFile, u.log.settled, rep)
	})
}

// settled loads the settled set of a log: its file's, and the journal's.
func (r *run) settled(w *window, log *logState) error {
	log.settled = new(settledSet)
	defer func() {
		if l := log.journal; l != nil {
			log.settled.merge(l.settled)
			log.settled.normalise()
			l.settled = log.settled
		}
	}()
	if !log.hasSettled {
		return nil
	}
	name := path.Join(LogDir(log.id), segstore.SettledName)
	return r.file(w, name, log.settledBytes, func(rep *fileReport) error {
		set, err := verifySettled(w, log.id, log.settledBytes, rep)
		log.settled = set
		return err
	})
}

// file opens a file, runs check on it and adds its results to the report. A
// file that cannot be read is a finding; only the end of the context is an
// error.
func (r *run) file(w *window, name string, size int64, check func(rep *fileReport) error) error {
	rep := &fileReport{file: name}
	err := withFile(r.fsys, name, func(f io.ReaderAt) error {
		w.open(f, size)
		return check(rep)
	})
	if ctxErr := w.ctx.Err(); ctxErr != nil {
		return ctxErr
	}
	if err != nil {
		rep.unreadable(err)
	}
	w.count(size)
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, isSegment := segstore.ParseSegmentName(path.Base(name)); isSegment {
		r.report.Segments++
	}
	r.report.merge(rep)
	return nil
}

// withFile opens a file of fsys for reading at positions.
func withFile(fsys fs.FS, name string, use func(io.ReaderAt) error) error {
	f, err := fsys.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	at, ok := f.(io.ReaderAt)
	if !ok {
		return fmt.Errorf("inspect: %s cannot be read at positions", name)
	}
	return use(at)
}
