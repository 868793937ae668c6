package scenario

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Progress shows how a long run is getting on: on a terminal as one line that
// is overwritten, elsewhere as a line each time.
type Progress struct {
	to      io.Writer // nil: quiet
	inPlace bool
	dirty   bool // a line stands there that is not finished
}

// NewProgress shows progress on stderr, unless quiet.
func NewProgress(out Console, quiet bool) *Progress {
	if quiet {
		return &Progress{}
	}
	return &Progress{to: out.Stderr, inPlace: isTerminal(out.Stderr)}
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

// Show shows a line, in place of the one before it on a terminal.
func (p *Progress) Show(line string) {
	switch {
	case p.to == nil:
	case p.inPlace:
		fmt.Fprintf(p.to, "\r%s\x1b[K", line)
		p.dirty = true
	default:
		fmt.Fprintln(p.to, line)
	}
}

// End leaves the last line standing.
func (p *Progress) End() {
	if p.dirty {
		fmt.Fprintln(p.to)
		p.dirty = false
	}
}
