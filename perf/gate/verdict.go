package gate

import (
	"fmt"
	"io"
	"strings"

	"github.com/basaltmq/basaltmq/perf/results"
)

// Result is the JSON result of the gate.
type Result struct {
	results.Head
	Seconds   float64         `json:"seconds"`
	Paired    bool            `json:"paired"`
	Baseline  string          `json:"baseline,omitempty"` // what it was: a version, a file
	Candidate string          `json:"candidate"`
	Runs      int             `json:"runs"` // of each side
	Figures   []FigureVerdict `json:"figures"`
	Passed    bool            `json:"passed"`
	Undecided bool            `json:"undecided,omitempty"` // and nothing was found to be worse
	Verdict   string          `json:"verdict"`             // one line
	Rules     Rules           `json:"rules"`
}

// conclude makes one verdict of those of the figures.
func (r *Result) conclude() {
	if r.Interrupted {
		r.Verdict = "FAIL: interrupted, nothing is decided"
		return
	}
	var worse, unclear []string
	for _, v := range r.Figures {
		text := fmt.Sprintf("%s %s, limit %.0f %%", v.Figure, v.lossText(), 100*v.Limit)
		if v.aboveCeiling() {
			text = fmt.Sprintf("%s is %s, at most %s", v.Figure, figureText(v.MedianCandidate, v.Unit), figureText(v.Ceiling, v.Unit))
		}
		switch v.Decision {
		case Worse:
			worse = append(worse, text)
		case Unclear:
			unclear = append(unclear, text)
		}
	}
	what := fmt.Sprintf("%d pairs", r.Runs)
	if !r.Paired {
		what = fmt.Sprintf("%d runs", r.Runs)
	}
	switch {
	case len(worse) > 0:
		r.Verdict = "FAIL: worse: " + strings.Join(worse, "; ") + "; " + what
	case r.Runs < r.Rules.PairsAtLeast:
		r.Undecided = true
		r.Verdict = fmt.Sprintf("UNDECIDED: there was time for %s only, of %d: give more (--time)", what, r.Rules.PairsAtLeast)
	case len(unclear) > 0:
		r.Undecided = true
		r.Verdict = "UNDECIDED: the machine was too noisy to exclude a grave loss: " + strings.Join(unclear, "; ") + "; " + what
	default:
		r.Passed = true
		r.Verdict = fmt.Sprintf("PASS: none of %d figures is worse; %s", len(r.Figures), what)
	}
}

// lossText is a loss with its interval.
func (v FigureVerdict) lossText() string {
	word, sign := "lost", 1.0
	low, high := v.LossLow, v.LossHigh
	if v.Loss < 0 {
		word, sign, low, high = "gained", -1, v.LossHigh, v.LossLow
	}
	return fmt.Sprintf("%s %.1f %% (%.1f to %.1f)", word, 100*sign*v.Loss, 100*sign*low, 100*sign*high)
}

// WriteText writes a table and, as the last line, the verdict.
func (r *Result) WriteText(w io.Writer) {
	if r.Baseline != "" {
		fmt.Fprintf(w, "baseline   %s\ncandidate  %s\n\n", r.Baseline, r.Candidate)
		fmt.Fprintf(w, "%-22s %14s %14s  %-34s %6s %6s  %s\n", "figure", "baseline", "candidate", "", "limit", "p", "")
		for _, v := range r.Figures {
			if v.CeilingOnly {
				fmt.Fprintf(w, "%-22s %14s %14s  %-34s %6s %6s  %s\n", v.Figure, "", figureText(v.MedianCandidate, v.Unit),
					"at most "+figureText(v.Ceiling, v.Unit), "", "", v.Decision)
				continue
			}
			fmt.Fprintf(w, "%-22s %14s %14s  %-34s %4.0f %% %6.3f  %s\n", v.Figure, figureText(v.MedianBaseline, v.Unit), figureText(v.MedianCandidate, v.Unit),
				v.lossText(), 100*v.Limit, v.P, v.Decision)
		}
	} else {
		fmt.Fprintf(w, "candidate  %s\n\n%-22s %14s\n", r.Candidate, "figure", "median")
		for _, v := range r.Figures {
			fmt.Fprintf(w, "%-22s %14s\n", v.Figure, figureText(v.MedianCandidate, v.Unit))
		}
	}
	fmt.Fprintf(w, "\ngate: %s (%.0f s)\n", r.Verdict, r.Seconds)
}

// figureText has three digits where a unit does not say otherwise.
func figureText(value float64, unit string) string {
	if unit == "" {
		return fmt.Sprintf("%.3f", value)
	}
	return results.FormatValue(value, unit)
}
