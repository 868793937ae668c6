package engine

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// giveBackProgram unmaps the pages of the program file that are resident: most
// were needed by initialisation only, or for one request of an operator, and the
// kernel maps sixteen around each that is touched. What is needed comes back from
// the page cache with a minor fault. Only mappings that nobody can have written
// to are touched, so nothing can be lost.
func giveBackProgram() {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return // no /proc: then so be it
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, m := range programMappings(maps, exe) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED) // advice
	}
}

type mapping struct{ from, to uintptr }

// programMappings finds the mappings of the program file that are not writable
// in the text of /proc/self/maps.
func programMappings(maps []byte, exe string) (list []mapping) {
	for line := range bytes.Lines(maps) {
		fields := bytes.Fields(line)
		if len(fields) != 6 || string(fields[5]) != exe || len(fields[1]) != 4 || fields[1][1] != '-' || fields[1][3] != 'p' {
			continue
		}
		from, to, ok := bytes.Cut(fields[0], []byte("-"))
		low, err1 := strconv.ParseUint(string(from), 16, 64)
		high, err2 := strconv.ParseUint(string(to), 16, 64)
		if ok && err1 == nil && err2 == nil && low < high {
			list = append(list, mapping{uintptr(low), uintptr(high)})
		}
	}
	return list
}
