package admin

import (
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/host"
	"github.com/basaltmq/basaltmq/engine/metrics"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// Node is a node of the cluster: this one.
type Node struct {
	Name           string         `json:"name"`
	Type           string         `json:"type"`
	Running        bool           `json:"running"`
	PID            string         `json:"os_pid"`
	Uptime         int64          `json:"uptime"` // milliseconds
	Processors     int            `json:"processors"`
	RunQueue       int            `json:"run_queue"`
	RatesMode      string         `json:"rates_mode"`
	FDUsed         int            `json:"fd_used"`
	FDTotal        uint64         `json:"fd_total"`
	SocketsUsed    int            `json:"sockets_used"`
	SocketsTotal   uint64         `json:"sockets_total"`
	ProcUsed       int            `json:"proc_used"` // goroutines
	ProcTotal      int            `json:"proc_total"`
	MemUsed        uint64         `json:"mem_used"`
	MemLimit       uint64         `json:"mem_limit"`
	MemAlarm       bool           `json:"mem_alarm"`
	MemStrategy    string         `json:"mem_calculation_strategy"`
	DiskFree       int64          `json:"disk_free"`
	DiskFreeLimit  int64          `json:"disk_free_limit"`
	DiskFreeAlarm  bool           `json:"disk_free_alarm"`
	GCNum          uint32         `json:"gc_num"`
	DBDir          string         `json:"db_dir"`
	ConfigFiles    []string       `json:"config_files"`
	LogFiles       []string       `json:"log_files"`
	EnabledPlugins []string       `json:"enabled_plugins"`
	ExchangeTypes  []ExchangeType `json:"exchange_types"`
	AuthMechanisms []ExchangeType `json:"auth_mechanisms"`
	Applications   []Application  `json:"applications"`
	Contexts       []Context      `json:"contexts"`
	Partitions     []string       `json:"partitions"`
	ClusterLinks   []string       `json:"cluster_links"`
	Maintenance    bool           `json:"being_drained"`

	// Since the start, as monitoring tools read them.
	ContextSwitches    int64         `json:"context_switches"`
	GCReclaimed        uint64        `json:"gc_bytes_reclaimed"`
	ReadBytes          uint64        `json:"io_read_bytes"`
	WrittenBytes       uint64        `json:"io_write_bytes"`
	Writes             uint64        `json:"io_write_count"`
	Syncs              uint64        `json:"io_sync_count"`
	ConnectionsCreated uint64        `json:"connection_created"`
	ConnectionsClosed  uint64        `json:"connection_closed"`
	ChannelsCreated    uint64        `json:"channel_created"`
	ChannelsClosed     uint64        `json:"channel_closed"`
	QueuesDeclared     uint64        `json:"queue_declared"`
	QueuesCreated      uint64        `json:"queue_created"`
	QueuesDeleted      uint64        `json:"queue_deleted"`
	ConnectionsRate    stats.Details `json:"connection_created_details"`
	ClosedRate         stats.Details `json:"connection_closed_details"`
	ChannelsRate       stats.Details `json:"channel_created_details"`
	ChannelsClosedRate stats.Details `json:"channel_closed_details"`
	DeclaredRate       stats.Details `json:"queue_declared_details"`
	QueuesRate         stats.Details `json:"queue_created_details"`
	DeletedRate        stats.Details `json:"queue_deleted_details"`
}

// Application is a part of the program.
type Application struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Version     string `json:"version"`
}

func portText(port uint16) string { return strconv.Itoa(int(port)) }

func (h *Handler) node() Node {
	s := h.Status()
	n := Node{
		Name: h.Node, Type: "disc", Running: true, PID: strconv.Itoa(s.PID), Uptime: s.UptimeSeconds * 1000, Processors: runtime.NumCPU(), RatesMode: "basic",
		SocketsUsed: h.AMQP.Conns(), ProcUsed: runtime.NumGoroutine(), ProcTotal: 1 << 20, MemStrategy: "rss",
		DiskFree: s.DiskFree, DiskFreeLimit: s.DiskFloor, DiskFreeAlarm: s.Alarm != "",
		DBDir: s.DataDir, ConfigFiles: []string{}, LogFiles: []string{}, EnabledPlugins: []string{}, ExchangeTypes: exchangeTypes(),
		AuthMechanisms: []ExchangeType{}, Contexts: h.contexts(), Partitions: []string{}, ClusterLinks: []string{},
		Applications: []Application{{"basaltmq", "BasaltMQ, a message broker", h.Version}},
	}
	for _, name := range h.AMQP.Mechanisms() {
		n.AuthMechanisms = append(n.AuthMechanisms, ExchangeType{name, "SASL " + name, true})
	}
	var memory runtime.MemStats
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		n.FDTotal, n.SocketsTotal = limit.Cur, limit.Cur
	}
	if dir, err := os.Open("/proc/self/fd"); err == nil {
		names, _ := dir.Readdirnames(-1)
		n.FDUsed = len(names)
		dir.Close()
	}
	n.MemUsed, n.MemLimit = residentBytes(), host.Memory()
	runtime.ReadMemStats(&memory)
	n.GCNum, n.GCReclaimed = memory.NumGC, memory.TotalAlloc-memory.HeapAlloc
	h.addCounts(&n)
	return n
}

