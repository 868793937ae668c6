package segstore

import (
	"hash/crc32"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// loopLog is a log that is published to and consumed from in memory.
type loopLog struct {
	s     *testStore
	l     *Log
	batch *Batch
	r     *Reader
	sum   uint32 // of the work, so that none of it can be optimised away
	n     int
}

func newLoopLog(t tester) *loopLog {
	s := openTest(t, testOptions{})
	p := &loopLog{s: s, l: s.log(1, false), batch: NewBatch(s.arena)}
	p.batch.Reset(1)
	p.r = p.l.NewReader()
	return p
}

func (p *loopLog) close() {
	p.r.Close()
	p.batch.Release()
	p.s.close()
}

var (
	benchBody = []byte("0123456789abcdef")
	benchKey  = []byte("queue")
)

func (p *loopLog) fill() {
	p.batch.Reset(1)
	for p.batch.Size() < BatchBytesTarget {
		p.batch.Add(p.batch.Template(nil, benchKey, nil), benchBody)
	}
}

// round moves one batch through: append, take, read, settle.
func (p *loopLog) round() {
	if _, err := p.l.Append(p.batch); err != nil {
		p.s.t.Fatal(err)
	}
	first, count := p.l.NextUnsettled(p.l.Low(), 1<<20)
	if err := p.r.Seek(first, nil); err != nil {
		p.s.t.Fatal(err)
	}
	var rec Record
	for p.r.Next(&rec) {
		p.sum += uint32(rec.Body[3]) + uint32(rec.Offset)
	}
	p.l.Settle(first, count)
	if p.n++; p.n%16 == 0 {
		p.s.tick()
	}
}

func TestLog_HotPathAllocatesNothing(t *testing.T) {
	p := newLoopLog(t)
	defer p.close()
	p.fill()
	for range 64 {
		p.round()
	}
	if n := testing.AllocsPerRun(200, p.round); n != 0 {
		t.Errorf("%v allocations per batch of %d records", n, p.batch.Count())
	}
	if p.l.Unsettled() != 0 || p.s.Stats().Writes != 0 {
		t.Errorf("unsettled %d, %+v", p.l.Unsettled(), p.s.Stats())
	}
}

func TestLog_SingleRecordAppendAllocatesNothing(t *testing.T) {
	p := newLoopLog(t)
	defer p.close()
	p.batch.Reset(1)
	p.batch.Add(p.batch.Template(nil, benchKey, nil), benchBody)
	for range 10_000 {
		p.round()
	}
	if n := testing.AllocsPerRun(1000, p.round); n != 0 {
		t.Errorf("%v allocations per record", n)
	}
}

func perRecord(b *testing.B, records int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
}

// BenchmarkLog_Loop16 is the whole life of 16-byte records in memory, batch
// building excluded.
func BenchmarkLog_Loop16(b *testing.B) {
	p := newLoopLog(b)
	defer p.close()
	p.fill()
	b.ReportAllocs()
	for b.Loop() {
		p.round()
	}
	perRecord(b, p.batch.Count())
}

func BenchmarkLog_BuildAndLoop16(b *testing.B) {
	p := newLoopLog(b)
	defer p.close()
	b.ReportAllocs()
	for b.Loop() {
		p.fill()
		p.round()
	}
	perRecord(b, p.batch.Count())
}

func BenchmarkLog_Append16(b *testing.B) {
	p := newLoopLog(b)
	defer p.close()
	p.fill()
	count := uint64(p.batch.Count())
	b.ReportAllocs()
	for b.Loop() {
		base, _ := p.l.Append(p.batch)
		p.l.Settle(base, count)
	}
	perRecord(b, p.batch.Count())
}

func BenchmarkLog_AppendSingle16(b *testing.B) {
	p := newLoopLog(b)
	defer p.close()
	b.ReportAllocs()
	for b.Loop() {
		p.batch.Reset(1)
		p.batch.Add(p.batch.Template(nil, benchKey, nil), benchBody)
		p.round()
	}
}

func BenchmarkReader_Next16(b *testing.B) {
	p := newLoopLog(b)
	defer p.close()
	p.fill()
	if _, err := p.l.Append(p.batch); err != nil {
		b.Fatal(err)
	}
	var rec Record
	b.ReportAllocs()
	for b.Loop() {
		if err := p.r.Seek(0, nil); err != nil {
			b.Fatal(err)
		}
		for p.r.Next(&rec) {
		}
	}
	perRecord(b, p.batch.Count())
}

func BenchmarkLog_SettleInOrder(b *testing.B) {
	p := newLoopLog(b)
	defer p.close()
	p.fill()
	left := 0
	b.ReportAllocs()
	for b.Loop() {
		if left == 0 {
			b.StopTimer()
			if _, err := p.l.Append(p.batch); err != nil {
				b.Fatal(err)
			}
			left = p.batch.Count()
			b.StartTimer()
		}
		p.l.Settle(p.l.Low(), 1)
		left--
	}
}

func BenchmarkBatch_Checksum64K(b *testing.B) {
	p := newLoopLog(b)
	defer p.close()
	p.fill()
	data := make([]byte, p.batch.Size())
	p.batch.encode(data)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		p.sum += crc32.Checksum(data, castagnoli)
	}
}

func BenchmarkStore_GroupCommit1MiB(b *testing.B) {
	d, err := disk.OpenPosix(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	s := openTest(b, testOptions{disk: d})
	p := &loopLog{s: s, l: s.log(1, false), batch: NewBatch(s.arena)}
	p.r = p.l.NewReader()
	defer p.close()
	p.fill()
	b.SetBytes(int64(p.batch.Size()) * 16)
	for b.Loop() {
		first := p.l.Next()
		for range 16 {
			if _, err := p.l.Append(p.batch); err != nil {
				b.Fatal(err)
			}
		}
		p.l.WantDurable()
		p.s.urge()
		p.l.Settle(first, p.l.Next()-first)
		p.s.tick()
	}
	perRecord(b, 16*p.batch.Count())
}
