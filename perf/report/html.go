package report

import (
	"bytes"
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// page is what the template shows.
type page struct {
	Title    string
	Suites   []suitePart
	Features []featuresPart
	Plots    []template.HTML
	Recorded []recordedRow
}

// suitePart is the headline table of one suite.
type suitePart struct {
	Heading    string
	Facts      []string
	Rows       []targetRow
	Yardsticks []yardstickRow
	LeftOut    []results.LeftOut
}

// featuresPart is the table of one run of the features.
type featuresPart struct {
	Heading string
	Rows    []featureRow
	LeftOut []results.LeftOut
}

type featureRow struct{ Name, Load, Rate, Base, OfRelay string }

type targetRow struct{ What, Wanted, Measured, Value, Verdict, Class string }

type yardstickRow struct{ Name, Before, After string }

type recordedRow struct{ Name, Broker, Machine, Time string }

// WriteHTML writes the whole report as one file.
func WriteHTML(w io.Writer, title string, recorded []*results.Recorded) error {
	p := page{Title: title}
	for _, r := range recorded {
		if r.Suite != nil {
			p.Suites = append(p.Suites, newSuitePart(r))
		}
		if r.Features != nil {
			p.Features = append(p.Features, newFeaturesPart(r))
		}
		p.Recorded = append(p.Recorded, recordedRow{
			Name:    strings.TrimPrefix(r.Release+"-"+r.Name, "-"),
			Broker:  strings.TrimSpace(r.Head.Versions.BrokerProduct + " " + r.Head.Versions.BrokerVersion),
			Machine: machine(r.Head.Environment),
			Time:    r.Head.Environment.Time.UTC().Format(time.DateTime),
		})
	}
	for _, chart := range Plots(recorded) {
		var drawn bytes.Buffer
		if err := chart.WriteSVG(&drawn); err != nil {
			return err
		}
		// Made here, with all text from results escaped.
		p.Plots = append(p.Plots, template.HTML(drawn.String()))
	}
	return pageTemplate.Execute(w, p)
}

func machine(e results.Environment) string {
	return fmt.Sprintf("%s, %d hardware threads, %s, %s", cmp.Or(e.CPU.Model, "unknown CPU"), e.CPU.Cores, e.Kernel, cmp.Or(e.Filesystem, "unknown filesystem"))
}

func newFeaturesPart(r *results.Recorded) featuresPart {
	part := featuresPart{Heading: "Features: " + label(r), LeftOut: r.Features.LeftOut}
	for _, row := range r.Features.Rows {
		shown := featureRow{Name: row.Name, Load: row.Load, Rate: results.HumanCount(uint64(row.PerSecond)) + " " + row.Unit + "/s"}
		if row.OfBase != nil {
			shown.Base = fmt.Sprintf("%.2f of %s", *row.OfBase, row.Base)
		}
		if row.Relay != nil {
			shown.OfRelay = fmt.Sprintf("%.2f", row.Relay.Fraction)
		}
		part.Rows = append(part.Rows, shown)
	}
	return part
}

func newSuitePart(r *results.Recorded) suitePart {
	e := r.Head.Environment
	part := suitePart{Heading: "Headline table: " + label(r), LeftOut: r.Suite.LeftOut, Facts: []string{machine(e)}}
	for _, fact := range []struct{ name, value string }{
		{"I/O", e.IOBackend}, {"durability of confirms", e.Durability}, {"mount", e.Mount}, {"commit", e.Commit}, {"Go", e.GoVersion},
	} {
		if fact.value != "" {
			part.Facts = append(part.Facts, fact.name+": "+fact.value)
		}
	}
	for _, outcome := range r.Suite.Outcomes() {
		row := targetRow{
			What: outcome.Target.What, Wanted: outcome.Wanted(), Measured: outcome.MeasuredText(), Verdict: outcome.Verdict(), Class: "unknown",
		}
		if outcome.Figure != nil {
			row.Value = results.FormatValue(outcome.Figure.Value, outcome.Figure.Unit)
		}
		if outcome.Known && row.Verdict != "" {
			row.Class = map[bool]string{true: "yes", false: "no"}[outcome.Reached]
		}
		part.Rows = append(part.Rows, row)
	}
	for _, y := range r.Suite.Yardsticks {
		part.Yardsticks = append(part.Yardsticks, yardstickRow{y.Name, results.FormatValue(y.Before, y.Unit), results.FormatValue(y.After, y.Unit)})
	}
	return part
}
