package results

import "fmt"

// Fanout is the JSON result of the fanout scenario, as far as it is shown.
type Fanout struct {
	Rows    []*FanoutRow `json:"rows"`
	Options *RowsLoad    `json:"options"`
}

// Latencies is the JSON result of the latency scenario, as far as it is shown.
type Latencies struct {
	Rows    []*LatencyRow `json:"rows"`
	Options *RowsLoad     `json:"options"`
}

// Check looks for what the rendering relies on, and for lost messages.
func (l *Latencies) Check() error {
	for _, row := range l.Rows {
		if row != nil && row.Missing > 0 && !row.Interrupted && !row.GivenUp {
			return fmt.Errorf("%d/s: %d of %d messages did not arrive", row.Rate, row.Missing, row.Published)
		}
	}
	return checkRows(l.Rows)
}

// Churn is the JSON result of the churn scenarios, as far as it is shown.
type Churn struct {
	Unit string      `json:"unit"` // what an operation is
	Rows []*ChurnRow `json:"rows"`
}

// Check looks for what the rendering relies on, and for rows in which nothing
// was done.
func (c *Churn) Check() error {
	for _, row := range c.Rows {
		if row != nil && row.PerSecond <= 0 {
			return fmt.Errorf("%s, window %d: the broker did nothing in %.1f s", row.Kind, row.Window, row.Seconds)
		}
	}
	return checkRows(c.Rows)
}

// Population is the JSON result of the count scenarios, as far as it is shown.
type Population struct {
	Unit string      `json:"unit"`
	Rows []*CountRow `json:"rows"`
}

// RowsLoad is what describes the load of a result of several rows.
type RowsLoad struct {
	Size       uint64 `json:"size"`
	Publishers int    `json:"publishers"`
	Consumers  int    `json:"consumers"`
}

// FanoutRow is one number of queues.
type FanoutRow struct {
	Queues      int  `json:"queues"`
	Interrupted bool `json:"interrupted,omitempty"`

	Seconds            float64   `json:"seconds"`
	PublishedPerSecond float64   `json:"published_per_s"`
	DeliveredPerSecond float64   `json:"delivered_per_s"` // by all queues together
	BrokerCPU          *float64  `json:"broker_cpu_ns_per_delivery,omitempty"`
	BrokerCores        *float64  `json:"broker_cpu_cores,omitempty"`
	BrokerThread       *float64  `json:"broker_busiest_thread,omitempty"`
	RSS                *RSS      `json:"rss,omitempty"`
	ClientCPU          float64   `json:"client_cpu_ns_per_delivery"`
	ClientCores        float64   `json:"client_cpu_cores"`
	ClientLoops        []float64 `json:"client_loops_busy"`
	Bottleneck         bool      `json:"client_is_bottleneck"`
}

// LatencyRow is one rate.
type LatencyRow struct {
	Rate        uint64 `json:"rate"` // intended, messages a second
	Interrupted bool   `json:"interrupted,omitempty"`

	Seconds            float64      `json:"seconds"`
	PublishedPerSecond float64      `json:"published_per_s"`
	ConsumedPerSecond  float64      `json:"consumed_per_s"`
	Published          uint64       `json:"published_total"`    // warm-up included
	Missing            uint64       `json:"missing"`            // of those, at the end
	GivenUp            bool         `json:"given_up,omitempty"` // the broker was too far behind to wait for the rest
	Latency            *Latency     `json:"latency"`            // from the intended time to the consumer's read
	SendDelay          *Latency     `json:"send_delay"`         // from the intended time to this tool's write
	Relay              *Latency     `json:"relay,omitempty"`    // of the same messages through the bare relay, before and after
	Series             []Percentile `json:"series,omitempty"`
	BrokerCPU          *float64     `json:"broker_cpu_ns_per_message,omitempty"`
	BrokerCores        *float64     `json:"broker_cpu_cores,omitempty"`
	BrokerThread       *float64     `json:"broker_busiest_thread,omitempty"`
	RSS                *RSS         `json:"rss,omitempty"`
	ClientCPU          float64      `json:"client_cpu_ns_per_message"`
	ClientCores        float64      `json:"client_cpu_cores"`
	ClientLoops        []float64    `json:"client_loops_busy"`
	Bottleneck         bool         `json:"client_is_bottleneck"`
	KeptUp             bool         `json:"kept_up"` // published at the rate that was intended
}

// Percentile is one point of a percentile series: so many messages had at
// most that latency.
type Percentile struct {
	Percentile float64 `json:"percentile"`
	Value      float64 `json:"us"`
	Count      int64   `json:"count"`
}

// ChurnRow is one kind of thing and one window.
type ChurnRow struct {
	Kind        string `json:"kind,omitempty"`
	Window      int    `json:"window"` // operations unanswered at a time, of each connection
	Connections int    `json:"connections"`
	Interrupted bool   `json:"interrupted,omitempty"`

	Seconds    float64  `json:"seconds"`
	Operations uint64   `json:"operations"` // in these
	PerSecond  float64  `json:"operations_per_s"`
	Latency    *Latency `json:"latency"` // of whole operations

	BrokerCPU     *float64  `json:"broker_cpu_ns_per_operation,omitempty"`
	BrokerCores   *float64  `json:"broker_cpu_cores,omitempty"`
	BrokerThread  *float64  `json:"broker_busiest_thread,omitempty"`
	BrokerWritten *float64  `json:"broker_written_bytes_per_operation,omitempty"`
	RSS           *RSS      `json:"rss,omitempty"`
	ClientCPU     float64   `json:"client_cpu_ns_per_operation"`
	ClientCores   float64   `json:"client_cpu_cores"`
	ClientLoops   []float64 `json:"client_loops_busy"`
	Bottleneck    bool      `json:"client_is_bottleneck"`
}

// CountRow is what the broker is like with so many things.
type CountRow struct {
	Count      int         `json:"count"`
	Seconds    float64     `json:"seconds"` // making those that were not there before
	PerSecond  float64     `json:"per_s"`
	BrokerCPU  *float64    `json:"broker_cpu_ns_each,omitempty"`
	ClientCPU  float64     `json:"client_cpu_ns_each"`
	Bottleneck bool        `json:"client_is_bottleneck"`
	Look       *BrokerLook `json:"broker"`
	// Growth of VmRSS since the beginning by the count, and since the row
	// before by those that came with this one.
	BytesEach     *float64 `json:"vm_rss_bytes_each,omitempty"`
	BytesEachMore *float64 `json:"vm_rss_bytes_each_more,omitempty"`
}
