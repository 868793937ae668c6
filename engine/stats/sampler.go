package stats

import (
	"sync"
	"time"
)

// Sampler keeps samples of objects, by any comparable key that stands for one:
// of some always (Keep), of others only while somebody asks (Watch): what was not
// asked for in a minute is forgotten. Any goroutine.
type Sampler struct {
	mu      sync.Mutex
	series  map[any]*Series
	watched int // those that are not kept always
}

const (
	// Interval is how often samples are taken.
	Interval = 5 * time.Second
	// forgetAfter is how long an object is sampled after the last question, in ms.
	forgetAfter = 60_000
	// watchedMax bounds the objects that are watched; of those beyond, rates are
	// not known. One takes up to 5 KiB.
	watchedMax = 2000

	watchedRows = 25  // two minutes
	keptRows    = 121 // ten minutes
)

// NewSampler makes a Sampler.
func NewSampler() *Sampler { return &Sampler{series: map[any]*Series{}} }

// Keep samples an object from now on.
func (s *Sampler) Keep(key any, of Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.series[key] == nil {
		s.series[key] = &Series{schema: of, rowsMax: keptRows}
	}
}

// Drop forgets an object.
func (s *Sampler) Drop(key any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.series[key]; old != nil {
		if old.asked > 0 {
			s.watched--
		}
		delete(s.series, key)
	}
}

// View is what is known of an object: its present state, and samples.
type View struct {
	Point  Point
	s      *Sampler
	series *Series // nil: not sampled
}

// Watch says that somebody wants to know of an object whose present state is p.
func (s *Sampler) Watch(key any, of Schema, p Point, now int64) View {
	s.mu.Lock()
	defer s.mu.Unlock()
	series := s.series[key]
	if series == nil && s.watched < watchedMax {
		series = &Series{schema: of, rowsMax: watchedRows, asked: now}
		series.add(now, &p)
		s.series[key] = series
		s.watched++
	}
	if series != nil && series.asked > 0 {
		series.asked = now
	}
	return View{p, s, series}
}

// Known returns what is known of a kept object, as of its last sample.
func (s *Sampler) Known(key any) View {
	s.mu.Lock()
	defer s.mu.Unlock()
	if series := s.series[key]; series != nil {
		return View{series.last, s, series}
	}
	return View{}
}

// Outcome is what a look at an object had.
type Outcome uint8

// Outcomes.
const (
	Seen    Outcome = iota
	Unknown         // this time
	Gone            // for good
)

// Tick takes a sample of each object; look returns its state. It is called
// without locks.
func (s *Sampler) Tick(now int64, look func(key any) (Point, Outcome)) {
	s.mu.Lock()
	keys := make([]any, 0, len(s.series))
	for key, series := range s.series {
		if series.asked > 0 && now-series.asked > forgetAfter {
			delete(s.series, key)
			s.watched--
			continue
		}
		keys = append(keys, key)
	}
	s.mu.Unlock()
	for _, key := range keys {
		p, outcome := look(key)
		switch outcome {
		case Unknown:
			continue
		case Gone:
			s.Drop(key)
			continue
		}
		s.mu.Lock()
		if series := s.series[key]; series != nil {
			series.add(now, &p)
		}
		s.mu.Unlock()
	}
}

// Details returns how a figure changes.
func (v View) Details(f Figure, span Span) Details {
	if v.series == nil {
		return Details{}
	}
	v.s.mu.Lock()
	defer v.s.mu.Unlock()
	return v.series.details(f, span)
}
