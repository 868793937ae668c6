package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
)

// The bodies of large messages are in files of their own (package bodies); what
// a record has instead is a reference. Which records those are, the owner of the
// properties says (Options.External). Segments and journal are read first, and
// give the references; then the files are compared with them.

// bodyDir is what is known of the bodies of one log.
type bodyDir struct {
	id    uint64
	files map[uint64]int64 // sizes by body id

	unlisted bool // nobody knows which files there are

	mu   sync.Mutex
	refs map[uint64]bodyRef // by body id
}

// bodyRef is a reference, and where it was found.
type bodyRef struct {
	bodies.Ref
	offset  uint64
	file    string
	settled bool
}

// BodyDir is the directory of the large bodies of a log, relative to the data
// directory.
func BodyDir(id uint64) string { return fmt.Sprintf("%s/%016x", bodies.DurableDir, id) }

// BodyFile is the file that a log's reference names.
func BodyFile(log uint64, ref bodies.Ref) string {
	return fmt.Sprintf("%s/%016x", BodyDir(log), ref.ID)
}

// ErrBody is a body that is not what its reference says.
var ErrBody = errors.New("inspect: the body")

// ReadBody returns the first bytes of a body, all of it if most is 0; then its
// checksum is compared too. The error is ErrBody, or a failed read.
func ReadBody(fsys fs.FS, log uint64, ref bodies.Ref, most uint64) (data []byte, err error) {
	name := BodyFile(log, ref)
	info, err := fs.Stat(fsys, name)
	switch {
	case isMissing(err):
		return nil, fmt.Errorf("%w is missing", ErrBody)
	case err != nil:
		return nil, plainError(err)
	case uint64(info.Size()) != ref.Size:
		return nil, fmt.Errorf("%w has %d bytes instead of %d", ErrBody, info.Size(), ref.Size)
	}
	size := ref.Size
	if most > 0 {
		size = min(size, most)
	}
	data = make([]byte, size) // the file is as long
	err = withFile(fsys, name, func(f io.ReaderAt) error {
		_, err := io.ReadFull(io.NewSectionReader(f, 0, int64(size)), data)
		return err
	})
	switch {
	case err != nil:
		return nil, plainError(err)
	case size == ref.Size && crc32.Checksum(data, castagnoli) != ref.Sum:
		return data, fmt.Errorf("%w does not have the checksum of its message", ErrBody)
	}
	return data, nil
}

// lookBodies surveys bodies/.
func (s *survey) lookBodies() {
	for _, e := range s.readDir(bodies.DurableDir) {
		name := path.Join(bodies.DurableDir, e.Name())
		id, err := strconv.ParseUint(e.Name(), 16, 64)
		if err != nil || BodyDir(id) != name {
			s.note(Note, name, "not a directory of message bodies; the broker leaves it alone")
			continue
		}
		d := &bodyDir{id: id, files: map[uint64]int64{}}
		s.bodies[id] = d
		entries, err := fs.ReadDir(s.fsys, name)
		if err != nil {
			d.unlisted = true
			s.note(readLevel(err), name, "the large bodies of a queue cannot be listed: %v; the broker starts, and the queue is closed until they can", plainError(err))
		}
		for _, e := range entries {
			file := path.Join(name, e.Name())
			body, err := strconv.ParseUint(e.Name(), 16, 64)
			if err != nil || !e.Type().IsRegular() || BodyFile(id, bodies.Ref{ID: body}) != file {
				s.note(Note, file, "not a message body; the broker leaves it alone")
				continue
			}
			if size, ok := s.size(file, e); ok {
				d.files[body] = size
				s.bodyFiles++
				s.bytes += size
			}
		}
	}
}

// bodiesOf returns what is known of a log's bodies.
func (r *run) bodiesOf(id uint64) *bodyDir {
	r.mu.Lock()
	defer r.mu.Unlock()
	d := r.bodies[id]
	if d == nil {
		d = &bodyDir{id: id}
		r.bodies[id] = d
	}
	return d
}

// references notes the references of the verified batch at pos. A batch beyond
// the window has none: it is one record, whose body is there.
func (r *run) references(w *window, pos int64, info segstore.BatchInfo, log uint64, file string, settled *settledSet) error {
	if r.external == nil || info.Bytes > windowBytes {
		return nil
	}
	data, err := w.at(pos, int(info.Bytes))
	if err != nil {
		return err
	}
	external := func(t segstore.Template) bool { return r.external(t.Properties) }
	if !segstore.AnyTemplate(data, external) {
		return nil
	}
	segstore.WalkBatch(data, func(rec segstore.Record, t segstore.Template) bool {
		if !external(t) {
			return true
		}
		if ref, ok := bodies.DecodeRef(rec.Body); ok {
			d := r.bodiesOf(log)
			d.mu.Lock()
			if d.refs == nil {
				d.refs = map[uint64]bodyRef{}
			}
			d.refs[ref.ID] = bodyRef{ref, rec.Offset, file, settled.has(rec.Offset)}
			d.mu.Unlock()
		}
		return true
	})
	return nil
}

// bodyTask is one reference to be compared with its file.
type bodyTask struct {
	dir *bodyDir
	ref bodyRef
}

