package results

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"
	"golang.org/x/sys/unix"
)

// Environment is the machine and the software a figure was measured on. A
// figure without it can't be compared with another.
type Environment struct {
	CPU        CPU    `json:"cpu"`
	Machine    string `json:"machine,omitempty"`      // hypervisor, maker and product, container
	Memory     uint64 `json:"memory_bytes,omitempty"` // of the machine
	Kernel     string `json:"kernel"`
	Governor   string `json:"governor,omitempty"`   // of core 0; empty when unknown (virtual machines)
	Filesystem string `json:"filesystem,omitempty"` // of --data-dir
	Mount      string `json:"mount_options,omitempty"`
	IOBackend  string `json:"io_backend,omitempty"` // of the broker
	Durability string `json:"durability,omitempty"`
	Commit     string `json:"commit,omitempty"`
	// KangarooTwelve digests of what was measured and of what measured. The
	// broker's only with --broker-pid, and if its binary may be read.
	BrokerBinary string    `json:"broker_binary_k12,omitempty"`
	PerfBinary   string    `json:"perf_binary_k12,omitempty"`
	GoVersion    string    `json:"go_version"`
	GOOS         string    `json:"goos"`
	GOARCH       string    `json:"goarch"`
	Time         time.Time `json:"time"`
}

// CPU is the processor, as it says itself.
type CPU struct {
	Model      string   `json:"model"`
	Vendor     string   `json:"vendor"`
	Cores      int      `json:"cores"` // usable by this process, hardware threads
	Physical   int      `json:"physical_cores,omitempty"`
	Hypervisor bool     `json:"hypervisor"`
	CacheLine  int      `json:"cache_line_bytes,omitempty"`
	L1Data     int      `json:"l1_data_bytes,omitempty"`
	L2         int      `json:"l2_bytes,omitempty"`
	L3         int      `json:"l3_bytes,omitempty"`
	Features   []string `json:"features"`
}

// Record is what the tool can't find out by itself about what it measures.
type Record struct {
	DataDir    string `json:"-"` // the broker's; its name says nothing, its filesystem much
	IOBackend  string `json:"-"`
	Durability string `json:"-"`
	Commit     string `json:"-"`
}

// ReadEnvironment looks at the machine.
func ReadEnvironment(record Record) Environment {
	return Environment{
		CPU: CPU{
			Model:      cpuModel(),
			Vendor:     cpuid.CPU.VendorString,
			Cores:      runtime.NumCPU(),
			Physical:   cpuid.CPU.PhysicalCores,
			Hypervisor: cpuid.CPU.Supports(cpuid.HYPERVISOR),
			CacheLine:  max(cpuid.CPU.CacheLine, 0),
			L1Data:     max(cpuid.CPU.Cache.L1D, 0),
			L2:         max(cpuid.CPU.Cache.L2, 0),
			L3:         max(cpuid.CPU.Cache.L3, 0),
			Features:   cpuid.CPU.FeatureSet(),
		},
		Machine:    machineHint(),
		Memory:     memoryBytes(),
		Kernel:     kernelRelease(),
		Governor:   readTrimmed("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
		Filesystem: filesystemName(record.DataDir),
		Mount:      mountOptions(record.DataDir),
		IOBackend:  record.IOBackend,
		Durability: record.Durability,
		Commit:     record.Commit,
		GoVersion:  runtime.Version(),
		GOOS:       runtime.GOOS,
		GOARCH:     runtime.GOARCH,
		Time:       time.Now().UTC().Truncate(time.Second),
	}
}

func readTrimmed(path string) string {
	raw, _ := os.ReadFile(path)
	return strings.TrimSpace(string(raw))
}

func kernelRelease() string {
	var name unix.Utsname
	if unix.Uname(&name) != nil {
		return ""
	}
	return unix.ByteSliceToString(name.Sysname[:]) + " " + unix.ByteSliceToString(name.Release[:])
}

// filesystems names the magic numbers of statfs(2) that a data directory is
// likely to have.
var filesystems = map[int64]string{
	unix.EXT4_SUPER_MAGIC:      "ext4", // ext2 and ext3 too
	unix.XFS_SUPER_MAGIC:       "xfs",
	unix.BTRFS_SUPER_MAGIC:     "btrfs",
	unix.TMPFS_MAGIC:           "tmpfs",
	unix.OVERLAYFS_SUPER_MAGIC: "overlayfs",
	unix.NFS_SUPER_MAGIC:       "nfs",
	unix.F2FS_SUPER_MAGIC:      "f2fs",
	0x2FC12FC1:                 "zfs",
}

func filesystemName(path string) string {
	if path == "" {
		return ""
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(path, &stat); err != nil {
		return ""
	}
	magic := int64(uint32(stat.Type))
	if name := filesystems[magic]; name != "" {
		return name
	}
	return fmt.Sprintf("%#x", magic)
}
