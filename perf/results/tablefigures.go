package results

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/basaltmq/basaltmq/perf/stats"
)

func (s *section) renderThroughput(w io.Writer) {
	type run = *Throughput
	names, groups := runs(s, func(r *Recorded) *Throughput { return r.Throughput })
	if len(names) == 0 {
		return
	}
	columns := []column[run]{
		{"consumed/s", func(r run) (float64, bool) { return r.ConsumedPerSecond, r.Options.Consumers > 0 }, perSecondText},
		{"published/s", func(r run) (float64, bool) { return r.PublishedPerSecond, r.Options.Publishers > 0 }, perSecondText},
		{"of relay", func(r run) (float64, bool) {
			if r.Relay == nil || r.Options.PublishRate+r.Options.ConsumeRate > 0 {
				return 0, false // a rate that was asked for is no achievement
			}
			return r.Relay.Fraction, true
		}, fractionText},
		{"relay, messages/s", func(r run) (float64, bool) {
			if r.Relay == nil {
				return 0, false
			}
			return stats.Mean(r.Relay.Before, r.Relay.After), true
		}, perSecondText},
		{"p50 µs", func(r run) (float64, bool) {
			return latencyOf(r.Latency, func(l *Latency) float64 { return l.P50 })
		}, wholeText},
		{"p99 µs", func(r run) (float64, bool) {
			return latencyOf(r.Latency, func(l *Latency) float64 { return l.P99 })
		}, wholeText},
		{"p99.9 µs", func(r run) (float64, bool) {
			return latencyOf(r.Latency, func(l *Latency) float64 { return l.P999 })
		}, wholeText},
		{"broker CPU ns/message", func(r run) (float64, bool) { return optional(r.BrokerCPU) }, wholeText},
		{"RSS at most", func(r run) (float64, bool) { return rssMost(r.RSS) }, bytesText},
		{"written by payload", func(r run) (float64, bool) {
			if r.WriteCosts == nil || r.WriteCosts.PerPayload == 0 {
				return 0, false
			}
			return r.WriteCosts.PerPayload, true
		}, fractionText},
		{"write calls by record", func(r run) (float64, bool) {
			if r.WriteCosts == nil || r.WriteCosts.Called == 0 {
				return 0, false
			}
			return r.WriteCosts.CalledPerRecord, true
		}, fractionText},
	}
	rows := make([][]string, len(names))
	for i, name := range names {
		rows[i] = []string{tableCell(name), describeThroughput(groups[i][0].Options)}
	}
	fmt.Fprintf(w, "\n### Throughput and latency\n")
	writeTable(w, []string{"figure", "load"}, rows, groups, columns)
}

