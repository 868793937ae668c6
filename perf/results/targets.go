package results

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"

	"github.com/basaltmq/basaltmq/perf/stats"
)

// Target is what a figure is meant to reach. All of them are in targets.json. One
// without a bound is shown beside the others, where it was measured.
type Target struct {
	Figure   string   `json:"figure"`
	What     string   `json:"what"`
	Fraction bool     `json:"fraction"` // of the yardstick; otherwise the value itself
	Unit     string   `json:"unit"`     // of a value
	AtLeast  *float64 `json:"at_least"`
	AtMost   *float64 `json:"at_most"`
	// The target only stands on a machine with such a yardstick.
	Where *struct {
		Yardstick string  `json:"yardstick"`
		AtLeast   float64 `json:"at_least"`
	} `json:"where"`
}

// bound says that there is something to reach.
func (t *Target) bound() bool { return t.AtLeast != nil || t.AtMost != nil }

//go:embed targets.json
var targetsJSON []byte

// Targets returns the headline table's targets, in its order.
var Targets = func() (targets []Target) {
	decoder := json.NewDecoder(bytes.NewReader(targetsJSON))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&targets); err != nil {
		panic("perf/results: targets.json: " + err.Error()) // compiled in: a test would have failed
	}
	return targets
}()

// Outcome is a target and what was measured.
type Outcome struct {
	Target   Target
	Figure   *Figure // nil: not measured
	Measured float64 // what is held against the target
	Known    bool    // there is a Measured, and the target stands on this machine
	Reached  bool
	Note     string // why nothing is known
}

// Outcomes holds a suite against the targets.
func (s *Suite) Outcomes() []Outcome {
	outcomes := make([]Outcome, 0, len(Targets))
	for _, target := range Targets {
		if target.bound() || s.Find(target.Figure) != nil {
			outcomes = append(outcomes, s.outcome(target))
		}
	}
	return outcomes
}

func (s *Suite) outcome(target Target) Outcome {
	o := Outcome{Target: target, Figure: s.Find(target.Figure)}
	if o.Figure == nil {
		o.Note = "not measured"
		for _, left := range s.LeftOut {
			if left.Figure == target.Figure {
				o.Note = "not measured: " + left.Reason
			}
		}
		return o
	}
	if where := target.Where; where != nil {
		yardstick := s.FindYardstick(where.Yardstick)
		if yardstick == nil || stats.Mean(yardstick.Before, yardstick.After) < where.AtLeast {
			o.Note = fmt.Sprintf("this machine's %s is below %s", where.Yardstick, HumanCount(uint64(where.AtLeast)))
			return o
		}
	}
	o.Measured = o.Figure.Value
	if target.Fraction {
		if o.Figure.Fraction == nil {
			o.Note = "the yardstick was not measured"
			return o
		}
		o.Measured = *o.Figure.Fraction
	}
	o.Known = true
	o.Reached = (target.AtLeast == nil || o.Measured >= *target.AtLeast) && (target.AtMost == nil || o.Measured <= *target.AtMost)
	return o
}

// Verdict is the outcome in a word.
func (o Outcome) Verdict() string {
	switch {
	case !o.Known:
		return o.Note
	case !o.Target.bound():
		return "" // only shown
	case o.Reached:
		return "reached"
	}
	return "not reached"
}

// Wanted is the target in words.
func (o Outcome) Wanted() string {
	bound, sign := o.Target.AtLeast, "≥ "
	switch {
	case !o.Target.bound():
		return ""
	case bound == nil:
		bound, sign = o.Target.AtMost, "≤ "
	}
	if o.Target.Fraction {
		yardstick := "yardstick"
		if o.Figure != nil && o.Figure.Yardstick != "" {
			yardstick = o.Figure.Yardstick
		}
		return fmt.Sprintf("%s%.2f of %s", sign, *bound, yardstick)
	}
	return sign + FormatValue(*bound, o.Target.Unit)
}

// FormatValue writes a value of a unit for people: sizes in binary units,
// counts with separators, fractions with two digits.
func FormatValue(value float64, unit string) string {
	switch {
	case unit == "bytes":
		return HumanBytes(uint64(max(value, 0)))
	case unit == "":
		return fmt.Sprintf("%.2f", value)
	case value >= 1000:
		return HumanCount(uint64(value+0.5)) + " " + unit
	case value >= 100:
		return fmt.Sprintf("%.0f %s", value, unit)
	}
	return fmt.Sprintf("%.3g %s", value, unit)
}
