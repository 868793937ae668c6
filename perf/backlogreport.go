package perf

import (
	"fmt"
	"io"

	"github.com/basaltmq/basaltmq/perf/results"
)

// backlogResult is the JSON result of the backlog scenario, with all its
// options.
type backlogResult struct {
	results.Backlog
	Options *backlogOptions `json:"options"`
}

func (r *backlogResult) writeText(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-22s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("Broker", "%s %s", r.Versions.BrokerProduct, r.Versions.BrokerVersion)
	line("Messages", "%s of %d bytes", results.HumanCount(r.Options.Messages), r.Options.Size)
	look := func(name string, l *brokerLook) {
		if l == nil {
			return
		}
		if m := l.Memory; m != nil {
			line(name, "RSS %s (peak so far %s), anonymous %s, file %s", results.HumanBytes(m.RSS), results.HumanBytes(m.HWM), results.HumanBytes(m.Anon), results.HumanBytes(m.File))
			name = ""
		}
		if d := l.Disk; d != nil {
			line(name, "%s on disk (%s in %d files), %.1f bytes a message", results.HumanBytes(d.Allocated), results.HumanBytes(d.Apparent), d.Files,
				float64(d.Allocated)/float64(r.Options.Messages))
		}
	}
	phase := func(name string, p *results.BacklogPhase) {
		if p == nil {
			return
		}
		line(name, "%s/s, %s in %.1f s", results.HumanCount(uint64(p.PerSecond)), results.HumanCount(p.Messages), p.Seconds)
		if p.BrokerCPU != nil {
			line("", "broker %.0f ns CPU/message, RSS at most %s", *p.BrokerCPU, results.HumanBytes(p.RSS.Max.RSS))
		}
		if p.Bottleneck {
			line("", "this tool is the bottleneck: its loops are busy and the broker is not")
		}
	}
	look("Idle", r.Before)
	phase("Filled at", r.Fill)
	look("Full", r.Filled)
	phase("Drained at", r.Drain)
	look("Empty again", r.Drained)
	if r.Drain != nil && !r.Interrupted {
		line("Checked", "%d missing, %d too many, %d damaged, %d out of order", r.Missing, r.Surplus, r.Damaged, r.OutOfOrder)
	}
	if r.Interrupted {
		line("Note", "interrupted: a partial result")
	}
}
