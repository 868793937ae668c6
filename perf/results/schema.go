package results

// Head is what the JSON of every result has, whatever was measured.
type Head struct {
	Scenario    string      `json:"scenario"`
	Interrupted bool        `json:"interrupted"`
	Error       string      `json:"error,omitempty"` // that ended the run early
	Versions    Versions    `json:"versions"`
	Environment Environment `json:"environment"`
}

// Versions names the tool and the broker.
type Versions struct {
	Tool          string `json:"tool"`
	BrokerProduct string `json:"broker_product,omitempty"`
	BrokerVersion string `json:"broker_version,omitempty"`
}

// Memory is a process's memory in bytes, as /proc/PID/status names it.
type Memory struct {
	RSS  uint64 `json:"vm_rss"`   // resident now
	HWM  uint64 `json:"vm_hwm"`   // most ever resident
	Anon uint64 `json:"rss_anon"` // heap, stacks, anonymous mappings
	File uint64 `json:"rss_file"` // mapped files, the binary among them
}

// Max takes the larger of each figure.
func (m Memory) Max(other Memory) Memory {
	return Memory{
		RSS: max(m.RSS, other.RSS), HWM: max(m.HWM, other.HWM),
		Anon: max(m.Anon, other.Anon), File: max(m.File, other.File),
	}
}

// RSS is the broker's memory samples.
type RSS struct {
	Last Memory `json:"last"`
	Max  Memory `json:"max"`
}

// Latency is the latency part of a result, in microseconds.
type Latency struct {
	Samples int64   `json:"samples"`
	Stale   uint64  `json:"stale_messages"` // stamped before the run began
	Min     float64 `json:"min_us"`
	Mean    float64 `json:"mean_us"`
	P50     float64 `json:"p50_us"`
	P75     float64 `json:"p75_us"`
	P90     float64 `json:"p90_us"`
	P95     float64 `json:"p95_us"`
	P99     float64 `json:"p99_us"`
	P999    float64 `json:"p99_9_us"`
	P9999   float64 `json:"p99_99_us"`
	Max     float64 `json:"max_us"`
}

// Writes is the write amplification of a span of time: by pages that became
// dirty (write_bytes of /proc/PID/io), and by bytes passed to write calls (wchar).
type Writes struct {
	Bytes            uint64  `json:"bytes"` // that the broker caused to be written
	PerPayload       float64 `json:"bytes_per_payload_byte"`
	PerRecord        float64 `json:"bytes_per_record_byte"`
	Called           uint64  `json:"write_call_bytes,omitempty"` // 0 in results older than this figure
	CalledPerPayload float64 `json:"write_call_bytes_per_payload_byte,omitempty"`
	CalledPerRecord  float64 `json:"write_call_bytes_per_record_byte,omitempty"`
}

// RelayFraction sets a throughput against the bare relay, measured right
// before and after it: messages a second of the same size on the wire.
type RelayFraction struct {
	Before   float64 `json:"before_messages_per_s"`
	After    float64 `json:"after_messages_per_s"`
	Fraction float64 `json:"fraction"` // of their mean; consumed, or published where nobody consumes
}

// RawDisk is one measurement of the raw disk.
type RawDisk struct {
	Mode             string  `json:"mode"`
	RecordsPerBatch  int     `json:"records_per_batch"`
	BatchBytes       int     `json:"batch_bytes"`
	Syncs            int64   `json:"syncs"`
	SyncsPerSecond   float64 `json:"syncs_per_s"`
	RecordsPerSecond float64 `json:"records_per_s"`
	BytesPerSecond   float64 `json:"bytes_per_s"`
	P50              float64 `json:"write_sync_p50_us"` // of a write and its sync together
	P99              float64 `json:"write_sync_p99_us"`
}

// The two ways to write of a [RawDisk].
const (
	RawAppend    = "append"
	RawOverwrite = "overwrite"
)

// RawComparison sets confirms against the raw disk: batches of as many records
// as may be unconfirmed, measured right before and after.
type RawComparison struct {
	Before       RawDisk `json:"before"`
	After        RawDisk `json:"after"`
	RateRatio    float64 `json:"rate_ratio"`    // confirmed/s by raw records/s, the mean of both
	LatencyRatio float64 `json:"latency_ratio"` // median of confirms by median of raw writes, the mean of both
}

// DiskUsage is what a directory takes.
type DiskUsage struct {
	Allocated uint64 `json:"allocated_bytes"` // blocks, holes and pre-allocation accounted for as the filesystem does
	Apparent  uint64 `json:"apparent_bytes"`  // lengths of the files
	Files     int    `json:"files"`
}
