package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// TestJournal_AgainstTheStore: whatever a kill or a power cut leaves, what is
// reported and shown is what a start finds.
func TestJournal_AgainstTheStore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := sim.New(sim.Options{Seed: rapid.Uint64().Draw(t, "seed")})
		o := segstore.Options{
			FlushInterval: time.Millisecond, SyncInterval: 5 * time.Millisecond, SegmentBytes: 4 << 10,
			JournalBytes: rapid.SampledFrom([]int64{2 << 10, 16 << 10, 1 << 20}).Draw(t, "journal bytes"),
			HeldBytes:    rapid.SampledFrom([]int64{1, 20 << 10, 1 << 20}).Draw(t, "held bytes"),
		}
		var found []string
		o.OnMeta = func(seq uint64, rec []byte) error {
			found = append(found, fmt.Sprintf("%d %s", seq, rec))
			return nil
		}
		meta := uint64(0)
		for range rapid.IntRange(1, 3).Draw(t, "lives") {
			s := simStore(t, d, o)
			s.SetMetaCheckpoint(func() error { return nil })
			logs := map[uint64]*segstore.Log{}
			for range rapid.IntRange(1, 25).Draw(t, "steps") {
				id := rapid.Uint64Range(1, 4).Draw(t, "log")
				l := logs[id]
				if l == nil {
					l = s.log(id)
					logs[id] = l
				}
				switch step := rapid.IntRange(0, 9).Draw(t, "step"); {
				case step < 5:
					s.add(l, "key", bytes.Repeat([]byte{byte(meta)}, rapid.SampledFrom([]int{1, 100, 3000}).Draw(t, "bytes")), []byte("x"))
				case step < 8 && l.Next() > 0:
					l.Settle(rapid.Uint64Range(0, l.Next()-1).Draw(t, "first"), rapid.Uint64Range(1, 5).Draw(t, "count"))
				case step == 8:
					meta++
					s.AppendMeta(meta, fmt.Appendf(nil, "record %d", meta))
				}
			}
			switch rapid.IntRange(0, 2).Draw(t, "stop") {
			case 0:
				s.close()
				d = d.Kill()
			case 1:
				d = d.Kill()
				s.Crash()
			default:
				d = d.PowerCut()
				s.Crash()
			}
			compare(t, d, o, &found)
		}
	})
}

// compare opens the store on a disk and compares it with what package inspect
// says of it.
func compare(t *rapid.T, d *sim.Disk, o segstore.Options, found *[]string) {
	t.Helper()
	files := image(t, d)
	r := verify(t, files)
	for _, f := range r.Findings {
		if f.Level == Damage && strings.HasPrefix(f.File, JournalDir) {
			t.Fatalf("a crash is called damage: %+v", f)
		}
	}
	type record struct {
		offset uint64
		body   string
	}
	shown := map[uint64][]record{}
	total := uint64(0)
	for id := range uint64(5) {
		err := Records(context.Background(), files, id, RecordOptions{Visit: func(r *Record) error {
			shown[id] = append(shown[id], record{r.Offset, string(r.Body)})
			total++
			return nil
		}})
		if err != nil && !errors.Is(err, ErrNoLog) {
			t.Fatal(err)
		}
	}
	if total != r.Unsettled {
		t.Fatalf("%d records shown, %d unsettled counted: %+v", total, r.Unsettled, r)
	}
	metas := metaOf(t, files)
	*found = nil
	twin := sim.New(sim.Options{})
	for name, f := range files {
		if f.Mode.IsRegular() {
			writeSim(t, twin, name, f.Data)
		}
	}
	s := simStore(t, twin, o)
	defer s.Crash()
	if !slices.Equal(metas, *found) {
		t.Fatalf("meta records %q, the store finds %q", metas, *found)
	}
	for id := range uint64(5) {
		l := s.log(id)
		var want []record
		reader := l.NewReader()
		for from := l.Low(); ; {
			first, count := l.NextUnsettled(from, 1)
			if count == 0 {
				break
			}
			want = append(want, record{first, bodyAt(t, reader, first)})
			from = first + 1
		}
		reader.Close()
		if !slices.Equal(shown[id], want) {
			t.Fatalf("log %d: %d records shown, the store finds %d", id, len(shown[id]), len(want))
		}
	}
}

// bodyAt reads one record.
func bodyAt(t *rapid.T, r *segstore.Reader, offset uint64) string {
	for {
		woken := make(chan struct{})
		switch err := r.Seek(offset, func() { close(woken) }); err {
		case nil:
			var rec segstore.Record
			if !r.Next(&rec) || rec.Offset != offset {
				t.Fatalf("offset %d: the reader gives %d", offset, rec.Offset)
			}
			return string(rec.Body)
		case segstore.ErrNotResident:
			<-woken
		default:
			t.Fatalf("offset %d: %v", offset, err)
		}
	}
}
