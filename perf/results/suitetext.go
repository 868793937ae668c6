package results

import (
	"fmt"
	"io"
)

// WriteText writes the suite as tables for a terminal.
func (s *Suite) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s %s, %.0f s\n\n", s.Versions.BrokerProduct, s.Versions.BrokerVersion, s.Seconds)
	if len(s.Yardsticks) > 0 {
		lines := [][]string{{"yardstick", "before", "after", ""}}
		for _, y := range s.Yardsticks {
			lines = append(lines, []string{y.Name, FormatValue(y.Before, y.Unit), FormatValue(y.After, y.Unit), ""})
		}
		writeAligned(w, lines)
		fmt.Fprintln(w)
	}
	lines := [][]string{{"figure", "value", "fraction", ""}}
	for _, figure := range s.Figures {
		lines = append(lines, []string{figure.Name, FormatValue(figure.Value, figure.Unit), fractionOf(figure), ""})
	}
	writeAligned(w, lines)
	fmt.Fprintln(w)
	lines = [][]string{{"target", "wanted", "measured", ""}}
	for _, outcome := range s.Outcomes() {
		lines = append(lines, []string{outcome.Target.What, outcome.Wanted(), outcome.MeasuredText(), outcome.Verdict()})
	}
	writeAligned(w, lines)
	for _, section := range s.Sections {
		if section.Error != "" {
			fmt.Fprintf(w, "section %s: %s\n", section.Name, section.Error)
		}
	}
	if s.Interrupted {
		fmt.Fprintln(w, "Interrupted: a partial result")
	}
}

func fractionOf(figure Figure) string {
	if figure.Fraction == nil {
		return ""
	}
	return fmt.Sprintf("%.3f of %s", *figure.Fraction, figure.Yardstick)
}

// MeasuredText is what is held against the target; "" when nothing was
// measured.
func (o Outcome) MeasuredText() string {
	switch {
	case !o.Known:
		return ""
	case o.Target.Fraction:
		return fmt.Sprintf("%.2f", o.Measured)
	}
	return FormatValue(o.Measured, o.Figure.Unit)
}

// renderSuites writes the headline tables of a section of recorded results.
// Of several runs the newest is shown: figures of one table come from one run.
func (s *section) renderSuites(w io.Writer) {
	names, groups := runs(s, func(r *Recorded) *Suite { return r.Suite })
	for i, name := range names {
		suite := groups[i][0]
		for _, other := range groups[i] {
			if other.Environment.Time.After(suite.Environment.Time) {
				suite = other
			}
		}
		fmt.Fprintf(w, "\n### Headline table: %s\n\n| | wanted | measured | value | |\n|---|---:|---:|---:|---|\n", tableCell(name))
		for _, outcome := range suite.Outcomes() {
			value := ""
			if outcome.Figure != nil {
				value = FormatValue(outcome.Figure.Value, outcome.Figure.Unit)
			}
			fmt.Fprintf(w, "| %s | %s | %s | %s | %s |\n", tableCell(outcome.Target.What), outcome.Wanted(), outcome.MeasuredText(), value, tableCell(outcome.Verdict()))
		}
		fmt.Fprintf(w, "\n| yardstick | before | after |\n|---|---:|---:|\n")
		for _, y := range suite.Yardsticks {
			fmt.Fprintf(w, "| %s | %s | %s |\n", tableCell(y.Name), FormatValue(y.Before, y.Unit), FormatValue(y.After, y.Unit))
		}
	}
}
