package gate

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"math"

	"github.com/basaltmq/basaltmq/perf/results"
)

// Rules say when a broker got worse.
type Rules struct {
	Alpha        float64     `json:"alpha"`      // chance of so large a loss below which it is one
	Confidence   float64     `json:"confidence"` // of the intervals
	PairsAtLeast int         `json:"pairs_at_least"`
	PairsAtMost  int         `json:"pairs_at_most"`
	Figures      []Threshold `json:"figures"`
}

// Threshold is what a figure may lose. Losses are fractions of the baseline.
type Threshold struct {
	Figure  string  `json:"figure"`
	What    string  `json:"what"`
	Unit    string  `json:"unit,omitempty"`
	Better  string  `json:"better"`
	Limit   float64 `json:"limit"`             // a larger loss fails, if chance does not explain it
	Exclude float64 `json:"exclude"`           // a loss that has to be excluded to pass
	Floor   float64 `json:"floor,omitempty"`   // smaller differences of the values are none
	Ceiling float64 `json:"ceiling,omitempty"` // a larger median fails, whatever the baseline has

	// CeilingOnly: of the candidate alone, and nothing but the ceiling counts.
	CeilingOnly bool `json:"ceiling_only,omitempty"`

	Recorded     bool `json:"recorded,omitempty"` // means something against a recorded baseline
	RecordedOnly bool `json:"recorded_only,omitempty"`
}

//go:embed thresholds.json
var thresholdsJSON []byte

// DefaultRules are those of thresholds.json.
var DefaultRules = func() (rules Rules) {
	decoder := json.NewDecoder(bytes.NewReader(thresholdsJSON))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&rules); err != nil {
		panic("perf/gate: thresholds.json: " + err.Error()) // compiled in: a test would have failed
	}
	return rules
}()

// For returns the rules with the figures of one kind of comparison.
func (r Rules) For(recorded bool) Rules {
	var chosen []Threshold
	for _, t := range r.Figures {
		if recorded && t.Recorded || !recorded && !t.RecordedOnly {
			chosen = append(chosen, t)
		}
	}
	r.Figures = chosen
	return r
}

// loss is by how much the candidate is worse, as a logarithm, so that losses
// and gains are symmetric: above 0 is worse.
func (t Threshold) loss(baseline, candidate float64) float64 {
	if math.Abs(baseline-candidate) <= t.Floor {
		return 0
	}
	// A figure of 0 is as good as the smallest that counts.
	baseline, candidate = max(baseline, t.Floor, tiny), max(candidate, t.Floor, tiny)
	if t.Better == results.More {
		return math.Log(baseline / candidate)
	}
	return math.Log(candidate / baseline)
}

const tiny = 1e-9

// bound turns a fraction lost into a loss.
func (t Threshold) bound(fraction float64) float64 {
	if t.Better == results.More {
		return -math.Log(1 - fraction)
	}
	return math.Log(1 + fraction)
}

// fraction turns a loss into a fraction lost.
func (t Threshold) fraction(loss float64) float64 {
	if t.Better == results.More {
		return 1 - math.Exp(-loss)
	}
	return math.Exp(loss) - 1
}
