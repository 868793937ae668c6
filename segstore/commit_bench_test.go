package segstore

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// BenchmarkCommit_Confirms16 publishes 16-byte records in windows: append to so
// many logs, ask for durability, wait until all are durable, settle, again; over
// the real disk and flusher. Beside it, raw is write + fdatasync of the same
// bytes in a loop into space written before: what the disk allows.
func BenchmarkCommit_Confirms16(b *testing.B) {
	for _, c := range []struct{ logs, window int }{{1, 1}, {1, 100}, {1, 1000}, {100, 1}, {100, 100}, {1000, 1}} {
		bytes := 0
		b.Run(fmt.Sprintf("logs=%d/window=%d/store", c.logs, c.window), func(b *testing.B) { bytes = benchConfirms(b, c.logs, c.window) })
		b.Run(fmt.Sprintf("logs=%d/window=%d/raw", c.logs, c.window), func(b *testing.B) { benchRaw(b, c.logs*c.window, bytes) })
	}
}

func benchConfirms(b *testing.B, logs, window int) (groupBytes int) {
	d, err := disk.OpenPosix(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	pool := new(arena.Pool)
	committed := make(chan struct{}, 1)
	s, err := Open(Options{Disk: d, Arena: pool, OnCommit: func() {
		select {
		case committed <- struct{}{}:
		default:
		}
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	all := make([]*Log, logs)
	for i := range all {
		if all[i], err = s.OpenLog(uint64(i+1), LogOptions{}); err != nil {
			b.Fatal(err)
		}
	}
	batch := NewBatch(pool)
	defer batch.Release()
	round := func() {
		for _, l := range all {
			batch.Reset(1)
			for range window {
				batch.Add(batch.Template(nil, benchKey, nil), benchBody)
			}
			if _, err := l.Append(batch); err != nil {
				b.Fatal(err)
			}
		}
		for _, l := range all {
			l.WantDurable()
		}
		for _, l := range all {
			for l.Durable() < l.Next() {
				<-committed
			}
			l.Settle(l.Low(), uint64(window))
		}
	}
	round()
	before := s.Stats()
	for b.Loop() {
		round()
	}
	after := s.Stats()
	confirms := float64(b.N * logs * window)
	b.ReportMetric(confirms/b.Elapsed().Seconds(), "confirms/s")
	b.ReportMetric(float64(after.JournalSyncs-before.JournalSyncs)/float64(b.N), "syncs/round")
	return int(float64(after.JournalBytes-before.JournalBytes) / float64(max(1, after.JournalGroups-before.JournalGroups)))
}

func benchRaw(b *testing.B, confirms, bytes int) {
	d, err := disk.OpenPosix(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	f, err := d.Open("f", disk.CreateNew)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	const fileBytes = 32 << 20
	write := &disk.Op{Kind: disk.Write, File: f, Buf: make([]byte, fileBytes)}
	sync := &disk.Op{Kind: disk.Sync, File: f}
	if err := disk.Run(d, write); err != nil {
		b.Fatal(err)
	}
	if err := disk.Run(d, sync); err != nil {
		b.Fatal(err)
	}
	write.Buf = write.Buf[:max(1, bytes)]
	for b.Loop() {
		if err := disk.Run(d, write); err != nil {
			b.Fatal(err)
		}
		if err := disk.Run(d, sync); err != nil {
			b.Fatal(err)
		}
		if write.Pos += int64(len(write.Buf)); write.Pos+int64(len(write.Buf)) > fileBytes {
			write.Pos = 0
		}
	}
	b.ReportMetric(float64(b.N*confirms)/b.Elapsed().Seconds(), "confirms/s")
}
