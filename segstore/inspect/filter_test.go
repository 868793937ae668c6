package inspect

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore"
)

// TestVerify_Filters: segments of retained logs are checked like others, and that
// their index has the filters of their batches.
func TestVerify_Filters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openStore(t, dir, 1<<20)
	l, err := s.OpenLog(1, segstore.LogOptions{Retained: &segstore.RetainedOptions{SegmentBytes: 2000}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		b := segstore.NewBatch(s.pool)
		b.Reset(1000)
		b.Add(b.Template(nil, nil, nil), make([]byte, 150))
		if i%3 > 0 {
			b.SetFilter([]byte{1 << (i % 5), 0x80})
		}
		if _, err := l.Append(b); err != nil {
			t.Fatal(err)
		}
		b.Release()
	}
	l.Roll()
	s.durable(l)
	s.close()
	if report := verify(t, os.DirFS(dir)); len(report.Findings) != 0 {
		t.Fatalf("%v", report.Findings)
	}

	names, err := filepath.Glob(filepath.Join(dir, "logs", "*", "00000000000000000000.seg"))
	if err != nil || len(names) != 1 {
		t.Fatal(names, err)
	}
	data, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	// The first entry's filter loses its bits; all checksums are right.
	trailer := data[len(data)-segstore.TrailerBytes:]
	index := data[binary.LittleEndian.Uint64(trailer[8:]) : len(data)-segstore.TrailerBytes]
	index[len(index)-2] = 0
	table := crc32.MakeTable(crc32.Castagnoli)
	binary.LittleEndian.PutUint32(trailer[40:], crc32.Checksum(index, table))
	binary.LittleEndian.PutUint32(trailer[48:], crc32.Checksum(trailer[:48], table))
	if err := os.WriteFile(names[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	report := verify(t, os.DirFS(dir))
	if len(report.Findings) == 0 || !strings.Contains(report.Findings[0].Text, "does not have the filter of the batch") {
		t.Fatalf("%v", report.Findings)
	}
}
