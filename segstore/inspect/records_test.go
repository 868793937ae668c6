package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/basaltmq/basaltmq/segstore"
)

// visited are the offsets that Records visits.
func visited(t *testing.T, fsys fs.FS, id uint64, o RecordOptions) (offsets []uint64, findings []Finding) {
	t.Helper()
	o.Visit = func(r *Record) error {
		offsets = append(offsets, r.Offset)
		return nil
	}
	o.Finding = func(f Finding) { findings = append(findings, f) }
	if err := Records(context.Background(), fsys, id, o); err != nil {
		t.Fatal(err)
	}
	return offsets, findings
}

func offsetsBut(first, end uint64, not ...uint64) (out []uint64) {
	for o := first; o < end; o++ {
		if !slices.Contains(not, o) {
			out = append(out, o)
		}
	}
	return out
}

func TestRecords_FromAnyOffset(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	for from := range uint64(40) {
		got, findings := visited(t, files, 1, RecordOptions{From: from, Settled: true})
		if want := offsetsBut(from, 36); !slices.Equal(got, want) || len(findings) > 0 {
			t.Errorf("from %d: %v, want %v; %v", from, got, want, findings)
		}
		got, _ = visited(t, files, 1, RecordOptions{From: from})
		if want := offsetsBut(from, 36, 0, 1, 9, 10, 11); !slices.Equal(got, want) {
			t.Errorf("unsettled from %d: %v, want %v", from, got, want)
		}
	}
}

func TestRecords_Contents(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	var lines []string
	err := Records(context.Background(), files, 1, RecordOptions{From: 9, Settled: true, Visit: func(r *Record) error {
		lines = append(lines, fmt.Sprintf("%d %d %s %s %x %d %v", r.Offset, r.Timestamp, r.Exchange, r.RoutingKey, r.Properties, len(r.Body), r.Settled))
		if len(lines) == 4 {
			return ErrStop
		}
		return nil
	}})
	want := []string{
		"9 1700000000009 exchange key 0000 100 true",
		"10 1700000100000 exchange key 0000 6 true",
		"11 1700000100000 exchange key 0000 150 true",
		"12 1700000000012 exchange key 0000 100 false",
	}
	if err != nil || !slices.Equal(lines, want) {
		t.Errorf("%v %q", err, lines)
	}
}

func TestRecords_PassesOverDamage(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	data := bytes.Clone(files[segment].Data)
	info, err := segstore.DecodeBatchHeader(data[segstore.SegmentHeaderBytes:])
	if err != nil {
		t.Fatal(err)
	}
	data[segstore.SegmentHeaderBytes+int(info.Bytes)+60] ^= 1
	got, findings := visited(t, with(files, segment, data), 1, RecordOptions{Settled: true})
	if want := offsetsBut(0, 36, 3, 4, 5); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if len(findings) != 1 || findings[0].Level != Damage || findings[0].File != segment {
		t.Errorf("findings %+v", findings)
	}
}

func TestRecords_LargeBatch(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, dir, 64<<20)
	l := s.log(1)
	body := bytes.Repeat([]byte("0123456789abcdef"), 2*windowBytes/16)
	s.add(l, "key", []byte("before"), body, []byte("after"))
	s.close()
	var sizes []int
	err := Records(context.Background(), load(t, dir), 1, RecordOptions{Visit: func(r *Record) error {
		sizes = append(sizes, len(r.Body))
		if len(r.Body) > 100 && !bytes.Equal(r.Body, body) {
			t.Error("another body")
		}
		return nil
	}})
	if err != nil || !slices.Equal(sizes, []int{6, len(body), 5}) {
		t.Errorf("%v %v", sizes, err)
	}
}

func TestRecords_Errors(t *testing.T) {
	files := smallFiles(t, t.TempDir())
	if err := Records(context.Background(), files, 77, RecordOptions{}); !errors.Is(err, ErrNoLog) {
		t.Errorf("error %v", err)
	}
	mine := errors.New("enough")
	err := Records(context.Background(), files, 1, RecordOptions{Visit: func(*Record) error { return mine }})
	if err != mine {
		t.Errorf("error %v", err)
	}
	if got, _ := visited(t, fstest.MapFS{log1 + "settled.tmp": {Mode: 0o640}}, 1, RecordOptions{}); len(got) > 0 {
		t.Errorf("visited %v", got)
	}
}
