package results

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/perf/stats"
)

const tableIntro = `# Measured figures

Generated from the JSON files in this directory by ` + "`basaltmqperf table`" + `; not to be edited by hand. Each figure stands
below the environment that it was measured in, and load generator and broker shared the machine unless said otherwise.
With several runs a figure is the median, and "spread" is the distance of the slowest from the fastest run by the median.
Figures of different machines or days can't be compared with each other; fractions of a yardstick measured in the same
run can.

- *of relay*: messages/s by what a bare TCP relay passes of the same bytes on the wire, measured right before and after.
- *of append*, *of overwrite*: confirms/s by the records/s of one thread that writes batches of as many records as the
  windows allow to be outstanding, with one write and one fdatasync each, to a growing file or over one written before;
  measured right before and after. In brackets: median confirm latency by its median latency (less is better).
- *of one queue*: confirms/s by what one queue with one channel reached with the same total window in the same run; *same
  channels*: by one queue with the same channels, connections and windows, which leaves only what the queues cost.
- *written*: pages that the broker made dirty (write_bytes of /proc/PID/io, which counts a whole folio of 64 KiB and more
  for a small write) by bytes of message bodies, and by bytes of records in the log's format; *write calls*: bytes it
  passed to write calls (wchar).
- *RSS*: the broker's VmRSS; *peak*: its VmHWM since it was started.
`

// RenderTables writes all results as Markdown.
func RenderTables(w io.Writer, results []*Recorded) {
	io.WriteString(w, tableIntro)
	if len(results) == 0 {
		io.WriteString(w, "\nNothing has been recorded yet.\n")
		return
	}
	for _, s := range sections(results) {
		s.render(w)
	}
}

func (s *section) newest() (newest time.Time) {
	for _, result := range s.results {
		if result.Head.Environment.Time.After(newest) {
			newest = result.Head.Environment.Time
		}
	}
	return newest
}

// describeEnvironment is what a section's results have in common.
func describeEnvironment(r *Recorded) string {
	e := r.Head.Environment
	var lines strings.Builder
	line := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&lines, "| %s | %s |\n", name, tableCell(value))
		}
	}
	cpu := fmt.Sprintf("%s, %d hardware threads", cmp.Or(e.CPU.Model, "unknown"), e.CPU.Cores)
	if e.CPU.Hypervisor {
		cpu += ", virtual machine"
	}
	line("CPU", cpu)
	line("machine", e.Machine)
	if e.Memory > 0 {
		line("memory", HumanBytes(e.Memory))
	}
	line("kernel", e.Kernel+", "+e.GOARCH)
	line("frequency governor", e.Governor)
	filesystem := e.Filesystem
	if e.Mount != "" {
		filesystem += " (" + e.Mount + ")"
	}
	line("filesystem", filesystem)
	line("I/O backend", e.IOBackend)
	line("durability of confirms", e.Durability)
	line("commit", e.Commit)
	line("Go", e.GoVersion)
	return lines.String()
}

func tableCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func (s *section) render(w io.Writer) {
	title := s.release
	if title == "" {
		title = s.newest().Format(time.DateOnly)
	}
	fmt.Fprintf(w, "\n## %s\n\n| environment | |\n|---|---|\n", title)
	if s.broker != "" {
		fmt.Fprintf(w, "| broker | %s |\n", tableCell(s.broker))
	}
	io.WriteString(w, describeEnvironment(s.results[0]))
	s.renderSuites(w)
	s.renderThroughput(w)
	s.renderLatencies(w)
	s.renderFanouts(w)
	s.renderFeatures(w)
	s.renderConfirm(w)
	s.renderBacklog(w)
	s.renderOpen(w)
	s.renderChurn(w)
	s.renderPopulations(w)
	s.renderGates(w)
	s.renderCalibrate(w)
}

// runs is the results of the same name, in the order of the first of each.
func runs[T any](s *section, pick func(*Recorded) *T) (names []string, groups [][]*T) {
	for _, result := range s.results {
		picked := pick(result)
		if picked == nil {
			continue
		}
		index := slices.Index(names, result.Name)
		if index < 0 {
			names, groups = append(names, result.Name), append(groups, nil)
			index = len(names) - 1
		}
		groups[index] = append(groups[index], picked)
	}
	return names, groups
}

// column is one column of figures: the median over the runs that have it.
type column[T any] struct {
	title  string
	get    func(T) (value float64, ok bool)
	format func(float64) string
}

// cell is the text of a column for these runs; "" when none has the figure.
func (c column[T]) cell(group []T) string {
	values := c.values(group)
	if len(values) == 0 {
		return ""
	}
	return c.format(stats.Median(values))
}

func (c column[T]) values(group []T) (values []float64) {
	for _, run := range group {
		if value, ok := c.get(run); ok {
			values = append(values, value)
		}
	}
	return values
}

// spread is the distance from least to most, by the median; "" for one run.
func spread(values []float64) string {
	if len(values) < 2 {
		return ""
	}
	return fmt.Sprintf("%.0f %%", 100*stats.Spread(values))
}

// writeTable writes the columns that at least one row has, behind the named
// ones that every row has. The spread is that of the first figure of a row.
func writeTable[T any](w io.Writer, leading []string, rows [][]string, groups [][]T, columns []column[T]) {
	columns = slices.DeleteFunc(slices.Clone(columns), func(c column[T]) bool {
		return !slices.ContainsFunc(groups, func(group []T) bool { return len(c.values(group)) > 0 })
	})
	titles := slices.Clone(leading)
	for _, c := range columns {
		titles = append(titles, c.title)
	}
	titles = append(titles, "runs", "spread")
	fmt.Fprintf(w, "\n| %s |\n|%s%s\n", strings.Join(titles, " | "),
		strings.Repeat("---|", len(leading)), strings.Repeat("---:|", len(titles)-len(leading)))
	for i, group := range groups {
		cells := slices.Clone(rows[i])
		for _, c := range columns {
			cells = append(cells, c.cell(group))
		}
		spreadText := ""
		for _, c := range columns {
			if values := c.values(group); len(values) > 0 {
				spreadText = spread(values)
				break
			}
		}
		cells = append(cells, strconv.Itoa(len(group)), spreadText)
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
}

// Formats of figures.
func perSecondText(value float64) string { return HumanCount(uint64(value + 0.5)) }
func wholeText(value float64) string     { return fmt.Sprintf("%.0f", value) }
func fractionText(value float64) string  { return fmt.Sprintf("%.2f", value) }
func bytesText(value float64) string     { return HumanBytes(uint64(value)) }

// optional makes a getter of a pointer to a figure.
func optional(value *float64) (float64, bool) {
	if value == nil {
		return 0, false
	}
	return *value, true
}
