package config

import (
	"strconv"
	"strings"
)

// locate finds the lines of keys and tables in a TOML text that is known to be
// well-formed: the decoder does not tell them. Elements of arrays of tables have
// their number in the path: "tls.sni.0.host".
func locate(text string) map[string]int {
	l := &locator{text: text, line: 1, lines: map[string]int{}, elements: map[string]int{}}
	for l.pos < len(l.text) {
		switch l.text[l.pos] {
		case '\n':
			l.line++
			l.pos++
		case ' ', '\t', '\r':
			l.pos++
		case '#':
			l.comment()
		case '[':
			l.header()
		default:
			l.assignment()
		}
	}
	return l.lines
}

type locator struct {
	text      string
	pos, line int
	table     string
	lines     map[string]int
	elements  map[string]int // of arrays of tables, so far
}

func (l *locator) comment() {
	for l.pos < len(l.text) && l.text[l.pos] != '\n' {
		l.pos++
	}
}

func (l *locator) header() {
	line := l.line
	array := strings.HasPrefix(l.text[l.pos:], "[[")
	for l.pos < len(l.text) && l.text[l.pos] == '[' {
		l.pos++
	}
	path := l.key(']')
	for l.pos < len(l.text) && l.text[l.pos] == ']' {
		l.pos++
	}
	if array {
		n := l.elements[path]
		if n == 0 {
			l.note(path, line)
		}
		l.elements[path]++
		path += "." + strconv.Itoa(n)
	}
	l.table = path
	l.note(path, line)
}

// note keeps the line of a path, and of the tables that it implies.
func (l *locator) note(path string, line int) {
	l.lines[path] = line
	for end := strings.LastIndexByte(path, '.'); end >= 0; end = strings.LastIndexByte(path[:end], '.') {
		if _, known := l.lines[path[:end]]; !known {
			l.lines[path[:end]] = line
		}
	}
}

func (l *locator) assignment() {
	line := l.line
	path := l.key('=')
	if l.table != "" {
		path = l.table + "." + path
	}
	l.note(path, line)
	l.value()
}

// key reads a dotted key up to end.
func (l *locator) key(end byte) string {
	var b strings.Builder
	for l.pos < len(l.text) && l.text[l.pos] != end && l.text[l.pos] != '\n' {
		switch c := l.text[l.pos]; c {
		case '"', '\'':
			from := l.pos + 1
			l.quoted()
			b.WriteString(l.text[min(from, l.pos):max(from, l.pos-1)])
		case ' ', '\t':
			l.pos++
		default:
			b.WriteByte(c)
			l.pos++
		}
	}
	return b.String()
}

// value passes over a value: to the end of a line outside of brackets.
func (l *locator) value() {
	for depth := 0; l.pos < len(l.text); {
		switch l.text[l.pos] {
		case '"', '\'':
			l.quoted()
			continue
		case '#':
			l.comment()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		case '\n':
			if depth <= 0 {
				return
			}
			l.line++
		}
		l.pos++
	}
}

// quoted passes over a string of any of the four kinds.
func (l *locator) quoted() {
	quote := l.text[l.pos : l.pos+1]
	long := strings.Repeat(quote, 3)
	if strings.HasPrefix(l.text[l.pos:], long) {
		quote = long
	}
	for l.pos += len(quote); l.pos < len(l.text); l.pos++ {
		switch c := l.text[l.pos]; {
		case c == '\n':
			l.line++
		case c == '\\' && quote[0] == '"':
			l.pos++
			if l.pos < len(l.text) && l.text[l.pos] == '\n' {
				l.line++
			}
		case strings.HasPrefix(l.text[l.pos:], quote):
			l.pos += len(quote)
			for len(quote) == 3 && l.pos < len(l.text) && l.text[l.pos] == quote[0] {
				l.pos++ // quotes right before the closing ones
			}
			return
		}
	}
	l.pos = min(l.pos, len(l.text))
}
