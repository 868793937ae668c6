package segstore

import (
	"maps"
	"slices"
	"sync"
)

// Segments are how much of the logs is in segment files.
type Segments struct {
	Files int
	// Bytes are the sizes of the files, but for the indexes at their ends. Holes of
	// what was settled count; the file system has their blocks back.
	Bytes int64
}

// logLists are for Segments: a list of many logs is not to be made for each call.
var logLists = sync.Pool{New: func() any { return new([]*Log) }}

// Segments looks at each log, under its lock for as long as counting takes. Any
// goroutine that holds no locks.
func (s *Store) Segments() (all Segments) {
	list := logLists.Get().(*[]*Log)
	defer logLists.Put(list)
	s.mu.Lock()
	*list = slices.AppendSeq(slices.Grow(*list, len(s.logs)), maps.Values(s.logs))
	s.mu.Unlock()
	for _, l := range *list {
		l.mu.Lock()
		all.Files += len(l.segments)
		for _, seg := range l.segments {
			all.Bytes += seg.size
		}
		l.mu.Unlock()
	}
	clear(*list)
	*list = (*list)[:0]
	return all
}
