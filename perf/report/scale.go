package report

import (
	"fmt"
	"math"

	"github.com/basaltmq/basaltmq/perf/results"
)

// scale maps values to pixels.
type scale struct {
	logarithmic bool
	binary      bool    // linear, with steps that are powers of 2: sizes of memory
	low, high   float64 // values at the ends
	from, to    float64 // pixels at the ends
}

func (s scale) at(value float64) float64 {
	low, high := s.low, s.high
	if s.logarithmic {
		value, low, high = math.Log(value), math.Log(low), math.Log(high)
	}
	if high == low {
		return (s.from + s.to) / 2
	}
	return s.from + (value-low)/(high-low)*(s.to-s.from)
}

// drawable reports whether a value has a place.
func (s scale) drawable(value float64) bool {
	return !math.IsNaN(value) && !math.IsInf(value, 0) && (!s.logarithmic || value > 0)
}

// tick is a line across the chart with a text.
type tick struct {
	at   float64
	text string
}

// niceTicks widens the ends to round values and returns those between. A
// linear scale begins at 0 if nothing is below.
func (s *scale) niceTicks(format func(float64) string) (ticks []tick) {
	if s.logarithmic {
		first, last := math.Floor(math.Log10(s.low)+1e-9), math.Ceil(math.Log10(s.high)-1e-9)
		if last <= first {
			last = first + 1
		}
		s.low, s.high = math.Pow(10, first), math.Pow(10, last)
		stride := math.Ceil((last - first) / 8)
		for exponent := first; exponent <= last; exponent += stride {
			value := math.Pow(10, exponent)
			ticks = append(ticks, tick{value, format(value)})
		}
		return ticks
	}
	s.low = min(s.low, 0)
	if s.high <= s.low {
		s.high = s.low + 1
	}
	step := niceStep((s.high - s.low) / 5)
	if s.binary {
		step = math.Exp2(math.Ceil(math.Log2((s.high - s.low) / 6)))
	}
	first, last := math.Floor(s.low/step), math.Ceil(s.high/step-1e-9)
	s.low, s.high = first*step, last*step
	for i := first; i <= last; i++ {
		ticks = append(ticks, tick{i * step, format(i * step)})
	}
	return ticks
}

// niceStep is the next of 1, 2, 5, 10, 20 … from a value up.
func niceStep(value float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(value)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= value*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// Formats of ticks.
func countTick(value float64) string {
	switch {
	case value >= 1e9:
		return fmt.Sprintf("%.3g G", value/1e9)
	case value >= 1e6:
		return fmt.Sprintf("%.3g M", value/1e6)
	case value >= 1e3:
		return fmt.Sprintf("%.3g k", value/1e3)
	}
	return fmt.Sprintf("%.3g", value)
}

func bytesTick(value float64) string { return results.HumanBytes(uint64(max(value, 0))) }

func microsecondsTick(value float64) string {
	switch {
	case value >= 1e6:
		return fmt.Sprintf("%.3g s", value/1e6)
	case value >= 1e3:
		return fmt.Sprintf("%.3g ms", value/1e3)
	}
	return fmt.Sprintf("%.3g µs", value)
}
