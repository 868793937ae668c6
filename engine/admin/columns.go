package admin

import (
	"encoding/json"
	"strings"
)

// columns are the fields to show: nil for all there is below.
type columns map[string]columns

// parseColumns reads a list of fields with commas between them; dots lead into
// objects.
func parseColumns(text string) columns {
	if text == "" {
		return nil
	}
	all := columns{}
	for path := range strings.SplitSeq(text, ",") {
		if len(all) >= columnsMax {
			break
		}
		at := all
		segments := strings.Split(path, ".")
		for i, s := range segments {
			below, known := at[s]
			switch {
			case known && below == nil:
			case i == len(segments)-1 || i == columnsDepthMax:
				at[s] = nil
			case !known:
				below = columns{}
				at[s] = below
			}
			if at = below; at == nil {
				break
			}
		}
	}
	return all
}

// pick appends the part of a value that the columns name. raw is compact JSON
// that this process has made.
func (c columns) pick(dst, raw []byte) []byte {
	if c == nil || len(raw) == 0 {
		return append(dst, raw...)
	}
	first := true
	next := func() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
	}
	switch raw[0] {
	case '{':
		dst = append(dst, '{')
		eachMember(raw, func(key, value []byte) bool {
			name := unquote(key)
			if below, asked := c[name]; asked {
				next()
				dst = append(append(dst, key...), ':')
				dst = below.pick(dst, value)
			}
			return true
		})
		return append(dst, '}')
	case '[':
		dst = append(dst, '[')
		eachElement(raw, func(value []byte) {
			next()
			dst = c.pick(dst, value)
		})
		return append(dst, ']')
	}
	return append(dst, raw...)
}

// keyIn finds a field to sort by; nil for what is not there, or no number, text
// or truth.
func keyIn(raw []byte, path []string) (found any) {
	for _, name := range path {
		var below []byte
		if len(raw) == 0 || raw[0] != '{' {
			return nil
		}
		eachMember(raw, func(key, value []byte) bool {
			if unquote(key) == name {
				below = value
			}
			return below == nil
		})
		raw = below
	}
	if len(raw) == 0 || json.Unmarshal(raw, &found) != nil {
		return nil
	}
	switch found.(type) {
	case bool, float64, string:
		return found
	}
	return nil
}

func unquote(key []byte) string {
	if len(key) > 1 && strings.IndexByte(string(key), '\\') < 0 {
		return string(key[1 : len(key)-1])
	}
	var text string
	_ = json.Unmarshal(key, &text)
	return text
}

// eachMember visits the members of a compact object until it is told to stop.
func eachMember(raw []byte, visit func(key, value []byte) bool) {
	for i := 1; i < len(raw) && raw[i] == '"'; i++ {
		colon := skip(raw, i)
		if colon >= len(raw) {
			return
		}
		end := skip(raw, colon+1)
		if !visit(raw[i:colon], raw[colon+1:end]) {
			return
		}
		i = end
	}
}

// eachElement visits the elements of a compact array.
func eachElement(raw []byte, visit func(value []byte)) {
	for i := 1; i < len(raw) && raw[i] != ']'; i++ {
		end := skip(raw, i)
		visit(raw[i:end])
		i = end
	}
}

// skip returns the position behind the value that begins at i.
func skip(raw []byte, i int) int {
	depth := 0
	for i < len(raw) {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
		i++
	}
	return len(raw)
}