// checkBodies compares references and files.
func (r *run) checkBodies(ctx context.Context, workers int) error {
	if r.external == nil {
		return nil
	}
	var tasks []bodyTask
	for _, id := range slices.Sorted(maps.Keys(r.bodies)) {
		d := r.bodies[id]
		if d.unlisted {
			continue // what is missing is not known
		}
		for ref := range maps.Values(d.refs) {
			if !ref.settled {
				tasks = append(tasks, bodyTask{d, ref})
			}
		}
		r.unclaimed(d)
	}
	slices.SortFunc(tasks, func(a, b bodyTask) int {
		return cmp.Or(cmp.Compare(a.dir.id, b.dir.id), cmp.Compare(a.ref.offset, b.ref.offset))
	})
	bad := make([]Finding, len(tasks))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(workers, len(tasks)) {
		group.Go(func() {
			w := &window{ctx: ctx, progress: r.progress}
			for i := next.Add(1) - 1; i < int64(len(tasks)) && r.failed() == nil; i = next.Add(1) - 1 {
				var err error
				if bad[i], err = r.body(w, &tasks[i]); err != nil {
					r.fail(err)
				}
				r.progress.files.Add(1)
			}
		})
	}
	group.Wait()
	r.report.Bodies = len(tasks)
	r.addBounded(tasks, bad)
	return r.err
}

// unclaimed reports files that no message refers to.
func (r *run) unclaimed(d *bodyDir) {
	files, bytes, first := 0, int64(0), ^uint64(0)
	for id, size := range d.files {
		if ref, ok := d.refs[id]; !ok || ref.settled {
			files, bytes, first = files+1, bytes+size, min(first, id)
		}
	}
	if files > 0 {
		r.progress.add(bytes)
		r.progress.files.Add(int64(files))
		r.report.Findings = append(r.report.Findings, Finding{Level: Note, File: BodyDir(d.id), Pos: WholeFile, Bytes: bytes,
			Text: fmt.Sprintf("no message that is left refers to %d bodies of %d bytes in all, such as %016x: the broker removes them after its next start", files, bytes, first)})
	}
}

// addBounded adds at most findingsPerFileMax findings of each directory.
func (r *run) addBounded(tasks []bodyTask, bad []Finding) {
	for at := 0; at < len(tasks); {
		end, kept, more := at, 0, Finding{Level: Unfinished, File: BodyDir(tasks[at].dir.id), Pos: WholeFile}
		beyond := 0
		for ; end < len(tasks) && tasks[end].dir == tasks[at].dir; end++ {
			switch {
			case bad[end].Level == "":
			case kept < findingsPerFileMax:
				kept++
				r.report.Findings = append(r.report.Findings, bad[end])
			default:
				beyond++
				if bad[end].Level != Unfinished {
					more.Level = bad[end].Level
				}
			}
		}
		if beyond > 0 {
			more.Text = fmt.Sprintf("%d more bodies are missing or not what they should be", beyond)
			r.report.Findings = append(r.report.Findings, more)
		}
		at = end
	}
}

// body compares one file with its reference. A Finding without a level says
// that they agree; the error is the context's.
func (r *run) body(w *window, t *bodyTask) (Finding, error) {
	f := Finding{File: BodyFile(t.dir.id, t.ref.Ref), Pos: WholeFile}
	message := fmt.Sprintf("the message at offset %d (%s)", t.ref.offset, t.ref.file)
	size, exists := t.dir.files[t.ref.ID]
	if !exists {
		// The removal of an acknowledged message's body may survive a crash that
		// the acknowledgement does not.
		f.Level, f.Text = Unfinished, message+" has no body: it was acknowledged just before the crash, or not promised; it is passed over"
		if r.report.CleanStop {
			f.Level, f.Text = Damage, message+" has no body: it is lost, and passed over"
		}
		return f, nil
	}
	torn, text := false, ""
	err := withFile(r.fsys, f.File, func(file io.ReaderAt) error {
		w.open(file, size)
		if uint64(size) != t.ref.Size {
			torn = uint64(size) < t.ref.Size
			text = fmt.Sprintf("%d bytes instead of %d", size, t.ref.Size)
			return nil
		}
		sum := uint32(0)
		for pos := int64(0); pos < size; {
			data, err := w.at(pos, 1)
			if err != nil {
				return err
			}
			sum = crc32.Update(sum, castagnoli, data)
			pos += int64(len(data))
			w.count(pos)
		}
		if sum != t.ref.Sum {
			text = fmt.Sprintf("checksum %08x instead of %08x", sum, t.ref.Sum)
			level, err := w.tornLevel(0, size)
			torn = level == Unfinished
			return err
		}
		return nil
	})
	w.count(size)
	switch ctxErr := w.ctx.Err(); {
	case ctxErr != nil:
		return f, ctxErr
	case err != nil:
		rep := &fileReport{file: f.File}
		rep.unreadable(err)
		return rep.findings[0], nil
	case text == "":
	case torn && !r.report.CleanStop:
		f.Level, f.Text = Unfinished, fmt.Sprintf("%s: the body of %s was not written to its end before a power cut; if it was confirmed as persistent, this is damage", text, message)
	default:
		f.Level, f.Text = Damage, fmt.Sprintf("%s: the body of %s is damaged", text, message)
	}
	return f, nil
}
