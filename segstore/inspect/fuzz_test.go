package inspect

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/segstore/journal"
)

// reseal gives the batch at the start of data a good checksum, if its length is
// inside of data.
func reseal(data []byte) {
	if len(data) < segstore.BatchHeaderBytes {
		return
	}
	n := int(binary.LittleEndian.Uint32(data[4:]))
	if n < segstore.BatchHeaderBytes || n > len(data) {
		return
	}
	sum := crc32.Update(0, castagnoli, data[:checksumPos])
	sum = crc32.Update(sum, castagnoli, data[checksumEnd:n])
	binary.LittleEndian.PutUint32(data[checksumPos:], sum)
}

// FuzzVerifySegment: any bytes as a segment give a report, never a panic; bytes
// that differ from a sealed segment's are noticed, and what is reported lies in
// the file. Records walks the same bytes and finds the same number of records.
func FuzzVerifySegment(f *testing.F) {
	var golden [][]byte
	for _, name := range []string{"v1-sealed.seg", "v1-unsealed.seg"} {
		data, err := os.ReadFile("../testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		golden = append(golden, data)
		f.Add(data, false)
		f.Add(data, true)
		f.Add(data[:len(data)-20], true)
	}
	f.Add([]byte{}, false)
	f.Fuzz(func(t *testing.T, data []byte, repair bool) {
		if repair && len(data) >= segstore.SegmentHeaderBytes { // reach beyond header and checksums
			data = bytes.Clone(data)
			copy(data, golden[0][:segstore.SegmentHeaderBytes])
			for at := segstore.SegmentHeaderBytes; len(data)-at >= segstore.BatchHeaderBytes; {
				reseal(data[at:])
				n := int(binary.LittleEndian.Uint32(data[at+4:]))
				if n < segstore.BatchHeaderBytes || n > len(data)-at {
					break
				}
				at += n
			}
		}
		files := fstest.MapFS{segment: {Data: data, Mode: 0o640}}
		r := verify(t, files)
		for _, found := range r.Findings {
			if found.File != segment || found.Pos > int64(len(data)) || found.Pos+found.Bytes > int64(len(data)) {
				t.Fatalf("%d bytes: %+v", len(data), found)
			}
		}
		if !repair && len(data) == len(golden[0]) && !bytes.Equal(data, golden[0]) && len(r.Findings) == 0 {
			t.Fatal("changed bytes were not noticed")
		}
		records := uint64(0)
		err := Records(context.Background(), files, 1, RecordOptions{Settled: true, Visit: func(*Record) error {
			records++
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		if records != r.Records && r.Count(Damage) == 0 {
			t.Fatalf("%d records, %d visited; %+v", r.Records, records, r.Findings)
		}
	})
}

// FuzzVerifySettled: any bytes as a settled file give a report.
func FuzzVerifySettled(f *testing.F) {
	data, err := os.ReadFile("../testdata/v1-settled")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)-5])
	f.Fuzz(func(t *testing.T, data []byte) {
		name := log1 + "settled"
		r := verify(t, fstest.MapFS{name: {Data: data, Mode: 0o640}})
		for _, found := range r.Findings {
			if found.File != name || found.Pos+found.Bytes > int64(len(data)) {
				t.Fatalf("%d bytes: %+v", len(data), found)
			}
		}
	})
}

// FuzzReadJournal: any bytes as the journal's files give a report and never a
// panic, and what would be replayed is what package journal replays.
func FuzzReadJournal(f *testing.F) {
	files := killed(f)
	sound := files[journal0].Data
	at := groupsOf(f, sound)
	sound = sound[:at[len(at)-1]]
	f.Add(sound, []byte{})
	f.Add(sound[:len(sound)-10], sound[at[2]:])
	f.Add(append(bytes.Clone(sound[at[1]:]), make([]byte, 100)...), []byte("BASALJRN"))
	f.Add(append(bytes.Repeat([]byte{1}, 64), sound[at[1]:]...), sound)
	f.Fuzz(func(t *testing.T, first, second []byte) {
		files := fstest.MapFS{journal0: {Data: first, Mode: 0o640}, journal1: {Data: second, Mode: 0o640}}
		r := verify(t, files)
		for _, found := range r.Findings {
			if size := int64(len(files[found.File].Data)); found.Pos > size || found.Pos+found.Bytes > size {
				t.Fatalf("%d bytes: %+v", size, found)
			}
		}
		d := sim.New(sim.Options{})
		for name, f := range files {
			writeSim(t, d, name, f.Data)
		}
		w, err := journal.Open(journal.Options{Disk: d, Arena: new(arena.Pool), Logger: slog.New(slog.DiscardHandler), LimitBytes: 1 << 20})
		if err != nil {
			if r.Count(Damage) == 0 {
				t.Fatalf("the journal says %v, nothing was found", err)
			}
			return
		}
		defer w.Close()
		var want, got []string
		err = w.Replay(func(e *journal.Entry, _ journal.Source, ordinal uint64) error {
			want = append(want, fmt.Sprint(ordinal, e.Kind, e.ID, e.First, e.End, len(e.Data)))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		j, err := ReadJournal(context.Background(), files)
		if err != nil {
			t.Fatal(err)
		}
		err = j.replay(&window{ctx: context.Background(), progress: new(Progress)}, func(e *journalEntry) error {
			size := e.dataBytes
			if e.Kind != journal.Batch && e.Kind != journal.Meta {
				size = 0
			}
			got = append(got, fmt.Sprint(e.ordinal, e.Kind, e.ID, e.First, e.End, size))
			return nil
		})
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("entries %q (%v), want %q", got, err, want)
		}
	})
}
