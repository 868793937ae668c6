package host

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Memory is what the process may have, in bytes: the limit of its control groups,
// or the machine's memory if that is less.
func Memory() uint64 {
	var info unix.Sysinfo_t
	memory := uint64(0)
	if unix.Sysinfo(&info) == nil {
		memory = uint64(info.Totalram) * uint64(info.Unit)
	}
	return least(memory, MemoryLimit("/"))
}

// least is the memory that a limit leaves; 0 as either: it is not known, or there
// is none.
func least(memory uint64, limit int64) uint64 {
	if limit > 0 && (memory == 0 || uint64(limit) < memory) {
		return uint64(limit)
	}
	return memory
}

// MemoryLimit is the lowest memory limit of the process's control groups, in
// bytes; 0: there is none. root is "/", or another for tests.
func MemoryLimit(root string) int64 {
	data, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return 0
	}
	lowest := int64(0)
	for line := range bytes.Lines(data) {
		fields := strings.SplitN(strings.TrimSuffix(string(line), "\n"), ":", 3)
		if len(fields) != 3 {
			continue
		}
		base, file := "sys/fs/cgroup", "memory.max"
		switch {
		case fields[0] == "0" && fields[1] == "":
		case fields[1] == "memory":
			base, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
		default:
			continue
		}
		for group := path.Clean("/" + fields[2]); ; group = path.Dir(group) {
			text, err := os.ReadFile(filepath.Join(root, base, group, file))
			if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil && n > 0 && n < 1<<60 && (lowest == 0 || n < lowest) {
				lowest = n
			}
			if group == "/" {
				break
			}
		}
	}
	return lowest
}
