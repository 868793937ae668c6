package results

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// measure says what the numbers of a result mean whose JSON name ends so. The
// first that fits counts. What no rule fits is not compared: options, totals,
// what only describes the run.
type measure struct {
	suffix string // of the name
	unit   string
	better string
}

var measures = []measure{
	{"raw_append.rate_ratio", "", More},
	{"raw_overwrite.rate_ratio", "", More},
	{"relay.fraction", "", More},
	{"of_one_queue", "", More},
	{"of_one_queue_same_channels", "", More},
	{"of_base", "", More},
	{"bytes_per_s", "bytes/s", More},
	{"_per_s", "/s", More},
	{".per_s", "/s", More},
	{"_us", "µs", Less},
	{"broker_cpu_ns_per_message", "ns", Less},
	{"broker_cpu_ns_per_delivery", "ns", Less},
	{"broker_cpu_ns_per_operation", "ns", Less},
	{"broker_cpu_ns_each", "ns", Less},
	{"vm_rss_bytes_each", "bytes", Less},
	{"write_call_bytes_per_record_byte", "", Less},
	{"bytes_per_record_byte", "", Less},
	{"rss.max.vm_rss", "bytes", Less},
	{"memory.vm_rss", "bytes", Less},
	{"memory.vm_hwm", "bytes", Less},
	{"allocated_bytes", "bytes", Less},
	{"bytes_per_connection", "bytes", Less},
	{"bytes_per_queue", "bytes", Less},
}

// notFigures are parts of a result that describe it, and yardsticks that a
// fraction beside them already stands for.
var notFigures = []string{
	"options", "versions", "environment", "before", "after", "relay.before_messages_per_s", "relay.after_messages_per_s",
	"min_us", "max_us", "mean_us", "p75_us", "p90_us", "p95_us", "p99_99_us", "bytes_out_per_s", "bytes_in_per_s",
}

// FlattenFigures finds the figures of a result of any scenario by the names of
// its JSON. A suite and the gate say what their figures are.
func FlattenFigures(raw []byte) ([]Figure, error) {
	var head Head
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("not a result: %w", err)
	}
	if head.Scenario == "suite" {
		var suite Suite
		if err := json.Unmarshal(raw, &suite); err != nil {
			return nil, fmt.Errorf("not a result of the suite: %w", err)
		}
		return suite.comparable(), suite.Check()
	}
	if head.Scenario == "gate" {
		var gate Gate
		if err := json.Unmarshal(raw, &gate); err != nil {
			return nil, fmt.Errorf("not a result of the gate: %w", err)
		}
		return gate.comparable(), gate.check()
	}
	var tree map[string]any
	if err := json.Unmarshal(raw, &tree); err != nil {
		return nil, fmt.Errorf("not a result: %w", err)
	}
	var figures []Figure
	flatten(tree, "", &figures)
	return figures, nil
}

// comparable are the figures of a suite, and their fractions as figures of
// their own.
func (s *Suite) comparable() (figures []Figure) {
	for _, figure := range s.Figures {
		figures = append(figures, figure)
		if figure.Fraction != nil {
			figures = append(figures, Figure{
				Name: figure.Name + " of " + figure.Yardstick, Section: figure.Section, Value: *figure.Fraction, Better: figure.Better,
			})
		}
	}
	return figures
}

func flatten(value any, name string, figures *[]Figure) {
	switch value := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			path := key
			if name != "" {
				path = name + "." + key
			}
			// Looks at a broker before and after are figures, yardsticks are not.
			part, _ := value[key].(map[string]any)
			_, isLook := part["memory"]
			if !isLook && slices.ContainsFunc(notFigures, func(skip string) bool { return path == skip || strings.HasSuffix(path, "."+skip) }) {
				continue
			}
			flatten(value[key], path, figures)
		}
	case []any:
		for i, element := range value {
			flatten(element, name+"."+elementName(element, i), figures)
		}
	case float64:
		for _, m := range measures {
			if strings.HasSuffix(name, m.suffix) {
				*figures = append(*figures, Figure{Name: name, Value: value, Unit: m.unit, Better: m.better})
				return
			}
		}
	}
}

// elementName names an element of a list by what tells it from the others, so
// that lists which are not the same are compared as far as they agree.
func elementName(element any, index int) string {
	object, _ := element.(map[string]any)
	var parts []string
	for _, key := range []string{"name", "mode", "records_per_batch", "queues", "kind", "window", "channels", "connections", "count", "rate"} {
		switch value := object[key].(type) {
		case string:
			parts = append(parts, value)
		case float64:
			parts = append(parts, fmt.Sprintf("%s=%.0f", key, value))
		}
	}
	if len(parts) == 0 {
		return strconv.Itoa(index)
	}
	return strings.Join(parts, ",")
}
