package perf

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// clockTick is the unit of CPU times in /proc/PID/stat. Linux has reported
// them in hundredths of a second on all platforms since 2.6 (USER_HZ), scaled
// from the scheduler's precise sums.
const clockTick = 10 * time.Millisecond

// processCPU reads the CPU time a process has used, all threads, living and
// ended.
func processCPU(pid int) (time.Duration, error) {
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

// processMemory reads a process's memory figures.
func processMemory(pid int) (memoryFigures, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memoryFigures{}, err
	}
	return parseStatusMemory(raw), nil
}

func parseStatusMemory(raw []byte) memoryFigures {
	var figures memoryFigures
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

// processWritten reads how many bytes a process has caused to be sent to
// storage, all threads: write_bytes of /proc/PID/io, which counts pages when
// they become dirty and direct writes when they are made (proc_pid_io(5)). ok
// is false where that can't be read: another user's process.
func processWritten(pid int) (written uint64, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, false
	}
	return parseWrittenBytes(raw)
}

func parseWrittenBytes(raw []byte) (written uint64, ok bool) {
	for line := range bytes.Lines(raw) {
		if value, found := bytes.CutPrefix(line, []byte("write_bytes:")); found {
			written, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
			return written, err == nil
		}
	}
	return 0, false
}

// threadLoad is the time a thread has run, and has waited for a core.
type threadLoad struct{ run, wait time.Duration }

// readThreadLoad reads /proc/PID/task/TID/schedstat; ok is false where the
// kernel was built without it, or the thread has ended.
func readThreadLoad(pid, tid int) (load threadLoad, ok bool) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
	if err != nil {
		return threadLoad{}, false
	}
	_, err = fmt.Sscan(string(raw), &load.run, &load.wait)
	return load, err == nil
}

// readThreadLoads reads all threads of a process.
func readThreadLoads(pid int) map[int]threadLoad {
	loads := make(map[int]threadLoad)
	entries, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, entry := range entries {
		tid, _ := strconv.Atoi(filepath.Base(entry))
		if load, ok := readThreadLoad(pid, tid); ok {
			loads[tid] = load
		}
	}
	return loads
}

// busiest returns the largest share of elapsed for which one thread ran or
// wanted to.
func busiest(before, after map[int]threadLoad, elapsed time.Duration) (share float64) {
	for tid, end := range after {
		begin := before[tid]
		span := end.run + end.wait - begin.run - begin.wait
		share = max(share, float64(span)/float64(elapsed))
	}
	return min(share, 1)
}
