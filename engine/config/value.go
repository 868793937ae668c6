package config

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is one field of a Config, with what it may hold.
type value interface {
	// set parses a text as the environment and flags have it.
	set(text string) error
	// text is what set would parse to the same value.
	text() string
	// allowed completes "must be ...".
	allowed() string
	// fromTOML turns a decoded value into the text that set takes; ok is false for
	// a value of another type.
	fromTOML(v any) (text string, ok bool)
	// literal is text in TOML.
	literal(text string) string
}

// errValue stands for "not what is allowed", for which allowed has the words.
var errValue = errors.New("config: not allowed")

// quoted is what all values have in common that are strings in TOML.
type quoted struct{}

func (quoted) fromTOML(v any) (string, bool) { s, ok := v.(string); return s, ok }
func (quoted) literal(text string) string    { return quote(text) }

// quote makes a basic string of TOML.
func quote(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// word is any text.
type word struct {
	quoted
	p      *string
	filled bool // may not be empty
}

func (v word) set(text string) error {
	if v.filled && text == "" {
		return errValue
	}
	*v.p = text
	return nil
}
func (v word) text() string { return *v.p }
func (v word) allowed() string {
	if v.filled {
		return "a text that is not empty"
	}
	return "a text"
}

// choice is one of a few words.
type choice struct {
	quoted
	p    *string
	from []string
}

func (v choice) set(text string) error {
	if !slices.Contains(v.from, text) {
		return errValue
	}
	*v.p = text
	return nil
}
func (v choice) text() string    { return *v.p }
func (v choice) allowed() string { return "one of " + strings.Join(v.from, ", ") }

// toggle is true or false.
type toggle struct{ p *bool }

func (v toggle) set(text string) error {
	switch text {
	case "true", "1", "yes", "on":
		*v.p = true
	case "false", "0", "no", "off":
		*v.p = false
	default:
		return errValue
	}
	return nil
}
func (v toggle) text() string    { return strconv.FormatBool(*v.p) }
func (v toggle) allowed() string { return "true or false" }
func (v toggle) fromTOML(x any) (string, bool) {
	b, ok := x.(bool)
	return strconv.FormatBool(b), ok
}
func (v toggle) literal(text string) string { return text }

// number is a whole number of a range.
type number struct {
	p        *int
	min, max int
}

func (v number) set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < v.min || n > v.max {
		return errValue
	}
	*v.p = n
	return nil
}
func (v number) text() string    { return strconv.Itoa(*v.p) }
func (v number) allowed() string { return fmt.Sprintf("a whole number from %d to %d", v.min, v.max) }
func (v number) fromTOML(x any) (string, bool) {
	n, ok := x.(int64)
	return strconv.FormatInt(n, 10), ok
}
func (v number) literal(text string) string { return text }

// size is a number of bytes: a whole number, or a string with a unit.
type size struct {
	p        *int64
	min, max int64
}

func (v size) set(text string) error {
	n, err := parseBytes(text)
	if err != nil || n < v.min || n > v.max {
		return errValue
	}
	*v.p = n
	return nil
}
func (v size) text() string { return formatBytes(*v.p) }
func (v size) allowed() string {
	return fmt.Sprintf("a number of bytes, or with a unit such as \"128MiB\", from %s to %s", formatBytes(v.min), formatBytes(v.max))
}
func (v size) fromTOML(x any) (string, bool) {
	switch x := x.(type) {
	case int64:
		return strconv.FormatInt(x, 10), true
	case string:
		return x, true
	}
	return "", false
}
func (v size) literal(text string) string { return quote(text) }

var byteUnits = []struct {
	name  string
	shift int
}{{"GiB", 30}, {"MiB", 20}, {"KiB", 10}}

// parseBytes reads a size: a number with one of the units KiB, MiB, GiB or none.
func parseBytes(s string) (int64, error) {
	shift := 0
	for _, unit := range byteUnits {
		if number, ok := strings.CutSuffix(s, unit.name); ok {
			s, shift = number, unit.shift
			break
		}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 63-shift)
	return int64(n) << shift, err
}

func formatBytes(n int64) string {
	for _, unit := range byteUnits {
		if n > 0 && n&(1<<unit.shift-1) == 0 {
			return strconv.FormatInt(n>>unit.shift, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// duration is a string with units, or a whole number of seconds.
type duration struct {
	p        *time.Duration
	min, max time.Duration
	// unit is what it has to be a multiple of; 0: any.
	unit time.Duration
}

func (v duration) set(text string) error {
	d, err := time.ParseDuration(text)
	if err != nil {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return errValue
		}
		d = time.Duration(seconds) * time.Second
	}
	if d < v.min || d > v.max || v.unit != 0 && d%v.unit != 0 {
		return errValue
	}
	*v.p = d
	return nil
}
func (v duration) text() string { return formatDuration(*v.p) }
func (v duration) allowed() string {
	return fmt.Sprintf("a time such as \"90s\" or \"10m\", or whole seconds, from %s to %s", formatDuration(v.min), formatDuration(v.max))
}
func (v duration) fromTOML(x any) (string, bool) { return size{}.fromTOML(x) }
func (v duration) literal(text string) string    { return quote(text) }

func formatDuration(d time.Duration) string {
	switch {
	case d != 0 && d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Second == 0 && d > 2*time.Minute && d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d%time.Second == 0:
		return fmt.Sprintf("%ds", d/time.Second)
	}
	return d.String()
}

// address is an IP address.
type address struct {
	quoted
	p *netip.Addr
}

func (v address) set(text string) error {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return errValue
	}
	*v.p = a
	return nil
}
func (v address) text() string    { return v.p.String() }
func (v address) allowed() string { return "an IP address such as 127.0.0.1, 0.0.0.0 or ::" }