// describeThroughput says in words what the options mean.
func describeThroughput(o *ThroughputLoad) string {
	parts := []string{fmt.Sprintf("%s B", HumanCount(o.Size)), countOf(o.Publishers, "publisher"), countOf(o.Consumers, "consumer")}
	add := func(when bool, format string, args ...any) {
		if when {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(o.QueuePattern != "", "%d queues", o.PatternTo-o.PatternFrom+1)
	add(o.Persistent, "persistent")
	add(o.Consumers > 0 && o.AckEvery == 0, "auto-ack")
	add(o.AckEvery > 0, "acks of %d", o.AckEvery)
	add(o.Prefetch > 0, "prefetch %d", o.Prefetch)
	add(o.ConfirmWindow > 0, "confirm window %d", o.ConfirmWindow)
	add(o.TxPublishes > 0, "transactions of %d", o.TxPublishes)
	add(o.PublishRate > 0, "%s/s per publisher, open loop", HumanCount(o.PublishRate))
	add(o.Poll, "basic.get")
	return strings.Join(parts, ", ")
}

func countOf(count int, what string) string {
	if count == 1 {
		return "1 " + what
	}
	return HumanCount(uint64(count)) + " " + what + "s"
}

func latencyOf(l *Latency, pick func(*Latency) float64) (float64, bool) {
	if l == nil {
		return 0, false
	}
	return pick(l), true
}

func rssMost(r *RSS) (float64, bool) {
	if r == nil {
		return 0, false
	}
	return float64(r.Max.RSS), true
}

func (s *section) renderConfirm(w io.Writer) {
	type run = *ConfirmRow
	names, results := runs(s, func(r *Recorded) *Confirm { return r.Confirm })
	for i, name := range names {
		o := results[i][0].Options
		var groups [][]run
		for _, result := range results[i] {
			for at, row := range result.Rows {
				if at == len(groups) {
					groups = append(groups, nil)
				}
				// Runs of one name have the same combinations; one that does
				// not must not be mixed in.
				if len(groups[at]) == 0 || sameCombination(groups[at][0], row) {
					groups[at] = append(groups[at], row)
				}
			}
		}
		rows := make([][]string, len(groups))
		for at, group := range groups {
			rows[at] = []string{HumanCount(uint64(group[0].Queues)), HumanCount(uint64(group[0].Window)), HumanCount(uint64(group[0].Channels))}
		}
		fmt.Fprintf(w, "\n### Confirms: %s\n\n%s-byte persistent messages, durable queues, %s, windows per channel; durability: %s.\n",
			name, HumanCount(o.Size), countOf(o.Connections, "connection"), cmp.Or(s.results[0].Head.Environment.Durability, "unknown"))
		writeTable(w, []string{"queues", "window", "channels"}, rows, groups, confirmColumns())
	}
}

func sameCombination(a, b *ConfirmRow) bool {
	return a.Queues == b.Queues && a.Window == b.Window && a.Channels == b.Channels && a.Connections == b.Connections
}

func confirmColumns() []column[*ConfirmRow] {
	type run = *ConfirmRow
	raw := func(pick func(run) *RawComparison, get func(*RawComparison) float64) func(run) (float64, bool) {
		return func(r run) (float64, bool) {
			if pick(r) == nil {
				return 0, false
			}
			return get(pick(r)), true
		}
	}
	appended := func(r run) *RawComparison { return r.RawAppend }
	overwritten := func(r run) *RawComparison { return r.RawOverwrite }
	rate := func(c *RawComparison) float64 { return c.RateRatio }
	latency := func(c *RawComparison) float64 { return c.LatencyRatio }
	syncs := func(c *RawComparison) float64 { return stats.Mean(c.Before.SyncsPerSecond, c.After.SyncsPerSecond) }
	inBrackets := func(value float64) string { return fmt.Sprintf("(%.2f)", value) }
	writes := func(get func(*Writes) float64) func(run) (float64, bool) {
		return func(r run) (float64, bool) {
			if r.WriteCosts == nil {
				return 0, false
			}
			return get(r.WriteCosts), true
		}
	}
	return []column[run]{
		{"confirmed/s", func(r run) (float64, bool) { return r.ConfirmedPerSecond, true }, perSecondText},
		{"p50 µs", func(r run) (float64, bool) { return r.Latency.P50, true }, wholeText},
		{"p99 µs", func(r run) (float64, bool) { return r.Latency.P99, true }, wholeText},
		{"p99.9 µs", func(r run) (float64, bool) { return r.Latency.P999, true }, wholeText},
		{"of append", raw(appended, rate), fractionText},
		{"", raw(appended, latency), inBrackets},
		{"of overwrite", raw(overwritten, rate), fractionText},
		{"", raw(overwritten, latency), inBrackets},
		{"raw append, syncs/s", raw(appended, syncs), perSecondText},
		{"raw overwrite, syncs/s", raw(overwritten, syncs), perSecondText},
		{"of one queue", func(r run) (float64, bool) { return optional(r.OfOneQueue) }, fractionText},
		{"of one queue, same channels", func(r run) (float64, bool) { return optional(r.OfOneQueueSameChannels) }, fractionText},
		{"broker CPU ns/message", func(r run) (float64, bool) { return optional(r.BrokerCPU) }, wholeText},
		{"RSS at most", func(r run) (float64, bool) { return rssMost(r.RSS) }, bytesText},
		{"written by payload", writes(func(c *Writes) float64 { return c.PerPayload }), fractionText},
		{"by record", writes(func(c *Writes) float64 { return c.PerRecord }), fractionText},
		{"write calls by record", writes(func(c *Writes) float64 { return c.CalledPerRecord }), fractionText},
	}
}

func (s *section) renderBacklog(w io.Writer) {
	type run = *Backlog
	names, groups := runs(s, func(r *Recorded) *Backlog { return r.Backlog })
	if len(names) == 0 {
		return
	}
	memory := func(pick func(run) *BrokerLook, get func(*Memory) uint64) func(run) (float64, bool) {
		return func(r run) (float64, bool) {
			if look := pick(r); look != nil && look.Memory != nil {
				return float64(get(look.Memory)), true
			}
			return 0, false
		}
	}
	rss := func(m *Memory) uint64 { return m.RSS }
	peak := func(m *Memory) uint64 { return m.HWM }
	filled := func(r run) *BrokerLook { return r.Filled }
	columns := []column[run]{
		{"filled/s", func(r run) (float64, bool) { return r.Fill.PerSecond, true }, perSecondText},
		{"RSS idle", memory(func(r run) *BrokerLook { return r.Before }, rss), bytesText},
		{"RSS full", memory(filled, rss), bytesText},
		{"peak", memory(filled, peak), bytesText},
		{"on disk", func(r run) (float64, bool) {
			if r.Filled.Disk == nil {
				return 0, false
			}
			return float64(r.Filled.Disk.Allocated), true
		}, bytesText},
		{"drained/s", func(r run) (float64, bool) { return r.Drain.PerSecond, true }, perSecondText},
		{"RSS at most, draining", func(r run) (float64, bool) { return rssMost(r.Drain.RSS) }, bytesText},
		{"RSS after", memory(func(r run) *BrokerLook { return r.Drained }, rss), bytesText},
		{"peak after", memory(func(r run) *BrokerLook { return r.Drained }, peak), bytesText},
	}
	rows := make([][]string, len(names))
	for i, name := range names {
		o := groups[i][0].Options
		rows[i] = []string{tableCell(name), fmt.Sprintf("%s of %s B", HumanCount(o.Messages), HumanCount(o.Size))}
	}
	fmt.Fprintf(w, "\n### Backlog\n\nFilled without confirms, drained by one consumer; every message was there, whole and in order.\n")
	writeTable(w, []string{"figure", "messages"}, rows, groups, columns)
}

func (s *section) renderCalibrate(w io.Writer) {
	type run = *Calibrate
	names, groups := runs(s, func(r *Recorded) *Calibrate { return r.Calibrate })
	if len(names) == 0 {
		return
	}
	rows := make([][]string, len(names))
	for i, name := range names {
		rows[i] = []string{tableCell(name)}
	}
	fmt.Fprintf(w, "\n### Yardsticks\n")
	writeTable(w, []string{"figure"}, rows, groups, []column[run]{
		{"relay, messages/s", func(r run) (float64, bool) { return r.MessagesPerSecond, true }, perSecondText},
		{"relay, GB/s", func(r run) (float64, bool) { return r.BytesPerSecond / 1e9, true }, fractionText},
		{"memory copy, GB/s", func(r run) (float64, bool) { return r.MemoryCopyPerSecond / 1e9, r.MemoryCopyPerSecond > 0 }, fractionText},
	})
	s.renderRawDisk(w, groups)
}

func (s *section) renderRawDisk(w io.Writer, groups [][]*Calibrate) {
	var rows [][]string
	var figures [][]RawDisk
	for _, group := range groups {
		for _, result := range group {
			for _, f := range result.Disk {
				key := []string{f.Mode, HumanCount(uint64(f.RecordsPerBatch))}
				at := 0
				for at < len(rows) && (rows[at][0] != key[0] || rows[at][1] != key[1]) {
					at++
				}
				if at == len(rows) {
					rows, figures = append(rows, key), append(figures, nil)
				}
				figures[at] = append(figures[at], f)
			}
		}
	}
	if len(rows) == 0 {
		return
	}
	writeTable(w, []string{"raw disk", "records a batch"}, rows, figures, []column[RawDisk]{
		{"syncs/s", func(f RawDisk) (float64, bool) { return f.SyncsPerSecond, true }, perSecondText},
		{"records/s", func(f RawDisk) (float64, bool) { return f.RecordsPerSecond, true }, perSecondText},
		{"p50 µs", func(f RawDisk) (float64, bool) { return f.P50, true }, wholeText},
		{"p99 µs", func(f RawDisk) (float64, bool) { return f.P99, true }, wholeText},
	})
}
