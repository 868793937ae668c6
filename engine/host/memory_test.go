package host

import (
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		files map[string]string
		want  int64
	}{
		{"no control groups", nil, 0},
		{"no limit", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n"}, 0},
		{"version 2", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "200000000\n", "sys/fs/cgroup/memory.max": "300000000\n"}, 200000000},
		{"an outer one is lower", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/memory.max": "200000000\n", "sys/fs/cgroup/a/memory.max": "100000000\n"}, 100000000},
		{"version 1", map[string]string{"proc/self/cgroup": "5:cpu:/x\n4:memory:/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "100000000"}, 100000000},
		{"version 1 without a limit", map[string]string{"proc/self/cgroup": "4:memory:/\n", "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712"}, 0},
		{"in a container", map[string]string{"proc/self/cgroup": "0::/../..\n", "sys/fs/cgroup/memory.max": "100000000\n"}, 100000000},
	} {
		root := t.TempDir()
		for name, text := range row.files {
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got := MemoryLimit(root); got != row.want {
			t.Errorf("%s: %d, want %d", row.name, got, row.want)
		}
	}
}

// TestLeast: a limit counts where it is below what the machine has.
func TestLeast(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		memory uint64
		limit  int64
		want   uint64
	}{{1000, 0, 1000}, {1000, 300, 300}, {1000, 3000, 1000}, {0, 300, 300}, {0, 0, 0}} {
		if got := least(row.memory, row.limit); got != row.want {
			t.Errorf("memory %d, limit %d: %d, want %d", row.memory, row.limit, got, row.want)
		}
	}
	if Memory() == 0 {
		t.Error("this machine has no memory")
	}
}
