package results

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/basaltmq/basaltmq/perf/stats"
)

// WriteText writes the comparison as a table for a terminal, one block for
// each result.
func (c *Comparison) WriteText(w io.Writer) {
	fmt.Fprintf(w, "A: %s\nB: %s\n", c.A, c.B)
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	result := ""
	var lines [][]string
	flush := func() {
		if len(lines) > 0 {
			fmt.Fprintf(w, "\n%s\n", result)
			writeAligned(w, append([][]string{{"figure", "A", "B", "B/A", fmt.Sprintf("%.0f %% interval", 100*c.Confidence), "p", "runs", ""}}, lines...))
			lines = nil
		}
	}
	for _, row := range c.Rows {
		if row.Result != result {
			flush()
			result = row.Result
		}
		lines = append(lines, []string{
			row.Figure, sampleText(row.A, row.MedianA, row.Unit), sampleText(row.B, row.MedianB, row.Unit),
			fmt.Sprintf("%.3f", row.Ratio), fmt.Sprintf("%.3f to %.3f", row.Low, row.High), fmt.Sprintf("%.3f", row.P),
			fmt.Sprintf("%d+%d", len(row.A), len(row.B)), row.Verdict,
		})
	}
	flush()
	for _, only := range []struct {
		side  string
		names []string
	}{{"A", c.OnlyA}, {"B", c.OnlyB}} {
		if len(only.names) > 0 {
			fmt.Fprintf(w, "\nonly in %s: %s\n", only.side, strings.Join(only.names, "; "))
		}
	}
	if c.Paired {
		fmt.Fprintf(w, "\nMedians and half their spread; B/A is the middle of the ratios of pairs. Signed rank test, two-sided, and the\n"+
			"interval that belongs to it, exact.\n")
		return
	}
	fmt.Fprintf(w, "\nMedians and half their spread; B/A is the median of all ratios of a run of B to a run of A. Test of Mann and\n"+
		"Whitney and the interval that belongs to it, exact: few runs, not normally distributed, not paired.\n")
}

// sampleText is a median and half the spread.
func sampleText(values []float64, median float64, unit string) string {
	text := FormatValue(median, unit)
	if len(values) > 1 {
		text += fmt.Sprintf(" ±%.0f%%", 50*stats.Spread(values))
	}
	return text
}

// writeAligned writes cells in columns: the first flush left, the last too,
// the others flush right.
func writeAligned(w io.Writer, lines [][]string) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, line := range lines {
		var out strings.Builder
		for i, cell := range line {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i == 0:
				out.WriteString(cell + padding)
			case i == len(line)-1:
				out.WriteString("  " + cell)
			default:
				out.WriteString("  " + padding + cell)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(out.String(), " "))
	}
}
