package process

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/basaltmq/basaltmq/perf/results"
)

// clockTick is the unit of CPU times in /proc/PID/stat. Linux has reported
// them in hundredths of a second on all platforms since 2.6 (USER_HZ), scaled
// from the scheduler's precise sums.
const clockTick = 10 * time.Millisecond

// CPU reads the CPU time a process has used, all threads, living and
// ended.
func CPU(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	return parseStatCPU(raw)
}

// parseStatCPU finds utime and stime, fields 14 and 15 of proc(5); the second
// field is a name in parentheses that may hold anything.
func parseStatCPU(raw []byte) (time.Duration, error) {
	fields := bytes.Fields(raw[bytes.LastIndexByte(raw, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("perf: /proc/PID/stat has %d fields behind the name", len(fields))
	}
	var ticks uint64
	for _, field := range fields[11:13] {
		value, err := strconv.ParseUint(string(field), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("perf: /proc/PID/stat: %w", err)
		}
		ticks += value
	}
	return time.Duration(ticks) * clockTick, nil
}

// Memory reads a process's memory figures.
func Memory(pid int) (results.Memory, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return results.Memory{}, err
	}
	return parseStatusMemory(raw), nil
}

func parseStatusMemory(raw []byte) results.Memory {
	var figures results.Memory
	targets := map[string]*uint64{
		"VmRSS": &figures.RSS, "VmHWM": &figures.HWM, "RssAnon": &figures.Anon, "RssFile": &figures.File,
	}
	for line := range bytes.Lines(raw) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		if target := targets[string(name)]; target != nil {
			if fields := bytes.Fields(rest); len(fields) > 0 {
				kib, _ := strconv.ParseUint(string(fields[0]), 10, 64)
				*target = kib << 10
			}
		}
	}
	return figures
}

// Writes is what a process has written, all threads, by /proc/PID/io
// (proc_pid_io(5)).
type Writes struct {
	// Dirtied is write_bytes: pages when they become dirty, and direct writes.
	// Where the page cache works with large folios, a small write counts as a
	// whole folio, which may be 64 KiB and more, and less of it goes to the disk.
	Dirtied uint64
	// Called is wchar: bytes passed to write(2), pwrite(2) and their like, to
	// files, and to sockets by processes that use them there (BasaltMQ doesn't).
	Called uint64
}

// Written reads what a process has written; ok is false where that can't be
// read: another user's process.
func Written(pid int) (written Writes, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return Writes{}, false
	}
	return parseWritten(raw)
}

func parseWritten(raw []byte) (written Writes, ok bool) {
	found := 0
	for line := range bytes.Lines(raw) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		target := map[string]*uint64{"write_bytes": &written.Dirtied, "wchar": &written.Called}[string(name)]
		if target == nil {
			continue
		}
		var err error
		if *target, err = strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64); err != nil {
			return Writes{}, false
		}
		found++
	}
	return written, found == 2
}

// ThreadLoad is the time a thread has run, and has waited for a core.
type ThreadLoad struct{ Run, Wait time.Duration }

// ReadThreadLoad reads /proc/PID/task/TID/schedstat; ok is false where the
// kernel was built without it, or the thread has ended.
func ReadThreadLoad(pid, tid int) (load ThreadLoad, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
	if err != nil {
		return ThreadLoad{}, false
	}
	_, err = fmt.Sscan(string(raw), &load.Run, &load.Wait)
	return load, err == nil
}

// ReadThreadLoads reads all threads of a process.
func ReadThreadLoads(pid int) map[int]ThreadLoad {
	loads := make(map[int]ThreadLoad)
	entries, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, entry := range entries {
		tid, _ := strconv.Atoi(filepath.Base(entry))
		if load, ok := ReadThreadLoad(pid, tid); ok {
			loads[tid] = load
		}
	}
	return loads
}

// busiest returns the largest share of elapsed for which one thread ran or
// wanted to.
func busiest(before, after map[int]ThreadLoad, elapsed time.Duration) (share float64) {
	for tid, end := range after {
		begin := before[tid]
		span := end.Run + end.Wait - begin.Run - begin.Wait
		share = max(share, float64(span)/float64(elapsed))
	}
	return min(share, 1)
}
