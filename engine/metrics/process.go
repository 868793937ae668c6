package metrics

import (
	"bytes"
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/host"
)

// process are the operating system's figures of this process, and the runtime's.
type process struct {
	residentBytes  uint64
	openFiles      uint64
	maxFiles       uint64
	userSeconds    float64
	systemSeconds  float64
	memoryLimit    uint64 // of the machine, or of the control group
	goroutines     int
	heapBytes      uint64
	runtimeBytes   uint64
	collections    uint64
	allocatedBytes uint64
}

// runtimeNames are what is read of the Go runtime; reading them stops nothing.
var runtimeNames = []string{
	"/memory/classes/heap/objects:bytes", "/memory/classes/total:bytes", "/gc/cycles/total:gc-cycles",
	"/gc/heap/allocs:bytes",
}

func readProcess() (p process) {
	samples := make([]metrics.Sample, len(runtimeNames))
	for i, name := range runtimeNames {
		samples[i].Name = name
	}
	metrics.Read(samples)
	p.goroutines = runtime.NumGoroutine()
	p.heapBytes, p.runtimeBytes = samples[0].Value.Uint64(), samples[1].Value.Uint64()
	p.collections, p.allocatedBytes = samples[2].Value.Uint64(), samples[3].Value.Uint64()

	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) == nil {
		p.userSeconds = float64(usage.Utime.Nano()) / 1e9
		p.systemSeconds = float64(usage.Stime.Nano()) / 1e9
	}
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil {
		p.maxFiles = limit.Cur
	}
	if statm, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(statm); len(fields) > 1 {
			pages, _ := strconv.ParseUint(string(fields[1]), 10, 64)
			p.residentBytes = pages * uint64(os.Getpagesize())
		}
	}
	p.openFiles = openFiles()
	p.memoryLimit = host.Memory()
	return p
}

// openFiles is how many descriptors are open. The kernel tells it as the size of
// the directory since 6.2; before, it has to be read.
func openFiles() uint64 {
	const dir = "/proc/self/fd"
	if info, err := os.Stat(dir); err == nil && info.Size() > 0 {
		return uint64(info.Size())
	}
	d, err := os.Open(dir)
	if err != nil {
		return 0
	}
	defer d.Close()
	n := uint64(0)
	for {
		names, err := d.Readdirnames(1024)
		n += uint64(len(names))
		if err != nil {
			return n
		}
	}
}
