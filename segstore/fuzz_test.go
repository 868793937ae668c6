package segstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// goldenBytes returns a file of testdata for a fuzz corpus.
func goldenBytes(f *testing.F, name string) []byte {
	f.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzBatchDecode: what checkBatch accepts can be walked without a panic, and
// what it refuses is refused with the right kind of error. The checksum is
// repaired, so that the structure behind it is reached.
func FuzzBatchDecode(f *testing.F) {
	golden := goldenBytes(f, "v1-sealed.seg")[segmentHeaderBytes:]
	f.Add(golden)
	f.Add(goldenBytes(f, "v2-sealed.seg")[segmentHeaderBytes:])
	f.Add(golden[:batchLength(golden)])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		if len(data) >= batchHeaderBytes {
			if n := batchLength(data); n >= batchHeaderBytes && n <= len(data) {
				sealBatch(data[:n])
			}
		}
		n, err := checkBatch(data)
		if err != nil {
			if err != errShort && !isBatchError(err) {
				t.Fatalf("error %v", err)
			}
			return
		}
		var pool arena.Pool
		buf := pool.Get(n)
		copy(buf.Bytes(), data[:n])
		s := &Store{arena: &pool}
		r := &Reader{log: &Log{store: s}, buf: buf, data: buf.Bytes()[:n]}
		base := batchBase(data)
		if found, err := r.enter(0, base); !found || err != nil {
			t.Fatalf("enter: %v %v", found, err)
		}
		var rec Record
		count := uint64(0)
		for r.Next(&rec) {
			if rec.Offset != base+count {
				t.Fatalf("offset %d, want %d", rec.Offset, base+count)
			}
			r.Template(rec.Template)
			count++
		}
		if count != batchCount(data) || r.pos != n {
			t.Fatalf("%d records of %d, position %d of %d", count, batchCount(data), r.pos, n)
		}
		r.unpin()
	})
}

// FuzzSegmentOpen: any bytes as a segment file can be opened, read, appended
// to and opened again with the same result.
func FuzzSegmentOpen(f *testing.F) {
	f.Add(goldenBytes(f, "v1-sealed.seg"))
	f.Add(goldenBytes(f, "v2-sealed.seg"))
	f.Add(goldenBytes(f, "v1-unsealed.seg")[:segmentHeaderBytes])
	header := encodeSegmentHeader(segmentVersion, 1, 0, 0)
	f.Add(header)
	f.Add(append(bytes.Clone(header), goldenBytes(f, "v1-sealed.seg")[segmentHeaderBytes:]...))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		if len(data) >= segmentHeaderBytes { // most mutations should reach beyond the header
			copy(data, header)
		}
		d := newMemDisk()
		d.put(testSegment, data)
		s := openTest(t, testOptions{disk: d})
		l := s.log(1, false)
		found := walkLog(t, l)
		next := l.Next()
		if next < offsetMax-1 {
			s.appendN(l, 1, 8)
			next++
			found++
		}
		s.close()
		s = openTest(t, testOptions{disk: d})
		l = s.log(1, false)
		if again := walkLog(t, l); l.Next() != next || again != found {
			t.Fatalf("next %d, %d records; opened again %d, %d", next, found, l.Next(), again)
		}
		s.close()
	})
}

// walkLog reads all records and returns their number.
func walkLog(t *testing.T, l *Log) (found int) {
	r := l.NewReader()
	defer r.Close()
	var rec Record
	for at := uint64(0); at < l.Next(); {
		err := seek(r, at)
		var missing ErrMissing
		if errors.As(err, &missing) {
			if missing.Next <= at {
				t.Fatalf("missing at %d, next %d", at, missing.Next)
			}
			at = missing.Next
			continue
		}
		if err != nil {
			t.Fatalf("seek %d: %v", at, err)
		}
		for r.Next(&rec) {
			r.Template(rec.Template)
			found++
			at++
		}
	}
	return found
}

// FuzzSettledFile: any bytes as a settled file leave a log that works.
func FuzzSettledFile(f *testing.F) {
	f.Add(goldenBytes(f, "v1-settled"))
	header := encodeSettledHeader(1, 0)
	f.Add(header)
	f.Add(appendSettled(appendSettled(bytes.Clone(header), settledRange, 1, 4), settledLow, 1<<61, 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = bytes.Clone(data)
		if len(data) >= settledHeaderBytes {
			copy(data, header)
			for pos := settledHeaderBytes; pos+settledRecordBytes <= len(data); pos += settledRecordBytes {
				if r := data[pos : pos+settledRecordBytes]; r[3] == 0 { // most records get a good checksum
					fixed := appendSettled(nil, r[0], le64(r[8:]), le64(r[16:]))
					copy(r, fixed)
				}
			}
		}
		d := newMemDisk()
		d.put(testDir+"/"+settledName, data)
		d.put(testSegment, encodeSegmentHeader(segmentVersion, 1, 0, 0))
		s := openTest(t, testOptions{disk: d})
		l := s.log(1, false)
		l.settled.checkShape(t)
		if l.Low() > l.Next() || l.Unsettled() != 0 || l.Cursor() > l.Next() {
			t.Fatalf("low %d, next %d, unsettled %d, cursor %d", l.Low(), l.Next(), l.Unsettled(), l.Cursor())
		}
		next := l.Next()
		if next >= offsetMax-1 {
			s.close()
			return
		}
		s.appendN(l, 2, 8)
		l.Settle(next, 1)
		s.close()
		s = openTest(t, testOptions{disk: d})
		if l := s.log(1, false); l.Next() != next+2 || l.Unsettled() != 1 {
			t.Fatalf("opened again: next %d, want %d; unsettled %d", l.Next(), next+2, l.Unsettled())
		}
		s.close()
	})
}

func le64(b []byte) (v uint64) {
	for i := range 8 {
		v |= uint64(b[i]) << (8 * i)
	}
	return v
}
