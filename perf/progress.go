package perf

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// progress shows how a long run is getting on: on a terminal as one line that
// is overwritten, elsewhere as a line each time.
type progress struct {
	to      io.Writer // nil: quiet
	inPlace bool
	dirty   bool // a line stands there that is not finished
}

func newProgress(out console, quiet bool) *progress {
	if quiet {
		return &progress{}
	}
	return &progress{to: out.stderr, inPlace: isTerminal(out.stderr)}
}

// isTerminal reports whether w is a terminal: whether it has line settings.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	return err == nil
}

func (p *progress) show(line string) {
	switch {
	case p.to == nil:
	case p.inPlace:
		fmt.Fprintf(p.to, "\r%s\x1b[K", line)
		p.dirty = true
	default:
		fmt.Fprintln(p.to, line)
	}
}

// end leaves the last line standing.
func (p *progress) end() {
	if p.dirty {
		fmt.Fprintln(p.to)
		p.dirty = false
	}
}
