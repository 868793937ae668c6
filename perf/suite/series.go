package suite

import (
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
)

// A series has at most seriesMax points: when it is full every second one goes
// and the next are taken half as often.
const (
	seriesMax      = 240
	seriesInterval = 100 * time.Millisecond
)

// memorySeries looks at the broker's memory while a section runs.
type memorySeries struct {
	series results.Series
	stop   chan struct{}
	done   chan struct{}
}

// watchMemory starts looking; nil when there is no process to look at.
func watchMemory(tool Tool, pid int, section string) *memorySeries {
	if pid == 0 {
		return nil
	}
	m := &memorySeries{
		series: results.Series{Name: "rss", Section: section, Unit: "bytes"},
		stop:   make(chan struct{}), done: make(chan struct{}),
	}
	go m.run(tool, pid)
	return m
}

func (m *memorySeries) run(tool Tool, pid int) {
	defer close(m.done)
	began, interval := time.Now(), seriesInterval
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		memory, err := tool.Memory(pid)
		if err != nil {
			return // it has ended
		}
		if m.add(time.Since(began).Seconds(), float64(memory.RSS)) {
			interval *= 2
			ticker.Reset(interval)
		}
		select {
		case <-m.stop:
			return
		case <-ticker.C:
		}
	}
}

// add adds a point; true when the series was thinned out to make room.
func (m *memorySeries) add(at, value float64) (thinned bool) {
	s := &m.series
	if len(s.Values) == seriesMax {
		for i := range seriesMax / 2 {
			s.Seconds[i], s.Values[i] = s.Seconds[2*i], s.Values[2*i]
		}
		s.Seconds, s.Values = s.Seconds[:seriesMax/2], s.Values[:seriesMax/2]
		thinned = true
	}
	s.Seconds, s.Values = append(s.Seconds, at), append(s.Values, value)
	return thinned
}

// end stops looking and returns what was seen, with times since the beginning.
func (m *memorySeries) end() results.Series {
	close(m.stop)
	<-m.done
	return m.series
}
