package suite

import (
	"fmt"
	"strconv"
	"strings"
)

// find follows a path through decoded JSON: names and indexes separated by
// dots, and for an element of a list the values it must have:
//
//	rss.max.vm_rss
//	rows[queues=1,window=100].confirmed_per_s
func find(value any, path string) (float64, error) {
	for rest := path; rest != ""; {
		var part string
		// Dots in brackets belong to values.
		if end := strings.IndexAny(rest, ".["); end < 0 {
			part, rest = rest, ""
		} else if rest[end] == '.' {
			part, rest = rest[:end], rest[end+1:]
		} else if end > 0 {
			part, rest = rest[:end], rest[end:]
		} else {
			closing := strings.IndexByte(rest, ']')
			if closing < 0 {
				return 0, fmt.Errorf("path %q: no closing bracket", path)
			}
			element, err := selectElement(value, rest[1:closing])
			if err != nil {
				return 0, fmt.Errorf("path %q: %w", path, err)
			}
			value, rest = element, strings.TrimPrefix(rest[closing+1:], ".")
			continue
		}
		next, err := step(value, part)
		if err != nil {
			return 0, fmt.Errorf("path %q: %w", path, err)
		}
		value = next
	}
	number, isNumber := value.(float64)
	if !isNumber {
		return 0, fmt.Errorf("path %q: not a number", path)
	}
	return number, nil
}

func step(value any, part string) (any, error) {
	switch value := value.(type) {
	case map[string]any:
		if next, there := value[part]; there {
			return next, nil
		}
	case []any:
		if index, err := strconv.Atoi(part); err == nil && index >= 0 && index < len(value) {
			return value[index], nil
		}
	}
	return nil, fmt.Errorf("there is no %q", part)
}

// selectElement returns the first element of a list with all the values.
func selectElement(value any, conditions string) (any, error) {
	list, _ := value.([]any)
	for _, element := range list {
		object, _ := element.(map[string]any)
		fits := true
		for condition := range strings.SplitSeq(conditions, ",") {
			name, want, _ := strings.Cut(condition, "=")
			fits = fits && object[name] != nil && fmt.Sprint(object[name]) == want
		}
		if fits && object != nil {
			return element, nil
		}
	}
	return nil, fmt.Errorf("there is no element with %s", conditions)
}
