// Package report draws recorded results: one self-contained HTML file, or its
// plots as SVG files.
//
// It owns how results look and nothing else: figures, targets and what may be
// shown are package results'. No script, no font, no image is loaded from
// anywhere, so that a report can be mailed and opens the same in ten years.
//
// # Map
//
//	scenario.go  the subcommand
//	html.go      the page (page.html)
//	plots.go     which plots results make
//	chart.go     a chart with axes and lines, as SVG; scale.go its axes
//
// # Invariants
//
//  1. The same results give the same bytes: no time, no random, no map order.
//  2. Text from results is escaped; a value that is no number is not drawn.
//
// # Threading
//
// Any goroutine; nothing here is shared.
package report
