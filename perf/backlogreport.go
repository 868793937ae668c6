package perf

import (
	"fmt"
	"io"
	"strings"
)

// backlogResult is the JSON result of the backlog scenario.
type backlogResult struct {
	Scenario    string `json:"scenario"`
	Interrupted bool   `json:"interrupted"`
	Error       string `json:"error,omitempty"`

	Before  *brokerLook   `json:"before,omitempty"` // idle, queue empty
	Fill    *backlogPhase `json:"fill,omitempty"`
	Filled  *brokerLook   `json:"filled,omitempty"` // all messages queued, and a rest
	Drain   *backlogPhase `json:"drain,omitempty"`
	Drained *brokerLook   `json:"drained,omitempty"`

	Missing    uint64 `json:"missing"`
	Surplus    uint64 `json:"surplus"` // delivered or left beyond what was published
	Damaged    uint64 `json:"damaged"`
	OutOfOrder uint64 `json:"out_of_order"`

	Options     *backlogOptions `json:"options"`
	Versions    versions        `json:"versions"`
	Environment environment     `json:"environment"`
}

// brokerLook is the broker's memory and disk at one moment.
type brokerLook struct {
	Memory *memoryFigures `json:"memory,omitempty"` // vm_hwm: the most since the broker started
	Disk   *diskUsage     `json:"disk,omitempty"`
}

// look reads what the options allow to read.
func (o *backlogOptions) look() (*brokerLook, error) {
	result := &brokerLook{}
	if o.BrokerPID > 0 {
		memory, err := processMemory(o.BrokerPID)
		if err != nil {
			return nil, fmt.Errorf("can't read the broker's memory: %w", err)
		}
		result.Memory = &memory
	}
	if o.Record.DataDir != "" {
		disk, err := readDiskUsage(o.Record.DataDir)
		if err != nil {
			return nil, fmt.Errorf("can't read the size of the data directory: %w", err)
		}
		result.Disk = &disk
	}
	return result, nil
}

// check returns what is wrong with the messages.
func (r *backlogResult) check() error {
	var wrong []string
	for _, finding := range []struct {
		count uint64
		what  string
	}{
		{r.Missing, "missing"}, {r.Surplus, "too many"}, {r.Damaged, "damaged"}, {r.OutOfOrder, "out of order"},
	} {
		if finding.count > 0 {
			wrong = append(wrong, fmt.Sprintf("%d %s", finding.count, finding.what))
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("of %d messages: %s", r.Options.Messages, strings.Join(wrong, ", "))
	}
	return nil
}

func (r *backlogResult) writeText(w io.Writer) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-22s %s\n", name, fmt.Sprintf(format, args...))
	}
	line("Broker", "%s %s", r.Versions.BrokerProduct, r.Versions.BrokerVersion)
	line("Messages", "%s of %d bytes", humanCount(r.Options.Messages), r.Options.Size)
	look := func(name string, l *brokerLook) {
		if l == nil {
			return
		}
		if m := l.Memory; m != nil {
			line(name, "RSS %s (peak so far %s), anonymous %s, file %s", humanBytes(m.RSS), humanBytes(m.HWM), humanBytes(m.Anon), humanBytes(m.File))
			name = ""
		}
		if d := l.Disk; d != nil {
			line(name, "%s on disk (%s in %d files), %.1f bytes a message", humanBytes(d.Allocated), humanBytes(d.Apparent), d.Files,
				float64(d.Allocated)/float64(r.Options.Messages))
		}
	}
	phase := func(name string, p *backlogPhase) {
		if p == nil {
			return
		}
		line(name, "%s/s, %s in %.1f s", humanCount(uint64(p.PerSecond)), humanCount(p.Messages), p.Seconds)
		if p.BrokerCPU != nil {
			line("", "broker %.0f ns CPU/message, RSS at most %s", *p.BrokerCPU, humanBytes(p.RSS.Max.RSS))
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
