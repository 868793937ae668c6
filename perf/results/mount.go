package results

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
)

// mountOptions returns the options of the mount that holds path, those of the
// filesystem behind those of the mount: "rw,relatime; rw,discard". Empty when
// unknown.
func mountOptions(path string) string {
	if path == "" {
		return ""
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return ""
	}
	if absolute, err = filepath.EvalSymlinks(absolute); err != nil {
		return ""
	}
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	return findMountOptions(raw, absolute)
}

// findMountOptions reads /proc/PID/mountinfo as proc_pid_mountinfo(5) has it:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//	(1)(2)(3)  (4)   (5)   (6)        (7)     (8) (9)  (10)      (11)
//
// (5) mount point, (6) options of the mount, (7) any number of optional
// fields, (8) their end, (11) options of the filesystem. Of two mounts on the
// same point the later one is what a path leads to.
func findMountOptions(mountInfo []byte, path string) (options string) {
	longest := -1
	for line := range bytes.Lines(mountInfo) {
		fields := strings.Fields(string(line))
		if len(fields) < 10 {
			continue
		}
		point := unescapeMountPoint(fields[4])
		if !isBelow(path, point) || len(point) < longest {
			continue
		}
		longest, options = len(point), fields[5]
		for i, field := range fields[6:] {
			if field == "-" && 6+i+3 < len(fields) {
				options += "; " + fields[6+i+3]
				break
			}
		}
	}
	return options
}

func isBelow(path, directory string) bool {
	return directory == "/" || path == directory || strings.HasPrefix(path, directory+"/")
}

// unescapeMountPoint undoes the octal escapes of blank, tab, newline and
// backslash.
func unescapeMountPoint(text string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(text)
}
