package stats

// Series are the samples of one object, oldest first: a ring of rows. Guarded by
// the sampler's lock.
type Series struct {
	schema  Schema
	rowsMax int
	times   []int64  // ms
	rows    []uint64 // len(times) times len(schema)
	first   int      // index of the oldest, once the ring is full
	asked   int64    // ms, when somebody last wanted to know; 0: kept always
	last    Point    // what the latest row was made of
}

// add appends a sample, over the oldest one when the ring is full. Two in the
// same millisecond are one.
func (s *Series) add(now int64, p *Point) {
	s.last = *p
	n := len(s.times)
	width := len(s.schema)
	at := n
	switch {
	case n > 0 && s.timeOf(n-1) >= now:
		at = s.index(n - 1)
	case n < s.rowsMax:
		s.times = append(s.times, now)
		s.rows = append(s.rows, make([]uint64, width)...)
	default:
		at = s.first
		s.first = (s.first + 1) % n
	}
	s.times[at] = max(now, s.times[at])
	row := s.rows[at*width:]
	for i, f := range s.schema {
		row[i] = p.Value(f)
	}
}

// index is where the i-th sample is, counted from the oldest.
func (s *Series) index(i int) int { return (s.first + i) % len(s.times) }

func (s *Series) timeOf(i int) int64 { return s.times[s.index(i)] }

func (s *Series) valueOf(i, column int) uint64 { return s.rows[s.index(i)*len(s.schema)+column] }

// Sample is the value of a figure at a time, as RabbitMQ's API shows it.
type Sample struct {
	Value uint64 `json:"sample"`
	At    int64  `json:"timestamp"` // ms
}

// Details are how a figure changes, as RabbitMQ's API shows it.
type Details struct {
	Rate    float64  `json:"rate"` // per second, in the last interval
	Samples []Sample `json:"samples,omitempty"`
	AvgRate *float64 `json:"avg_rate,omitempty"` // over the samples
	Avg     *float64 `json:"avg,omitempty"`
}

// Span asks for samples: as far back as Age, one for each Increment, both in
// seconds. The zero Span asks for none.
type Span struct{ Age, Increment int64 }

// samplesMax bounds the samples of one figure.
const samplesMax = 1000

// details works out a figure.
func (s *Series) details(f Figure, span Span) (d Details) {
	column, n := s.schema.at(f), len(s.times)
	if column < 0 || n == 0 {
		return d
	}
	if n > 1 {
		d.Rate = rate(s.valueOf(n-2, column), s.valueOf(n-1, column), s.timeOf(n-1)-s.timeOf(n-2))
	}
	if span.Age <= 0 || span.Increment <= 0 {
		return d
	}
	at := n - 1
	newest := s.timeOf(at)
	sum := 0.0
	for back := int64(0); back <= span.Age && len(d.Samples) < samplesMax; back += span.Increment {
		t := newest - back*1000
		for at >= 0 && s.timeOf(at) > t {
			at--
		}
		if at < 0 {
			break
		}
		v := s.valueOf(at, column)
		d.Samples = append(d.Samples, Sample{v, t})
		sum += float64(v)
	}
	oldest := d.Samples[len(d.Samples)-1]
	perSecond := rate(oldest.Value, d.Samples[0].Value, newest-oldest.At)
	average := sum / float64(len(d.Samples))
	d.AvgRate, d.Avg = &perSecond, &average
	return d
}

// rate is how fast a figure went from one value to another; lengths may fall.
func rate(from, to uint64, ms int64) float64 {
	if ms <= 0 {
		return 0
	}
	return (float64(to) - float64(from)) * 1000 / float64(ms)
}
