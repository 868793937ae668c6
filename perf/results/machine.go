package results

import (
	"bytes"
	"os"
	"strconv"
	"strings"

	"github.com/klauspost/cpuid/v2"
)

// cpuModel is the processor's own name, or on arm64, which has none that a
// program could ask for, what its identification register stands for.
func cpuModel() string {
	if cpuid.CPU.BrandName != "" {
		return cpuid.CPU.BrandName
	}
	raw, _ := os.ReadFile("/proc/cpuinfo")
	return parseARMModel(raw)
}

// armParts names the cores of servers by implementer and part of MIDR_EL1.
var armParts = map[string]string{
	"0x41/0xd08": "Arm Cortex-A72",    // Graviton 1
	"0x41/0xd0c": "Arm Neoverse N1",   // Graviton 2, Ampere Altra
	"0x41/0xd40": "Arm Neoverse V1",   // Graviton 3
	"0x41/0xd49": "Arm Neoverse N2",   // Cobalt 100
	"0x41/0xd4f": "Arm Neoverse V2",   // Graviton 4, Grace, Axion
	"0xc0/0xac3": "Ampere AmpereOne",  //
	"0xc0/0xac4": "Ampere AmpereOne+", //
}

// parseARMModel reads the first processor of an arm64 /proc/cpuinfo.
func parseARMModel(cpuinfo []byte) string {
	implementer, part := colonField(cpuinfo, "CPU implementer"), colonField(cpuinfo, "CPU part")
	if implementer == "" || part == "" {
		return ""
	}
	if name := armParts[implementer+"/"+part]; name != "" {
		return name
	}
	return "Arm, implementer " + implementer + ", part " + part
}

// colonField finds the first line "name : value".
func colonField(raw []byte, name string) string {
	for line := range bytes.Lines(raw) {
		key, value, found := strings.Cut(string(line), ":")
		if found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// memoryBytes is the machine's memory, less what the kernel kept for itself; 0
// when unknown.
func memoryBytes() uint64 {
	raw, _ := os.ReadFile("/proc/meminfo")
	return parseMemoryTotal(raw)
}

func parseMemoryTotal(meminfo []byte) uint64 {
	kib, err := strconv.ParseUint(strings.TrimSuffix(colonField(meminfo, "MemTotal"), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// machineHint says what kind of machine the kernel takes this for: the
// hypervisor by cpuid, maker and product by the firmware's tables (on EC2
// "Amazon EC2 c8g.large"), and whether this is a container. Empty on bare metal
// that says nothing.
func machineHint() string {
	var hints []string
	add := func(text string) {
		if text != "" {
			hints = append(hints, text)
		}
	}
	// Padded with zeros by some.
	add(strings.Trim(cpuid.CPU.HypervisorVendorString, "\x00 "))
	const firmware = "/sys/class/dmi/id/"
	add(strings.TrimSpace(readTrimmed(firmware+"sys_vendor") + " " + readTrimmed(firmware+"product_name")))
	for _, mark := range []string{"/.dockerenv", "/run/.containerenv"} {
		if _, err := os.Stat(mark); err == nil {
			add("container")
			break
		}
	}
	return strings.Join(hints, ", ")
}
