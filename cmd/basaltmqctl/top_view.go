package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// topOrder is what queues are sorted by.
type topOrder int

const (
	byMessages topOrder = iota
	byRate
	byName
)

// query is how the broker is asked for the queues that come first.
func (o topOrder) query() string {
	if o == byName {
		return "sort=name"
	}
	return "sort=messages&sort_reverse=true"
}

func (o topOrder) String() string { return [...]string{"messages", "rate", "name"}[o] }

// screen is where the view goes; no rows: it may be as long as it wants.
type screen struct {
	columns, rows int
	ansi          bool
}

// topView is what happened between two looks.
type topView struct {
	now     *topLook
	seconds float64
	total   topRates
	queues  []topRow
	order   topOrder
	trouble error
}

// topRates are per second.
type topRates struct {
	Publish    float64 `json:"publish"`
	Confirm    float64 `json:"confirm"`
	DeliverGet float64 `json:"deliver_get"`
	Ack        float64 `json:"ack"`
	Redeliver  float64 `json:"redeliver"`
	Unroutable float64 `json:"return_unroutable"`
}

type topRow struct {
	topQueue
	rates topRates
}

// newTopView compares two looks; before may be nil.
func newTopView(before, now *topLook, order topOrder) *topView {
	v := &topView{now: now, order: order}
	known := map[[2]string]topStats{}
	if before != nil {
		v.seconds = now.at.Sub(before.at).Seconds()
		v.total = ratesOf(before.overview.Stats, now.overview.Stats, v.seconds)
		for _, q := range before.queues {
			known[[2]string{q.VHost, q.Name}] = q.Stats
		}
	}
	for _, q := range now.queues {
		row := topRow{topQueue: q}
		if old, ok := known[[2]string{q.VHost, q.Name}]; ok {
			row.rates = ratesOf(old, q.Stats, v.seconds)
		}
		v.queues = append(v.queues, row)
	}
	slices.SortStableFunc(v.queues, func(a, b topRow) int {
		byNames := cmp.Or(strings.Compare(a.VHost, b.VHost), strings.Compare(a.Name, b.Name))
		switch order {
		case byMessages:
			return cmp.Or(cmp.Compare(b.Ready+b.Unacked, a.Ready+a.Unacked), byNames)
		case byRate:
			return cmp.Or(cmp.Compare(b.rates.Publish+b.rates.DeliverGet, a.rates.Publish+a.rates.DeliverGet), byNames)
		}
		return byNames
	})
	return v
}

// ratesOf are the differences per second; a counter that went back has begun anew.
func ratesOf(before, now topStats, seconds float64) topRates {
	rate := func(a, b uint64) float64 {
		if b < a || seconds <= 0 {
			return 0
		}
		return float64(b-a) / seconds
	}
	return topRates{
		Publish: rate(before.Publish, now.Publish), Confirm: rate(before.Confirm, now.Confirm), DeliverGet: rate(before.DeliverGet, now.DeliverGet),
		Ack: rate(before.Ack, now.Ack), Redeliver: rate(before.Redeliver, now.Redeliver), Unroutable: rate(before.Unroutable, now.Unroutable),
	}
}

// figures is the view as JSON.
func (v *topView) figures() any {
	type row struct {
		topQueue
		Rates topRates `json:"rates"`
	}
	rows := make([]row, 0, len(v.queues))
	for _, q := range v.queues {
		rows = append(rows, row{q.topQueue, q.rates})
	}
	return map[string]any{
		"seconds": v.seconds, "rates": v.total, "overview": v.now.overview, "queues": rows,
		"memory": v.now.node.MemUsed, "disk_free": v.now.node.DiskFree, "sockets": v.now.node.SocketsUsed,
	}
}

