package bodies

import "sync/atomic"

// Flow is one connection's part of what is on its way to the disk.
type Flow struct {
	store   *Store
	resume  func()
	bytes   atomic.Int64
	waiting atomic.Bool
}

// NewFlow makes a Flow. resume is called, from any goroutine, once after each
// Full that returned true; it must only post.
func (s *Store) NewFlow(resume func()) *Flow { return &Flow{store: s, resume: resume} }

// Full says that no more should be written for now.
func (f *Flow) Full() bool {
	if !f.full() {
		return false
	}
	f.waiting.Store(true)
	if f.low() && f.waiting.CompareAndSwap(true, false) {
		return false // the last write ended meanwhile, and may not have seen it
	}
	return true
}

func (f *Flow) full() bool {
	bytes := f.bytes.Load()
	return bytes > flowBytesMax || bytes > 0 && f.store.writing.Load() > writingBytesMax
}

func (f *Flow) low() bool {
	bytes := f.bytes.Load()
	return bytes == 0 || bytes <= flowBytesLow && f.store.writing.Load() <= writingBytesMax
}

func (f *Flow) add(bytes int64) {
	f.bytes.Add(bytes)
	f.store.writing.Add(bytes)
}

func (f *Flow) done(bytes int64) {
	f.store.writing.Add(-bytes)
	f.bytes.Add(-bytes)
	if f.waiting.Load() && f.low() && f.waiting.CompareAndSwap(true, false) {
		f.resume()
	}
}
