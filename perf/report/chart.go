package report

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"math"
)

// Chart is lines over two axes.
type Chart struct {
	Name           string // of its file
	Title          string
	XTitle, YTitle string
	XLog, YLog     bool
	YBinary        bool   // steps of the axis are powers of 2
	XTicks         []tick // nil: round values
	XFormat        func(float64) string
	YFormat        func(float64) string
	Lines          []Line
}

// Line is points in the order they are joined.
type Line struct {
	Name string
	X, Y []float64
}

// Pixels of a chart.
const (
	chartWidth   = 760
	marginLeft   = 84
	marginRight  = 24
	marginTop    = 40
	plotHeight   = 300
	axisHeight   = 52 // below the plot: ticks and title
	legendHeight = 18 // of a line of the legend
	tickLength   = 5
)

// colors of lines, distinguishable with impaired colour vision (Okabe and Ito)
// and on white and black alike; dashes tell a second round of them apart.
var colors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f"}

var dashes = []string{"", "6 3", "2 3"}

// svg collects elements.
type svg struct{ out bytes.Buffer }

func (s *svg) add(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

// text adds a text; anchor is start, middle or end.
func (s *svg) text(x, y float64, anchor, class, content string) {
	s.add(`<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`, x, y, anchor, class, escape(content))
}

func escape(text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text)) // a bytes.Buffer takes everything
	return out.String()
}

// chartStyle is in every chart: its file stands for itself. Colours follow the
// reader's scheme.
const chartStyle = `<style>
text{font:12px system-ui,sans-serif;fill:currentColor}
.title{font-size:14px;font-weight:600}
.tick{font-size:11px}
.grid{stroke:currentColor;stroke-opacity:.15}
.axis{stroke:currentColor;stroke-opacity:.6}
svg{color:#222}
@media(prefers-color-scheme:dark){svg{color:#ddd}}
</style>`

// WriteSVG draws the chart. Points that have no place on its axes (0 on a
// logarithmic one) are left out.
func (c Chart) WriteSVG(w io.Writer) error {
	height := marginTop + plotHeight + axisHeight + legendHeight*len(c.Lines)
	x, y := c.scales()
	var s svg
	s.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`,
		chartWidth, height, chartWidth, height, escape(c.Title))
	s.add("%s", chartStyle)
	s.text(marginLeft, 22, "start", "title", c.Title)
	yTicks := y.niceTicks(c.YFormat)
	xTicks := c.XTicks
	if xTicks == nil {
		xTicks = x.niceTicks(c.XFormat)
	}
	const bottom = marginTop + plotHeight
	for _, t := range yTicks {
		s.add(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" class="grid"/>`, marginLeft, y.at(t.at), chartWidth-marginRight, y.at(t.at))
		s.text(marginLeft-8, y.at(t.at)+4, "end", "tick", t.text)
	}
	for _, t := range xTicks {
		s.add(`<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" class="axis"/>`, x.at(t.at), bottom, x.at(t.at), bottom+tickLength)
		s.text(x.at(t.at), bottom+18, "middle", "tick", t.text)
	}
	s.add(`<line x1="%d" y1="%d" x2="%d" y2="%d" class="axis"/>`, marginLeft, bottom, chartWidth-marginRight, bottom)
	s.text((marginLeft+chartWidth-marginRight)/2, bottom+38, "middle", "", c.XTitle)
	s.add(`<text x="14" y="%d" text-anchor="middle" transform="rotate(-90 14 %d)">%s</text>`, marginTop+plotHeight/2, marginTop+plotHeight/2, escape(c.YTitle))
	for i, line := range c.Lines {
		style := fmt.Sprintf(`fill="none" stroke="%s" stroke-width="2"`, colors[i%len(colors)])
		if dash := dashes[i/len(colors)%len(dashes)]; dash != "" {
			style += fmt.Sprintf(` stroke-dasharray="%s"`, dash)
		}
		c.drawLine(&s, line, x, y, style, colors[i%len(colors)])
		legend := float64(bottom + axisHeight + legendHeight*i)
		s.add(`<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" %s/>`, marginLeft, legend, marginLeft+28, legend, style)
		s.text(marginLeft+36, legend+4, "start", "", line.Name)
	}
	s.add("</svg>")
	_, err := w.Write(s.out.Bytes())
	return err
}

// markersMax is the number of points up to which each is marked.
const markersMax = 24

func (c Chart) drawLine(s *svg, line Line, x, y scale, style, color string) {
	var points bytes.Buffer
	for i := range line.X {
		if !x.drawable(line.X[i]) || !y.drawable(line.Y[i]) {
			continue
		}
		fmt.Fprintf(&points, "%.1f,%.1f ", x.at(line.X[i]), y.at(line.Y[i]))
		if len(line.X) <= markersMax {
			s.add(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x.at(line.X[i]), y.at(line.Y[i]), color)
		}
	}
	s.add(`<polyline points="%s" %s/>`, bytes.TrimSpace(points.Bytes()), style)
}

// scales spans the axes over all points that can be drawn.
func (c Chart) scales() (x, y scale) {
	x = scale{logarithmic: c.XLog, low: math.Inf(1), high: math.Inf(-1), from: marginLeft + 8, to: chartWidth - marginRight - 8}
	y = scale{logarithmic: c.YLog, binary: c.YBinary, low: math.Inf(1), high: math.Inf(-1), from: marginTop + plotHeight, to: marginTop}
	for _, line := range c.Lines {
		for i := range line.X {
			if x.drawable(line.X[i]) && y.drawable(line.Y[i]) {
				x.low, x.high = min(x.low, line.X[i]), max(x.high, line.X[i])
				y.low, y.high = min(y.low, line.Y[i]), max(y.high, line.Y[i])
			}
		}
	}
	for _, s := range []*scale{&x, &y} {
		if s.low > s.high {
			s.low, s.high = 1, 10
		}
	}
	return x, y
}

// empty reports whether there is nothing to draw.
func (c Chart) empty() bool {
	for _, line := range c.Lines {
		if len(line.X) > 0 {
			return false
		}
	}
	return true
}
