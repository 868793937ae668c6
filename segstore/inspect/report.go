package inspect

import (
	"cmp"
	"fmt"
	"slices"
)

// Level says how bad a finding is; see the package comment.
type Level string

const (
	Damage     Level = "damage"
	Unreadable Level = "unreadable"
	Unfinished Level = "unfinished"
	Note       Level = "note"
)

// WholeFile is the Pos of a finding about a whole file.
const WholeFile = -1

// Finding is one thing that is not as it should be.
type Finding struct {
	Level Level  `json:"level"`
	File  string `json:"file"`            // relative to the data directory, with slashes
	Pos   int64  `json:"pos"`             // byte position, WholeFile if it is about all of it
	Bytes int64  `json:"bytes,omitempty"` // how many from there, 0 if that says nothing
	Text  string `json:"text"`
}

// findingsPerFileMax bounds what is kept of one file: a disk that returned
// garbage should not bury the other files.
const findingsPerFileMax = 20

// Report is what Verify found.
type Report struct {
	CleanStop   bool      `json:"clean_stop"` // the broker stopped in good order: nothing should be unfinished
	Logs        int       `json:"logs"`
	Segments    int       `json:"segments"`
	Sealed      int       `json:"sealed_segments"`
	Batches     uint64    `json:"batches"`
	Records     uint64    `json:"records"`
	Unsettled   uint64    `json:"unsettled"` // records not settled, of good batches
	Holes       int       `json:"holes"`     // in segments, where the space of settled batches was given back
	HoleBytes   uint64    `json:"hole_bytes"`
	Bodies      int       `json:"bodies"` // of large messages that are not settled
	Bytes       int64     `json:"bytes"`  // of all files that were checked
	Journal     Journaled `json:"journal"`
	Findings    []Finding `json:"findings"`               // sorted by file and position
	NotReported int       `json:"not_reported,omitempty"` // findings beyond findingsPerFileMax
	LogIDs      []uint64  `json:"-"`                      // logs that own a directory, or unsettled records in the journal; ascending
}

// Journaled is what the journal holds that counts at the next start. Records and
// batches that are there and in no segment are among the totals of Report too.
type Journaled struct {
	Files   int    `json:"files"` // also those that do not count
	Groups  int    `json:"groups"`
	Entries uint64 `json:"entries"`
	Meta    uint64 `json:"meta_records"`
	Records uint64 `json:"records"` // in no segment
}

// Count is the number of findings of a level; damage that was not kept counts
// as damage.
func (r *Report) Count(level Level) int {
	n := 0
	for _, f := range r.Findings {
		if f.Level == level {
			n++
		}
	}
	if level == Damage {
		n += r.NotReported
	}
	return n
}

// Add appends a finding of somebody who checked another file, keeping the order.
func (r *Report) Add(f Finding) {
	r.Findings = append(r.Findings, f)
	r.sort()
}

func (r *Report) sort() {
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Pos, b.Pos), cmp.Compare(a.Text, b.Text))
	})
}

// fileReport collects what one file gave. Used by one goroutine.
type fileReport struct {
	file        string
	findings    []Finding
	notReported int
	sealed      bool
	batches     uint64
	records     uint64
	unsettled   uint64
	holes       int
	holeBytes   uint64
}

func (r *fileReport) add(level Level, pos, bytes int64, format string, args ...any) {
	if len(r.findings) >= findingsPerFileMax {
		r.notReported++
		return
	}
	r.findings = append(r.findings, Finding{Level: level, File: r.file, Pos: pos, Bytes: bytes, Text: fmt.Sprintf(format, args...)})
}

// merge adds a file's results to the report.
func (r *Report) merge(f *fileReport) {
	r.Findings = append(r.Findings, f.findings...)
	r.NotReported += f.notReported
	if f.sealed {
		r.Sealed++
	}
	r.Batches += f.batches
	r.Records += f.records
	r.Unsettled += f.unsettled
	r.Holes += f.holes
	r.HoleBytes += f.holeBytes
}
