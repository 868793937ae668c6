package stats

import (
	"math"
	"slices"
)

// Median of the values; 0 when there are none.
func Median(values []float64) float64 {
	return medianOfSorted(slices.Sorted(slices.Values(values)))
}

func medianOfSorted(sorted []float64) float64 {
	middle := len(sorted) / 2
	switch {
	case len(sorted) == 0:
		return 0
	case len(sorted)%2 == 1:
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// Mean of the values; 0 when there are none.
func Mean(values ...float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	return Ratio(sum, float64(len(values)))
}

// Ratio is a/b, or 0 where there is no b: NaN and infinity never reach a
// result, JSON has neither.
func Ratio(a, b float64) float64 {
	if b == 0 || math.IsNaN(b) {
		return 0
	}
	return a / b
}

// Spread is the distance from the least to the most, by the median.
func Spread(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	return Ratio(slices.Max(values)-slices.Min(values), Median(values))
}

// Logs returns the logarithms of values, all of which must be above 0; ok is
// false when one is not.
func Logs(values []float64) (logs []float64, ok bool) {
	logs = make([]float64, len(values))
	for i, value := range values {
		if !(value > 0) || math.IsInf(value, 1) {
			return nil, false
		}
		logs[i] = math.Log(value)
	}
	return logs, true
}

// Interval is an estimate and the range that holds the true value with the
// confidence that was asked for.
type Interval struct{ Low, Middle, High float64 }

// Exp turns an interval of a shift of logarithms into one of a ratio.
func (i Interval) Exp() Interval {
	return Interval{Low: math.Exp(i.Low), Middle: math.Exp(i.Middle), High: math.Exp(i.High)}
}
