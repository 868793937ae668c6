package suite

import (
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/stats"
)

// addDerived adds the figures that are made of two others which were measured.
func addDerived(s *results.Suite) {
	for _, d := range derived {
		first, second := s.Find(d.first), s.Find(d.second)
		if first == nil || second == nil {
			continue
		}
		s.Figures = append(s.Figures, results.Figure{
			Name: d.name, Section: first.Section, Value: stats.Ratio(first.Value, second.Value), Better: d.better,
		})
	}
}

// addFractions sets figures against the suite's own yardsticks, the mean of
// before and after, where their scenario has not done so with one measured
// closer to them.
func addFractions(s *results.Suite) {
	for i := range s.Figures {
		figure := &s.Figures[i]
		if figure.Yardstick == "" || figure.Fraction != nil {
			continue
		}
		yardstick := s.FindYardstick(figure.Yardstick)
		if yardstick == nil {
			figure.Yardstick = ""
			continue
		}
		figure.YardstickValue = stats.Mean(yardstick.Before, yardstick.After)
		fraction := stats.Ratio(figure.Value, figure.YardstickValue)
		figure.Fraction = &fraction
	}
}
