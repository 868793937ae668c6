package results

import (
	"fmt"
	"io"
)

// Gate is the JSON result of the gate, as far as it is shown.
type Gate struct {
	Paired    bool         `json:"paired"`
	Baseline  string       `json:"baseline"`
	Candidate string       `json:"candidate"`
	Runs      int          `json:"runs"` // of each side
	Figures   []GateFigure `json:"figures"`
	Verdict   string       `json:"verdict"`
}

// GateFigure is one figure of both sides. Losses are fractions of the baseline.
type GateFigure struct {
	Figure          string  `json:"figure"`
	Unit            string  `json:"unit"`
	Better          string  `json:"better"`
	Limit           float64 `json:"limit"`
	MedianBaseline  float64 `json:"median_baseline"`
	MedianCandidate float64 `json:"median_candidate"`
	Loss            float64 `json:"loss"`
	LossLow         float64 `json:"loss_low"`
	LossHigh        float64 `json:"loss_high"`
	P               float64 `json:"p"`
	Decision        string  `json:"decision"`
}

func (g *Gate) check() error {
	if len(g.Figures) == 0 || g.Verdict == "" {
		return fmt.Errorf("the result has no verdict")
	}
	return nil
}

// comparable are the candidate's medians.
func (g *Gate) comparable() (figures []Figure) {
	for _, f := range g.Figures {
		if f.Better == More || f.Better == Less {
			figures = append(figures, Figure{Name: f.Figure, Value: f.MedianCandidate, Unit: f.Unit, Better: f.Better})
		}
	}
	return figures
}

func gateValue(value float64, unit string) string {
	if unit == "" {
		return fmt.Sprintf("%.3f", value)
	}
	return FormatValue(value, unit)
}

// renderGates shows each run of the gate by itself: its pairs belong together.
func (s *section) renderGates(w io.Writer) {
	names, groups := runs(s, func(r *Recorded) *Gate { return r.Gate })
	for i, name := range names {
		for _, g := range groups[i] {
			fmt.Fprintf(w, "\n### Gate: %s\n\n", tableCell(name))
			if g.Baseline == "" {
				fmt.Fprintf(w, "Of %s; %s.\n\n| figure | median |\n|---|---:|\n", tableCell(g.Candidate), tableCell(g.Verdict))
				for _, f := range g.Figures {
					fmt.Fprintf(w, "| %s | %s |\n", tableCell(f.Figure), gateValue(f.MedianCandidate, f.Unit))
				}
				continue
			}
			fmt.Fprintf(w, "Baseline: %s. Candidate: %s. %s.\n\n", tableCell(g.Baseline), tableCell(g.Candidate), tableCell(g.Verdict))
			io.WriteString(w, "| figure | baseline | candidate | loss | interval | limit | p | |\n|---|---:|---:|---:|---:|---:|---:|---|\n")
			for _, f := range g.Figures {
				fmt.Fprintf(w, "| %s | %s | %s | %.1f %% | %.1f to %.1f %% | %.0f %% | %.3f | %s |\n", tableCell(f.Figure),
					gateValue(f.MedianBaseline, f.Unit), gateValue(f.MedianCandidate, f.Unit),
					100*f.Loss, 100*f.LossLow, 100*f.LossHigh, 100*f.Limit, f.P, tableCell(f.Decision))
			}
		}
	}
}
