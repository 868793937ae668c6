package results

import (
	"fmt"
	"io"
)

// Features is the JSON result of the features scenario.
type Features struct {
	Head
	Rows    []*FeatureRow `json:"rows"`
	LeftOut []LeftOut     `json:"left_out,omitempty"`
	Options *FeaturesLoad `json:"options"`
}

// FeaturesLoad is what describes how the features were measured.
type FeaturesLoad struct {
	URI     string  `json:"uri"` // without the password
	Seconds float64 `json:"seconds"`
	Size    uint64  `json:"size"`
}

// FeatureRow is one feature at work.
type FeatureRow struct {
	Name               string         `json:"name"`
	Load               string         `json:"load"`
	Seconds            float64        `json:"seconds"`
	Unit               string         `json:"unit"` // of the rate: what is counted
	PerSecond          float64        `json:"rate_per_s"`
	PublishedPerSecond float64        `json:"published_per_s,omitempty"`
	Base               string         `json:"base,omitempty"`    // the row that this one is set against
	OfBase             *float64       `json:"of_base,omitempty"` // by its rate
	Relay              *RelayFraction `json:"relay,omitempty"`
	BrokerCPU          *float64       `json:"broker_cpu_ns_per_message,omitempty"`
	RSS                *RSS           `json:"rss,omitempty"`
	Bottleneck         bool           `json:"client_is_bottleneck,omitempty"`
}

// Check looks for what the rendering relies on, and for features that did
// nothing.
func (f *Features) Check() error {
	if f.Options == nil {
		return fmt.Errorf("the result does not say its options")
	}
	if len(f.Rows) == 0 {
		return fmt.Errorf("the result has no features")
	}
	for _, row := range f.Rows {
		if row == nil || row.Name == "" || row.PerSecond <= 0 {
			return fmt.Errorf("a feature has no name or no rate")
		}
	}
	return nil
}

func featureColumns() []column[*FeatureRow] {
	type row = *FeatureRow
	return []column[row]{
		{"per second", func(r row) (float64, bool) { return r.PerSecond, true }, perSecondText},
		{"published/s", func(r row) (float64, bool) { return r.PublishedPerSecond, r.PublishedPerSecond > 0 }, perSecondText},
		{"of base", func(r row) (float64, bool) { return optional(r.OfBase) }, fractionText},
		{"of relay", func(r row) (float64, bool) {
			if r.Relay == nil {
				return 0, false
			}
			return r.Relay.Fraction, true
		}, fractionText},
		{"broker CPU ns", func(r row) (float64, bool) { return optional(r.BrokerCPU) }, wholeText},
		{"RSS at most", func(r row) (float64, bool) { return rssMost(r.RSS) }, bytesText},
	}
}

func (s *section) renderFeatures(w io.Writer) {
	names, groups := runs(s, func(r *Recorded) *Features { return r.Features })
	for i, name := range names {
		fmt.Fprintf(w, "\n### Features: %s\n\nRates of what a feature does; *of base*: by the rate of the row named as its base, measured in the same run.\n", tableCell(name))
		renderRows(w, groups[i], []string{"feature", "load", "base", "counted"}, func(f *Features) []*FeatureRow { return f.Rows },
			func(r *FeatureRow) []string {
				return []string{tableCell(r.Name), tableCell(r.Load), tableCell(r.Base), tableCell(r.Unit)}
			}, featureColumns())
		for _, left := range groups[i][0].LeftOut {
			fmt.Fprintf(w, "\nNot measured: %s (%s).\n", tableCell(left.Figure), tableCell(left.Reason))
		}
	}
}

// WriteText writes the features as a table for a terminal.
func (f *Features) WriteText(w io.Writer) {
	fmt.Fprintf(w, "%s %s\n\n", f.Versions.BrokerProduct, f.Versions.BrokerVersion)
	lines := [][]string{{"feature", "per second", "of base", "of relay", ""}}
	for _, row := range f.Rows {
		line := []string{row.Name, HumanCount(uint64(row.PerSecond + 0.5)), "", "", row.Unit}
		if row.OfBase != nil {
			line[2] = fmt.Sprintf("%.2f of %s", *row.OfBase, row.Base)
		}
		if row.Relay != nil {
			line[3] = fmt.Sprintf("%.3f", row.Relay.Fraction)
		}
		if row.Bottleneck {
			line[4] += " (this tool is the bottleneck)"
		}
		lines = append(lines, line)
	}
	writeAligned(w, lines)
	for _, left := range f.LeftOut {
		fmt.Fprintf(w, "not measured: %s: %s\n", left.Figure, left.Reason)
	}
	if f.Interrupted {
		fmt.Fprintln(w, "Interrupted: a partial result")
	}
}
