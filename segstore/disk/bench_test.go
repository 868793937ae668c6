package disk_test

import (
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk"
)

// BenchmarkDisk_ParallelWriteSync has 16 writers with a file each.
func BenchmarkDisk_ParallelWriteSync(b *testing.B) {
	for _, backend := range backends {
		b.Run(backend.name+"/4KiB", func(b *testing.B) {
			d := backend.open(b, b.TempDir())
			defer d.Close()
			var number atomic.Int32
			b.SetParallelism(8)
			var before, after syscall.Rusage
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
			b.RunParallel(func(pb *testing.PB) {
				f, err := d.Open(fmt.Sprint(number.Add(1)), disk.CreateNew)
				if err != nil {
					b.Error(err)
					return
				}
				defer f.Close()
				write := &disk.Op{Kind: disk.Write, File: f, Buf: make([]byte, 4<<10)}
				sync := &disk.Op{Kind: disk.Sync, File: f}
				for i := 0; pb.Next(); i++ {
					write.Pos = int64(i%1024) << 12
					if err := disk.Run(d, write); err != nil {
						b.Error(err)
					}
					if err := disk.Run(d, sync); err != nil {
						b.Error(err)
					}
				}
			})
			_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
			b.ReportMetric(float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano())/float64(b.N), "cpu-ns/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

// BenchmarkDisk_WriteSync overwrites one preallocated 8 MiB file, waiting for
// write then fdatasync, as the store does for a confirm.
func BenchmarkDisk_WriteSync(b *testing.B) {
	for _, backend := range backends {
		for _, size := range []int{4 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("%s/%dKiB", backend.name, size>>10), func(b *testing.B) {
				const fileBytes = 8 << 20
				d := backend.open(b, b.TempDir())
				defer d.Close()
				f, err := d.Open("f", disk.CreateNew)
				if err != nil {
					b.Fatal(err)
				}
				defer f.Close()
				write := &disk.Op{Kind: disk.Write, File: f, Buf: make([]byte, fileBytes)}
				sync := &disk.Op{Kind: disk.Sync, File: f}
				if err := disk.Run(d, write); err != nil {
					b.Fatal(err)
				}
				if err := disk.Run(d, sync); err != nil {
					b.Fatal(err)
				}
				write.Buf = write.Buf[:size]
				b.SetBytes(int64(size))
				b.ResetTimer()
				for i := range b.N {
					write.Pos = int64(i*size) % fileBytes
					if err := disk.Run(d, write); err != nil {
						b.Fatal(err)
					}
					if err := disk.Run(d, sync); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
			})
		}
	}
}

// BenchmarkDisk_Write writes into the page cache only: what a backend costs.
func BenchmarkDisk_Write(b *testing.B) {
	for _, backend := range backends {
		b.Run(backend.name+"/4KiB", func(b *testing.B) {
			d := backend.open(b, b.TempDir())
			defer d.Close()
			f, err := d.Open("f", disk.CreateNew)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			write := &disk.Op{Kind: disk.Write, File: f, Buf: make([]byte, 4<<10)}
			b.ReportAllocs()
			for i := range b.N {
				write.Pos = int64(i<<12) % (8 << 20)
				if err := disk.Run(d, write); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}
