package perf

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"golang.org/x/sys/unix"
)

// The raw disk yardstick: one thread that writes the batches a broker would
// write, each with one pwrite and one fdatasync, and does nothing else. What
// it reaches is the most confirms a second that this disk allows for batches
// of that size.
//
// A batch stands for records of 16 bytes: rawRecordBytes each, behind a header
// of rawHeaderBytes. Batches are laid one behind the other, not aligned to
// blocks, as in a log.
//
// Two ways to write, because they differ by what a sync has to do:
//
//   - append: the file grows, so every sync also commits metadata (size, and
//     now and then an extent) to the filesystem's own journal.
//   - overwrite: the file was written and synced before, so a sync writes data
//     only. This is what a recycled journal can reach.
const (
	rawRecordBytes = 20
	rawHeaderBytes = 48

	rawFileBytes    = 64 << 20  // overwritten again and again
	rawAppendMax    = 512 << 20 // then the growing file starts anew
	rawBatchRecords = 1 << 20   // most records in a batch
)

// Names of the two ways to write.
const (
	rawAppend    = results.RawAppend
	rawOverwrite = results.RawOverwrite
)

// rawDisk owns the two files of the yardstick, in the directory to measure.
type rawDisk struct {
	appended, overwritten *os.File
	buffer                []byte
}

// openRawDisk creates the files; writing the one to be overwritten takes a
// moment. close removes them.
func openRawDisk(directory string) (d *rawDisk, err error) {
	d = &rawDisk{}
	defer func() {
		if err != nil {
			d.close()
			d = nil
		}
	}()
	if d.appended, err = os.CreateTemp(directory, scenario.Program+"-append-*.tmp"); err != nil {
		return d, cli.Usagef("--data-dir: %v", err)
	}
	if d.overwritten, err = os.CreateTemp(directory, scenario.Program+"-overwrite-*.tmp"); err != nil {
		return d, cli.Usagef("--data-dir: %v", err)
	}
	chunk := make([]byte, 1<<20)
	fillIncompressible(chunk)
	for pos := int64(0); pos < rawFileBytes; pos += int64(len(chunk)) {
		if _, err = d.overwritten.WriteAt(chunk, pos); err != nil {
			return d, fmt.Errorf("raw disk: %w", err)
		}
	}
	if err = d.overwritten.Sync(); err != nil {
		return d, fmt.Errorf("raw disk: %w", err)
	}
	return d, nil
}

// fillIncompressible fills with bytes that no filesystem can make smaller.
func fillIncompressible(buffer []byte) {
	for i := 0; i+8 <= len(buffer); i += 8 {
		binary.LittleEndian.PutUint64(buffer[i:], client.Mix64(uint64(i)))
	}
}

func (d *rawDisk) close() {
	for _, file := range []*os.File{d.appended, d.overwritten} {
		if file != nil {
			_ = os.Remove(file.Name())
			_ = file.Close()
		}
	}
}

// rawBatchBytes is the size of a batch of so many records.
func rawBatchBytes(records int) int { return rawHeaderBytes + records*rawRecordBytes }

// measure writes batches for a while, at least one, or until ctx ends.
func (d *rawDisk) measure(ctx context.Context, mode string, records int, span time.Duration) (rawFigures, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	file, wrapAt := d.overwritten, int64(rawFileBytes)
	if mode == rawAppend {
		file, wrapAt = d.appended, rawAppendMax
		if err := file.Truncate(0); err != nil {
			return rawFigures{}, fmt.Errorf("raw disk: %w", err)
		}
		if err := file.Sync(); err != nil {
			return rawFigures{}, fmt.Errorf("raw disk: %w", err)
		}
	}
	size := rawBatchBytes(records)
	if len(d.buffer) < size {
		d.buffer = make([]byte, size+8)
		fillIncompressible(d.buffer)
	}
	histogram := client.NewHistogram()
	fd, pos := int(file.Fd()), int64(0)
	began := client.Now()
	end := began + int64(span)
	now := began
	for first := true; first || now < end && ctx.Err() == nil; first = false {
		if pos+int64(size) > wrapAt {
			pos = 0
			if mode == rawAppend {
				if err := file.Truncate(0); err != nil {
					return rawFigures{}, fmt.Errorf("raw disk: %w", err)
				}
			}
		}
		if err := writeSynced(fd, d.buffer[:size], pos); err != nil {
			return rawFigures{}, fmt.Errorf("raw disk: %w", err)
		}
		pos += int64(size)
		before := now
		now = client.Now()
		_ = histogram.RecordValue(max(client.LatencyMin, min(now-before, client.LatencyMax))) // clamped: can't fail
	}
	seconds, syncs := float64(now-began)/1e9, histogram.TotalCount()
	return rawFigures{
		Mode: mode, RecordsPerBatch: records, BatchBytes: size, Syncs: syncs,
		SyncsPerSecond:   float64(syncs) / seconds,
		RecordsPerSecond: float64(syncs) * float64(records) / seconds,
		BytesPerSecond:   float64(syncs) * float64(size) / seconds,
		P50:              float64(histogram.ValueAtPercentile(50)) / 1e3,
		P99:              float64(histogram.ValueAtPercentile(99)) / 1e3,
	}, nil
}

// writeSynced writes all of data at pos and waits until it is on the disk.
func writeSynced(fd int, data []byte, pos int64) error {
	for len(data) > 0 {
		n, err := unix.Pwrite(fd, data, pos)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		data, pos = data[n:], pos+int64(n)
	}
	return session.RetryInterrupted(func() error { return unix.Fdatasync(fd) })
}

// memoryCopyBytes is the size of the block copied by the memory yardstick:
// larger than the caches of most machines.
const memoryCopyBytes = 64 << 20

// measureMemoryCopy returns how many bytes a second one thread copies.
func measureMemoryCopy(span time.Duration) float64 {
	from, to := make([]byte, memoryCopyBytes), make([]byte, memoryCopyBytes)
	fillIncompressible(from)
	copy(to, from) // touches the pages
	copied, began := 0, time.Now()
	for copied == 0 || time.Since(began) < span {
		copied += copy(to, from)
	}
	return float64(copied) / time.Since(began).Seconds()
}
