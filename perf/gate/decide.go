package gate

import "github.com/basaltmq/basaltmq/perf/stats"

// Decisions about a figure.
const (
	Fine    = "fine"
	Worse   = "worse"
	Unclear = "unclear" // neither a loss nor its absence is certain
)

// Samples are the values of a figure on both sides. With pairs the values of
// the same index were measured next to each other.
type Samples struct {
	Baseline  []float64 `json:"baseline"`
	Candidate []float64 `json:"candidate"`
}

// FigureVerdict is what is known about one figure. Losses are fractions of the
// baseline; below 0 is a gain.
type FigureVerdict struct {
	Threshold
	Samples
	MedianBaseline  float64 `json:"median_baseline"`
	MedianCandidate float64 `json:"median_candidate"`
	Loss            float64 `json:"loss"`
	LossLow         float64 `json:"loss_low"`
	LossHigh        float64 `json:"loss_high"`
	P               float64 `json:"p"` // of a loss like this by chance
	Decision        string  `json:"decision"`
}

// decide judges one figure.
func (r Rules) decide(t Threshold, s Samples, paired bool) FigureVerdict {
	v := FigureVerdict{
		Threshold: t, Samples: s,
		MedianBaseline: stats.Median(s.Baseline), MedianCandidate: stats.Median(s.Candidate), Decision: Unclear, P: 1,
	}
	switch {
	case t.CeilingOnly && v.aboveCeiling():
		v.Decision = Worse
		return v
	case t.CeilingOnly && len(s.Candidate) > 0:
		v.Decision = Fine
		return v
	case len(s.Baseline) == 0 || len(s.Candidate) == 0:
		return v
	}
	var interval stats.Interval
	if paired {
		losses := make([]float64, len(s.Baseline))
		gains := make([]float64, len(s.Baseline))
		for i := range losses {
			losses[i] = t.loss(s.Baseline[i], s.Candidate[i])
			gains[i] = -losses[i]
		}
		interval, v.P = stats.PairedInterval(losses, r.Confidence), stats.SignedRank(gains)
	} else {
		interval, v.P = r.unpaired(t, s)
	}
	v.Loss, v.LossLow, v.LossHigh = t.fraction(interval.Middle), t.fraction(interval.Low), t.fraction(interval.High)
	switch {
	case v.aboveCeiling():
		v.Decision = Worse
	case interval.Middle > t.bound(t.Limit) && v.P <= r.Alpha:
		v.Decision = Worse
	case interval.High < t.bound(t.Exclude):
		v.Decision = Fine
	}
	return v
}

// aboveCeiling says whether the candidate is worse than is allowed at all.
func (v FigureVerdict) aboveCeiling() bool { return v.Ceiling > 0 && v.MedianCandidate > v.Ceiling }

// unpaired compares all with all. The test asks in both directions; a loss is
// one of them.
func (r Rules) unpaired(t Threshold, s Samples) (stats.Interval, float64) {
	middle := stats.Median(s.Baseline)
	zero := make([]float64, len(s.Baseline))
	candidate := make([]float64, len(s.Candidate))
	for i, value := range s.Baseline {
		zero[i] = t.loss(middle, value)
	}
	for i, value := range s.Candidate {
		candidate[i] = t.loss(middle, value)
	}
	interval := stats.ShiftInterval(zero, candidate, r.Confidence)
	p := stats.MannWhitney(zero, candidate) / 2
	if interval.Middle <= 0 {
		p = 1 - p
	}
	return interval, p
}

// Decide judges all figures.
func (r Rules) Decide(samples map[string]Samples, paired bool) []FigureVerdict {
	verdicts := make([]FigureVerdict, len(r.Figures))
	for i, t := range r.Figures {
		verdicts[i] = r.decide(t, samples[t.Figure], paired)
	}
	return verdicts
}

// count returns how many figures have a decision.
func count(verdicts []FigureVerdict, decision string) (n int) {
	for _, v := range verdicts {
		if v.Decision == decision {
			n++
		}
	}
	return n
}
