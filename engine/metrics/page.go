package metrics

import (
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/basaltmq/basaltmq/segstore/histogram"
)

// page writes metrics as text: version 0.0.4 of Prometheus's format, or
// OpenMetrics 1.0, which differs in the names of counters' families and has an
// end. Families must not be interrupted by others, and come once.
type page struct {
	w      io.Writer
	buf    []byte
	prefix string // with its underscore
	open   bool   // OpenMetrics
	err    error
	bytes  int // written to w

	name  string // of the family at hand, prefix and all
	total bool   // it is a counter
}

// pageBytes is when a page's buffer is written.
const pageBytes = 32 << 10

var pageBuffers = sync.Pool{New: func() any {
	b := make([]byte, 0, pageBytes+pageBytes/4)
	return &b
}}

// write makes a page by f, with a buffer that is used again.
func write(w io.Writer, prefix string, open bool, f func(p *page)) error {
	buf := pageBuffers.Get().(*[]byte)
	p := &page{w: w, buf: (*buf)[:0], prefix: prefix + "_", open: open}
	f(p)
	if open {
		p.buf = append(p.buf, "# EOF\n"...)
	}
	p.flush()
	*buf = p.buf[:0]
	pageBuffers.Put(buf)
	return p.err
}

func (p *page) flush() {
	if p.err == nil && len(p.buf) > 0 {
		_, p.err = p.w.Write(p.buf)
	}
	p.bytes += len(p.buf)
	p.buf = p.buf[:0]
}

// Types of families.
const (
	gauge   = "gauge"
	counter = "counter"
)

// family begins a family. A counter's name ends with _total.
func (p *page) family(name, kind, help string) {
	p.name, p.total = p.prefix+name, kind == counter
	title := p.name
	if p.open && p.total {
		title = strings.TrimSuffix(title, "_total")
	}
	p.buf = append(p.buf, "# HELP "...)
	p.buf = append(p.buf, title...)
	p.buf = append(p.buf, ' ')
	p.buf = appendEscaped(p.buf, help, p.open)
	p.buf = append(p.buf, "\n# TYPE "...)
	p.buf = append(p.buf, title...)
	p.buf = append(p.buf, ' ')
	p.buf = append(p.buf, kind...)
	p.buf = append(p.buf, '\n')
}

// uint writes a sample; labels are names and values in turn.
func (p *page) uint(v uint64, labels ...string) {
	p.begin("", labels)
	p.buf = strconv.AppendUint(p.buf, v, 10)
	p.end()
}

// float writes a sample.
func (p *page) float(v float64, labels ...string) {
	p.begin("", labels)
	p.buf = appendFloat(p.buf, v)
	p.end()
}

func (p *page) begin(suffix string, labels []string) {
	p.buf = append(p.buf, p.name...)
	p.buf = append(p.buf, suffix...)
	for i := 0; i+1 < len(labels); i += 2 {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		p.buf = append(p.buf, separator)
		p.buf = append(p.buf, labels[i]...)
		p.buf = append(p.buf, '=', '"')
		p.buf = appendEscaped(p.buf, labels[i+1], true)
		p.buf = append(p.buf, '"')
	}
	if len(labels) > 0 {
		p.buf = append(p.buf, '}')
	}
	p.buf = append(p.buf, ' ')
}

func (p *page) end() {
	p.buf = append(p.buf, '\n')
	if len(p.buf) >= pageBytes {
		p.flush()
	}
}

// scale says what a histogram's values and sum are.
type scale struct {
	from, to int     // powers of two that become buckets
	unit     float64 // of a value
	sumUnit  float64
}

var (
	// times: recorded in microseconds, from 16 µs to 33 s.
	times = scale{4, 25, 1e-6, 1e-9}
	sizes = scale{6, 23, 1, 1}
	many  = scale{0, 16, 1, 1}
)

// histogram writes a whole family.
func (p *page) histogram(name, help string, s *histogram.Snapshot, of scale) {
	p.family(name, "histogram", help)
	var bound [32]byte
	for e := of.from; e <= of.to; e++ {
		// What is below a bound is also at most that: values are whole numbers.
		text := appendFloat(bound[:0], math.Ldexp(of.unit, e))
		p.begin("_bucket", []string{"le", string(text)})
		p.buf = strconv.AppendUint(p.buf, s.Below(e), 10)
		p.end()
	}
	p.begin("_bucket", []string{"le", "+Inf"})
	p.buf = strconv.AppendUint(p.buf, s.Count(), 10)
	p.end()
	p.begin("_sum", nil)
	p.buf = appendFloat(p.buf, float64(s.Sum)*of.sumUnit)
	p.end()
	p.begin("_count", nil)
	p.buf = strconv.AppendUint(p.buf, s.Count(), 10)
	p.end()
}

func appendFloat(dst []byte, v float64) []byte {
	switch {
	case math.IsInf(v, 1):
		return append(dst, "+Inf"...)
	case math.IsInf(v, -1):
		return append(dst, "-Inf"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// appendEscaped appends a label's value, or with quoted false the text of a HELP
// line, where quotes stand for themselves. What is not UTF-8 becomes U+FFFD.
func appendEscaped(dst []byte, s string, quoted bool) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '\\':
			dst = append(dst, '\\', '\\')
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '"' && quoted:
			dst = append(dst, '\\', '"')
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		i++
	}
	return dst
}