// addCounts adds what has been counted since the start.
func (h *Handler) addCounts(n *Node) {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		n.ContextSwitches = usage.Nvcsw + usage.Nivcsw
	}
	store := h.Broker.Store().Stats()
	n.ReadBytes, n.WrittenBytes, n.Writes, n.Syncs = store.ReadBytes, store.WrittenBytes, store.Writes, store.Syncs
	if h.Stats == nil {
		return
	}
	_, churn, _ := h.Stats.Totals(metrics.Spans{})
	for _, f := range []struct {
		event stats.Event
		count *uint64
		rate  *stats.Details
	}{
		{stats.ConnectionCreated, &n.ConnectionsCreated, &n.ConnectionsRate}, {stats.ConnectionClosed, &n.ConnectionsClosed, &n.ClosedRate},
		{stats.ChannelCreated, &n.ChannelsCreated, &n.ChannelsRate}, {stats.ChannelClosed, &n.ChannelsClosed, &n.ChannelsClosedRate},
		{stats.QueueDeclared, &n.QueuesDeclared, &n.DeclaredRate}, {stats.QueueCreated, &n.QueuesCreated, &n.QueuesRate}, {stats.QueueDeleted, &n.QueuesDeleted, &n.DeletedRate},
	} {
		figure := stats.FirstEvent + stats.Figure(f.event)
		*f.count, *f.rate = churn.Value(figure), churn.Details(figure)
	}
}

// residentBytes is the process's resident memory; 0 where it is not known.
func residentBytes() uint64 {
	data, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(data))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseUint(fields[1], 10, 64)
	return pages * uint64(os.Getpagesize())
}

func (h *Handler) nodeRoutes() {
	h.get("/api/nodes", Monitoring, "The nodes of the cluster: this one", func(q *request) (any, error) { return paged(q, []Node{h.node()}) })
	h.get("/api/nodes/{node}", Monitoring, "A node", func(q *request) (any, error) {
		if err := h.checkNode(q); err != nil {
			return nil, err
		}
		return h.node(), nil
	})
	h.get("/api/nodes/{node}/memory", Monitoring, "What a node uses its memory for", func(q *request) (any, error) {
		if err := h.checkNode(q); err != nil {
			return nil, err
		}
		return map[string]Memory{"memory": memory()}, nil
	})
	h.get("/api/auth/attempts/{node}", Monitoring, "Logins by protocol", func(q *request) (any, error) {
		if err := h.checkNode(q); err != nil {
			return nil, err
		}
		return h.Attempts.Totals(), nil
	})
	h.get("/api/auth/attempts/{node}/source", Monitoring, "Logins by address, user and protocol: those that were seen last", func(q *request) (any, error) {
		if err := h.checkNode(q); err != nil {
			return nil, err
		}
		return h.Attempts.BySource(), nil
	})
	h.change("DELETE /api/auth/attempts/{node}", Administrator, "Count logins anew", h.forgetAttempts)
	h.change("DELETE /api/auth/attempts/{node}/source", Administrator, "Count logins anew", h.forgetAttempts)
	h.get("/api/nodes/gc_stats", Administrator, "What the collector of the Go heap did", func(*request) (any, error) {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return map[string]uint64{"collections": uint64(m.NumGC), "heap_size": m.HeapSys, "heap_used": m.HeapAlloc, "total_allocated": m.TotalAlloc, "pause_total_ns": m.PauseTotalNs}, nil
	})
	collect := func(q *request) (uint64, error) {
		if q.PathValue("node") != "" {
			if err := h.checkNode(q); err != nil {
				return 0, err
			}
		}
		runtime.GC()
		return 0, nil
	}
	h.change("POST /api/nodes/gc_collect", Administrator, "Collect garbage of the Go heap now", collect)
	h.change("POST /api/nodes/{node}/gc_collect", Administrator, "Collect garbage of the Go heap now", collect)
}

func (h *Handler) forgetAttempts(q *request) (uint64, error) {
	if err := h.checkNode(q); err != nil {
		return 0, err
	}
	h.Attempts.Reset()
	return 0, nil
}

// Memory is what memory is used for, in bytes.
type Memory struct {
	Total     uint64 `json:"total"` // resident
	Heap      uint64 `json:"heap"`
	HeapIdle  uint64 `json:"heap_idle"`
	Stacks    uint64 `json:"stacks"`
	OtherGo   uint64 `json:"runtime"`
	Strategy  string `json:"strategy"`
	OffHeap   uint64 `json:"off_heap"` // buffers and the program itself: the rest
	Collected uint64 `json:"allocated_so_far"`
}

func memory() Memory {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	out := Memory{
		Total: residentBytes(), Heap: m.HeapInuse, HeapIdle: m.HeapIdle - m.HeapReleased, Stacks: m.StackInuse,
		OtherGo: m.MSpanInuse + m.MCacheInuse + m.BuckHashSys + m.GCSys + m.OtherSys, Strategy: "rss", Collected: m.TotalAlloc,
	}
	if known := out.Heap + out.HeapIdle + out.Stacks + out.OtherGo; out.Total > known {
		out.OffHeap = out.Total - known
	}
	return out
}
