package inspect

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"os"
	"testing"
	"testing/fstest"

	"github.com/basaltmq/basaltmq/segstore"
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
