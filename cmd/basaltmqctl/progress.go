package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/segstore/inspect"
)

const (
	progressInterval = 200 * time.Millisecond
	progressBarWidth = 24
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

// showProgress keeps a line on w up to date until the returned function is
// called, which erases it.
func showProgress(w io.Writer, p *inspect.Progress) (stop func()) {
	began, quit, done := time.Now(), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				bytes, total := p.Bytes()
				fmt.Fprintf(w, "\r%s\x1b[K", progressLine(bytes, total, time.Since(began)))
			case <-quit:
				fmt.Fprint(w, "\r\x1b[K")
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// progressLine says how many of total bytes are done after elapsed.
func progressLine(done, total int64, elapsed time.Duration) string {
	if total == 0 {
		return "listing files"
	}
	part := min(1, float64(done)/float64(total))
	filled := int(part * progressBarWidth)
	line := fmt.Sprintf("[%s%s] %3.0f%%  %s of %s", strings.Repeat("#", filled), strings.Repeat(".", progressBarWidth-filled),
		part*100, byteCount(done), byteCount(total))
	if seconds := elapsed.Seconds(); seconds > 0 && done > 0 {
		rate := float64(done) / seconds
		left := time.Duration(float64(total-done) / rate * float64(time.Second))
		line += fmt.Sprintf("  %.0f MB/s  %s left", rate/1e6, left.Round(time.Second))
	}
	return line
}

// byteCount is a size for people.
func byteCount(n int64) string {
	const units = "KMGTPE"
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	value, unit := float64(n)/1024, 0
	for value >= 1024 && unit < len(units)-1 {
		value, unit = value/1024, unit+1
	}
	return fmt.Sprintf("%.1f %ciB", value, units[unit])
}
