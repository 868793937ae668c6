package sim

import (
	"fmt"
	"io"
	"path"
)

// Stats counts since the Disk was made; after PowerCut and Kill at zero again.
type Stats struct {
	BytesWritten int64 // by writes, also those that failed
	BytesRead    int64
	BytesSynced  int64 // written bytes that a successful Sync made durable
	Syncs        int64 // successful ones
	SyncsFailed  int64
}

// Stats returns the counters.
func (d *Disk) Stats() Stats {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.stats
}

// Files lists the paths of all files in order, as the process sees them. Like
// all introspection it works after a crash and meets no faults.
func (d *Disk) Files() []string {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	var paths []string
	eachFile(d.root, "", func(name string, _ *node) { paths = append(paths, path.Clean(name)) })
	return paths
}

// ReadFile returns the content of a file as the process sees it.
func (d *Disk) ReadFile(name string) ([]byte, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	n, err := d.findFile(name)
	if err != nil {
		return nil, pathError("read", name, err)
	}
	return n.live.bytes(), nil
}

// Allocated is the space a file takes in bytes, whole blocks, without holes.
func (d *Disk) Allocated(name string) (int64, error) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	n, err := d.findFile(name)
	if err != nil {
		return 0, pathError("stat", name, err)
	}
	return int64(len(n.live.pages)) * pageBytes, nil
}

// Used is the space all files take in bytes, removed ones still open included.
func (d *Disk) Used() int64 {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	return d.usedPages * pageBytes
}

// logEntriesMax bounds the log: the end of a history is what explains it.
const logEntriesMax = 2048

// logEntry is one operation as it ended.
type logEntry struct {
	call        Call
	path, to    string
	pos, length int64
	moved       int
	err         error
}

func (d *Disk) note(e logEntry) {
	if len(d.log) < logEntriesMax {
		d.log = append(d.log, e)
	} else {
		d.log[d.logged%logEntriesMax] = e
	}
	d.logged++
}

// DumpLog writes the last operations, one a line, oldest first.
func (d *Disk) DumpLog(w io.Writer) error {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	first := max(0, d.logged-logEntriesMax)
	for number := first; number < d.logged; number++ {
		if _, err := fmt.Fprintf(w, "%d %v\n", number, d.log[number%logEntriesMax]); err != nil {
			return err
		}
	}
	return nil
}

// String is the line of the log without its number.
func (e logEntry) String() string {
	line := fmt.Sprintf("%v %s", e.call, e.path)
	switch {
	case e.to != "":
		line += " to " + e.to
	case e.call == CallTruncate:
		line += fmt.Sprintf(" at %d", e.pos)
	case e.call&(CallWrite|CallRead) != 0:
		line += fmt.Sprintf(" at %d, %d of %d bytes", e.pos, e.moved, e.length)
	case e.call == CallPunch:
		line += fmt.Sprintf(" at %d, %d bytes", e.pos, e.length)
	}
	if e.err != nil {
		line += ": " + e.err.Error()
	}
	return line
}
