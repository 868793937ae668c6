package results

import (
	"fmt"
	"strings"
)

// Throughput is the JSON result of the throughput scenario. Rates, CPU and
// latency cover the measured window; totals the whole run, warm-up included.
type Throughput struct {
	Scenario    string  `json:"scenario"`
	Seconds     float64 `json:"seconds"` // of the measured window
	Interrupted bool    `json:"interrupted"`
	Error       string  `json:"error,omitempty"`

	PublishedPerSecond float64 `json:"published_per_s"`
	ConsumedPerSecond  float64 `json:"consumed_per_s"`
	ConfirmedPerSecond float64 `json:"confirmed_per_s"`
	PublishedTotal     uint64  `json:"published_total"`
	ConsumedTotal      uint64  `json:"consumed_total"`
	ConfirmedTotal     uint64  `json:"confirmed_total"`
	NackedTotal        uint64  `json:"nacked_total"`
	AckedTotal         uint64  `json:"acked_total"`
	VerifyFailures     uint64  `json:"verify_failures"`
	OutOfOrder         uint64  `json:"out_of_order"`
	BacklogAtStart     uint64  `json:"backlog_at_start"`   // messages in the named queues
	PublishWireBytes   int     `json:"publish_wire_bytes"` // per message
	BytesOutPerSecond  float64 `json:"bytes_out_per_s"`
	BytesInPerSecond   float64 `json:"bytes_in_per_s"`

	Latency *Latency `json:"latency,omitempty"`

	// Per message published or consumed, whichever was more.
	BrokerCPU    *float64  `json:"broker_cpu_ns_per_message,omitempty"`
	BrokerCores  *float64  `json:"broker_cpu_cores,omitempty"`
	BrokerThread *float64  `json:"broker_busiest_thread,omitempty"` // share of its time running or waiting for a core
	WriteCosts   *Writes   `json:"broker_writes,omitempty"`
	ClientCPU    float64   `json:"client_cpu_ns_per_message"`
	ClientCores  float64   `json:"client_cpu_cores"`
	ClientLoops  []float64 `json:"client_loops_busy"` // shares, as broker_busiest_thread
	Bottleneck   bool      `json:"client_is_bottleneck"`

	RSS         *RSS            `json:"rss,omitempty"`
	Relay       *RelayFraction  `json:"relay,omitempty"`
	Options     *ThroughputLoad `json:"options"`
	Versions    Versions        `json:"versions"`
	Environment Environment     `json:"environment"`
}

// ThroughputLoad is what describes the load of a throughput result; the file
// holds all the other options as well.
type ThroughputLoad struct {
	Publishers    int    `json:"publishers"`
	Consumers     int    `json:"consumers"`
	Size          uint64 `json:"size"`
	AckEvery      int    `json:"ack_every"`
	ConfirmWindow int    `json:"confirm_window"`
	TxPublishes   int    `json:"tx_publishes"`
	QueuePattern  string `json:"queue_pattern,omitempty"`
	PatternFrom   int    `json:"queue_pattern_from,omitempty"`
	PatternTo     int    `json:"queue_pattern_to,omitempty"`
	PublishRate   uint64 `json:"rate"`
	ConsumeRate   uint64 `json:"consumer_rate"`
	Persistent    bool   `json:"persistent"`
	Prefetch      int    `json:"prefetch"`
	Poll          bool   `json:"poll"`
}

// Confirm is the JSON result of the confirm scenario.
type Confirm struct {
	Scenario    string        `json:"scenario"`
	Interrupted bool          `json:"interrupted"`
	Error       string        `json:"error,omitempty"`
	Rows        []*ConfirmRow `json:"rows"`
	Options     *ConfirmLoad  `json:"options"`
	Versions    Versions      `json:"versions"`
	Environment Environment   `json:"environment"`
}

// ConfirmLoad is what describes the load of a confirm result.
type ConfirmLoad struct {
	Size        uint64 `json:"size"`
	Connections int    `json:"connections"`
}

// ConfirmRow is one combination.
type ConfirmRow struct {
	Queues      int  `json:"queues"`
	Window      int  `json:"window"`       // of each channel
	TotalWindow int  `json:"total_window"` // of all channels
	Channels    int  `json:"channels"`
	Connections int  `json:"connections"`
	Interrupted bool `json:"interrupted,omitempty"`

	Seconds            float64  `json:"seconds"`
	ConfirmedPerSecond float64  `json:"confirmed_per_s"`
	NackedTotal        uint64   `json:"nacked_total"`
	Latency            *Latency `json:"latency"` // from sending to the confirm

	BrokerCPU   *float64 `json:"broker_cpu_ns_per_message,omitempty"`
	BrokerCores *float64 `json:"broker_cpu_cores,omitempty"`
	RSS         *RSS     `json:"rss,omitempty"`
	WriteCosts  *Writes  `json:"broker_writes,omitempty"`
	ClientCPU   float64  `json:"client_cpu_ns_per_message"`
	Bottleneck  bool     `json:"client_is_bottleneck"`

	RawAppend    *RawComparison `json:"raw_append,omitempty"`
	RawOverwrite *RawComparison `json:"raw_overwrite,omitempty"`
	// With many queues: the rate as a fraction of what one queue reached in the
	// same run (the mean of all such rows), with one channel and the same total
	// window, and with the same channels, connections and windows.
	OfOneQueue             *float64 `json:"of_one_queue,omitempty"`
	OfOneQueueSameChannels *float64 `json:"of_one_queue_same_channels,omitempty"`
}