// write draws the view: lines that are cut at the edge of the screen.
func (v *topView) write(w io.Writer, sc screen) {
	p := painter{w: w, screen: sc}
	o, n := &v.now.overview, &v.now.node
	p.line("", "%s %s  up %s  %s", o.Product, o.Version, (time.Duration(o.Uptime) * time.Second).String(), v.now.at.Format("15:04:05"))
	switch {
	case v.trouble != nil:
		p.line(ansiAlarm, "NO ANSWER: %v", v.trouble)
	case o.Alarm != "":
		p.line(ansiAlarm, "ALARM: publishers are blocked: %s", o.Alarm)
	}
	p.line("", "rates/s      publish %s  confirm %s  deliver %s  ack %s  redeliver %s  unroutable %s",
		rateText(v.total.Publish), rateText(v.total.Confirm), rateText(v.total.DeliverGet), rateText(v.total.Ack), rateText(v.total.Redeliver), rateText(v.total.Unroutable))
	p.line("", "messages     %d ready  %d unacknowledged", o.Ready, o.Unacked)
	p.line("", "objects      %d connections  %d channels  %d consumers  %d queues  %d exchanges",
		o.Totals.Connections, o.Totals.Channels, o.Totals.Consumers, o.Totals.Queues, o.Totals.Exchanges)
	if n.MemUsed > 0 {
		p.line("", "memory       %s of %s  disk %s free (floor %s)  files %d of %d", sizeText(float64(n.MemUsed)), sizeText(float64(n.MemLimit)),
			sizeText(float64(n.DiskFree)), sizeText(float64(max(n.DiskFreeLimit, 0))), n.FDUsed, n.FDTotal)
	}
	p.line("", "")
	p.line(ansiBold, "%-9s %10s %10s %9s %9s %9s %5s %8s  %s", "STATE", "READY", "UNACKED", "PUBLISH/S", "DELIVER/S", "ACK/S", "CONS", "BYTES", "QUEUE (by "+v.order.String()+")")
	for _, q := range v.queues {
		if p.full() {
			break
		}
		name := q.Name
		if q.VHost != "/" {
			name = q.VHost + ": " + name
		}
		p.line("", "%-9s %10d %10d %9s %9s %9s %5d %8s  %s", q.State, q.Ready, q.Unacked,
			rateText(q.rates.Publish), rateText(q.rates.DeliverGet), rateText(q.rates.Ack), q.Consumers, sizeText(float64(q.Bytes)), cell(name))
	}
}

// painter writes lines as far as the screen goes.
type painter struct {
	w io.Writer
	screen
	lines int
}

// full says that there is no room for another line.
func (p *painter) full() bool { return p.rows > 0 && p.lines >= p.rows }

func (p *painter) line(style, format string, arguments ...any) {
	if p.full() {
		return
	}
	text := strings.TrimRight(cutText(fmt.Sprintf(format, arguments...), p.columns), " ")
	if p.ansi {
		if style != "" {
			text = style + text + ansiPlain
		}
		text += ansiRest
	}
	if p.lines++; p.lines == p.rows {
		fmt.Fprint(p.w, text) // the last one: a line end would scroll
		return
	}
	fmt.Fprintf(p.w, "%s\n", text)
}

// cutText cuts a text to so many characters.
func cutText(text string, columns int) string {
	if columns <= 0 || utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:columns])
}

// rateText shows a rate in at most six characters.
func rateText(n float64) string {
	switch {
	case n >= 999_950:
		return fmt.Sprintf("%.2fM", n/1e6)
	case n >= 99_950:
		return fmt.Sprintf("%.0fk", n/1e3)
	case n >= 9_995:
		return fmt.Sprintf("%.1fk", n/1e3)
	case n >= 10 || n == 0:
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.1f", n)
}

// sizeText shows a number of bytes.
func sizeText(n float64) string {
	for _, unit := range []string{"B", "KiB", "MiB", "GiB"} {
		if n < 1000 {
			if unit == "B" || n >= 100 {
				return fmt.Sprintf("%.0f %s", n, unit)
			}
			return fmt.Sprintf("%.1f %s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.1f TiB", n)
}
