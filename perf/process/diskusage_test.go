package process

import (
	"os"
	"path/filepath"
	"testing"
)

func TestDiskUsage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string]int{"x": 100, "a/y": 70000, "a/b/z": 0} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	usage, err := ReadDiskUsage(dir)
	if err != nil || usage.Files != 3 || usage.Apparent != 70100 {
		t.Errorf("%+v, %v", usage, err)
	}
	// A file of nothing but a hole has a length and no blocks.
	if err := os.Truncate(filepath.Join(dir, "a/b/z"), 64<<20); err != nil {
		t.Fatal(err)
	}
	sparse, err := ReadDiskUsage(dir)
	if err != nil || sparse.Apparent != 70100+64<<20 || sparse.Allocated >= 64<<20 {
		t.Errorf("%+v, %v", sparse, err)
	}
	if _, err := ReadDiskUsage(filepath.Join(dir, "none")); err != nil {
		t.Errorf("a directory that is gone: %v", err)
	}
}
