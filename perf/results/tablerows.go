package results

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// renderRows writes a table of the rows of several runs. Rows with the same
// leading cells are the same row, measured several times.
func renderRows[T, R any](w io.Writer, group []*T, leading []string, rowsOf func(*T) []*R, cells func(*R) []string, columns []column[*R]) {
	var rows [][]string
	var groups [][]*R
	for _, result := range group {
		for _, row := range rowsOf(result) {
			key := cells(row)
			at := slices.IndexFunc(rows, func(other []string) bool { return slices.Equal(other, key) })
			if at < 0 {
				at = len(rows)
				rows, groups = append(rows, key), append(groups, nil)
			}
			groups[at] = append(groups[at], row)
		}
	}
	writeTable(w, leading, rows, groups, columns)
}

func (s *section) renderLatencies(w io.Writer) {
	type row = *LatencyRow
	names, groups := runs(s, func(r *Recorded) *Latencies { return r.Latencies })
	figure := func(title string, pick func(*Latency) float64) column[row] {
		return column[row]{title, func(r row) (float64, bool) { return latencyOf(r.Latency, pick) }, wholeText}
	}
	relayed := func(title string, pick func(*Latency) float64) column[row] {
		return column[row]{title, func(r row) (float64, bool) { return latencyOf(r.Relay, pick) }, wholeText}
	}
	for i, name := range names {
		fmt.Fprintf(w, "\n### Latency: %s\n\n%s-byte messages, %s, %s; from the intended send time, open loop.\n", tableCell(name),
			HumanCount(groups[i][0].Options.Size), countOf(groups[i][0].Options.Publishers, "publisher"), countOf(groups[i][0].Options.Consumers, "consumer"))
		renderRows(w, groups[i], []string{"rate/s"}, func(l *Latencies) []row { return l.Rows },
			func(r row) []string { return []string{HumanCount(r.Rate)} }, []column[row]{
				figure("p50 µs", func(l *Latency) float64 { return l.P50 }), figure("p99 µs", func(l *Latency) float64 { return l.P99 }),
				figure("p99.9 µs", func(l *Latency) float64 { return l.P999 }), figure("most µs", func(l *Latency) float64 { return l.Max }),
				relayed("relay p50 µs", func(l *Latency) float64 { return l.P50 }), relayed("relay p99 µs", func(l *Latency) float64 { return l.P99 }),
				relayed("relay p99.9 µs", func(l *Latency) float64 { return l.P999 }),
				{"consumed/s", func(r row) (float64, bool) { return r.ConsumedPerSecond, true }, perSecondText},
				{"broker CPU ns/message", func(r row) (float64, bool) { return optional(r.BrokerCPU) }, wholeText},
				{"RSS at most", func(r row) (float64, bool) { return rssMost(r.RSS) }, bytesText},
			})
	}
}

func (s *section) renderFanouts(w io.Writer) {
	type row = *FanoutRow
	names, groups := runs(s, func(r *Recorded) *Fanout { return r.Fanout })
	for i, name := range names {
		fmt.Fprintf(w, "\n### Fan-out: %s\n\n%s-byte messages, %s, a consumer on each queue.\n", tableCell(name),
			HumanCount(groups[i][0].Options.Size), countOf(groups[i][0].Options.Publishers, "publisher"))
		renderRows(w, groups[i], []string{"queues"}, func(f *Fanout) []row { return f.Rows },
			func(r row) []string { return []string{HumanCount(uint64(r.Queues))} }, []column[row]{
				{"delivered/s", func(r row) (float64, bool) { return r.DeliveredPerSecond, true }, perSecondText},
				{"published/s", func(r row) (float64, bool) { return r.PublishedPerSecond, true }, perSecondText},
				{"broker CPU ns/delivery", func(r row) (float64, bool) { return optional(r.BrokerCPU) }, wholeText},
				{"RSS at most", func(r row) (float64, bool) { return rssMost(r.RSS) }, bytesText},
			})
	}
}

func (s *section) renderChurn(w io.Writer) {
	type row = *ChurnRow
	names, groups := runs(s, func(r *Recorded) *Churn { return r.Churn })
	for i, name := range names {
		unit := groups[i][0].Unit
		fmt.Fprintf(w, "\n### Made and removed: %s\n\nHow many %s a second; window: how many are unanswered at a time.\n", tableCell(name), tableCell(unit))
		renderRows(w, groups[i], []string{"kind", "window", "connections"}, func(c *Churn) []row { return c.Rows },
			func(r row) []string {
				return []string{tableCell(r.Kind), HumanCount(uint64(r.Window)), HumanCount(uint64(r.Connections))}
			}, []column[row]{
				{"per second", func(r row) (float64, bool) { return r.PerSecond, true }, perSecondText},
				{"p50 µs", func(r row) (float64, bool) { return latencyOf(r.Latency, func(l *Latency) float64 { return l.P50 }) }, wholeText},
				{"p99 µs", func(r row) (float64, bool) { return latencyOf(r.Latency, func(l *Latency) float64 { return l.P99 }) }, wholeText},
				{"broker CPU ns", func(r row) (float64, bool) { return optional(r.BrokerCPU) }, wholeText},
				{"bytes written each", func(r row) (float64, bool) { return optional(r.BrokerWritten) }, wholeText},
				{"RSS at most", func(r row) (float64, bool) { return rssMost(r.RSS) }, bytesText},
			})
	}
}

func (s *section) renderPopulations(w io.Writer) {
	type row = *CountRow
	names, groups := runs(s, func(r *Recorded) *Population { return r.Population })
	for i, name := range names {
		unit := groups[i][0].Unit
		fmt.Fprintf(w, "\n### Many at a time: %s\n\nIdle %s.\n", tableCell(name), tableCell(unit))
		renderRows(w, groups[i], []string{"count"}, func(p *Population) []row { return p.Rows },
			func(r row) []string { return []string{HumanCount(uint64(r.Count))} }, []column[row]{
				{"RSS", func(r row) (float64, bool) {
					if r.Look == nil || r.Look.Memory == nil {
						return 0, false
					}
					return float64(r.Look.Memory.RSS), true
				}, bytesText},
				{"bytes each", func(r row) (float64, bool) { return optional(r.BytesEach) }, wholeText},
				{"made/s", func(r row) (float64, bool) { return r.PerSecond, true }, perSecondText},
				{"broker CPU ns each", func(r row) (float64, bool) { return optional(r.BrokerCPU) }, wholeText},
			})
	}
}

// checkRows refuses a result without rows, or with an empty one.
func checkRows[R any](rows []*R) error {
	if len(rows) == 0 || slices.Contains(rows, nil) {
		return fmt.Errorf("the result has no rows, or an empty one")
	}
	return nil
}

// isChurn and isPopulation recognise scenarios of a kind by their name.
func isChurn(scenario string) bool      { return strings.HasSuffix(scenario, "-churn") }
func isPopulation(scenario string) bool { return strings.HasSuffix(scenario, "-count") }