// DescribeCombination names a combination in an error; the channels only where
// there is not one for each queue.
func DescribeCombination(queues, window, channels int) string {
	text := fmt.Sprintf("%d queues, window %d", queues, window)
	if channels > queues {
		text += fmt.Sprintf(", %d channels", channels)
	}
	return text
}

// Check returns what makes the run a failure although it was measured.
func (r *Confirm) Check() error {
	for _, row := range r.Rows {
		switch {
		case row.NackedTotal > 0:
			return fmt.Errorf("%s: the broker refused %d messages (basic.nack)", DescribeCombination(row.Queues, row.Window, row.Channels), row.NackedTotal)
		case row.ConfirmedPerSecond == 0 && !row.Interrupted:
			return fmt.Errorf("%s: the broker confirmed nothing", DescribeCombination(row.Queues, row.Window, row.Channels))
		}
	}
	return nil
}

// Backlog is the JSON result of the backlog scenario.
type Backlog struct {
	Scenario    string `json:"scenario"`
	Interrupted bool   `json:"interrupted"`
	Error       string `json:"error,omitempty"`

	Before  *BrokerLook   `json:"before,omitempty"` // idle, queue empty
	Fill    *BacklogPhase `json:"fill,omitempty"`
	Filled  *BrokerLook   `json:"filled,omitempty"` // all messages queued, and a rest
	Drain   *BacklogPhase `json:"drain,omitempty"`
	Drained *BrokerLook   `json:"drained,omitempty"`

	Missing    uint64 `json:"missing"`
	Surplus    uint64 `json:"surplus"` // delivered or left beyond what was published
	Damaged    uint64 `json:"damaged"`
	OutOfOrder uint64 `json:"out_of_order"`

	Options     *BacklogLoad `json:"options"`
	Versions    Versions     `json:"versions"`
	Environment Environment  `json:"environment"`
}

// BacklogLoad is what describes the load of a backlog result.
type BacklogLoad struct {
	Messages uint64 `json:"messages"`
	Size     uint64 `json:"size"`
}

// BrokerLook is the broker's memory and disk at one moment.
type BrokerLook struct {
	Memory *Memory    `json:"memory,omitempty"` // vm_hwm: the most since the broker started
	Disk   *DiskUsage `json:"disk,omitempty"`
}

// BacklogPhase is the figures of filling or draining.
type BacklogPhase struct {
	Seconds     float64  `json:"seconds"` // filling: until the broker counts them all; draining: from connecting to the last message
	Messages    uint64   `json:"messages"`
	PerSecond   float64  `json:"messages_per_s"`
	BrokerCPU   *float64 `json:"broker_cpu_ns_per_message,omitempty"`
	BrokerCores *float64 `json:"broker_cpu_cores,omitempty"`
	ClientCPU   float64  `json:"client_cpu_ns_per_message"`
	Bottleneck  bool     `json:"client_is_bottleneck"`
	RSS         *RSS     `json:"rss,omitempty"`
	Samples     []uint64 `json:"vm_rss_samples,omitempty"` // once a second, thinned out over a long run
	WriteCosts  *Writes  `json:"broker_writes,omitempty"`
}

// Check returns what is wrong with the messages, of which so many were
// published.
func (r *Backlog) Check(messages uint64) error {
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
		return fmt.Errorf("of %d messages: %s", messages, strings.Join(wrong, ", "))
	}
	return nil
}

// Calibrate is the JSON result of the calibrate scenario: the yardsticks.
type Calibrate struct {
	Scenario            string         `json:"scenario"`
	Seconds             float64        `json:"seconds"` // of the relay
	Interrupted         bool           `json:"interrupted"`
	MessagesPerSecond   float64        `json:"relay_messages_per_s"`
	BytesPerSecond      float64        `json:"relay_bytes_per_s"`
	WireBytes           int            `json:"publish_wire_bytes"`
	RelayCPU            float64        `json:"relay_cpu_ns_per_message"`
	ClientCPU           float64        `json:"client_cpu_ns_per_message"`
	MemoryCopyPerSecond float64        `json:"memory_copy_bytes_per_s"` // one thread
	Disk                []RawDisk      `json:"disk,omitempty"`
	Options             *CalibrateLoad `json:"options"`
	Versions            Versions       `json:"versions"`
	Environment         Environment    `json:"environment"`
}

// CalibrateLoad is what describes what was measured.
type CalibrateLoad struct {
	Size uint64 `json:"size"`
}
