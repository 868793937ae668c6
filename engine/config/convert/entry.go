package convert

import (
	"fmt"
	"strings"
)

// entry is one setting of a file.
type entry struct {
	line    int
	section string // of an ini file
	key     string
	value   string
}

// name is how its author calls it, with the value unless that is a secret.
func (e entry) name() string {
	name := e.key
	if e.section != "" {
		name = "[" + e.section + "] " + e.key
	}
	if e.value == "" || strings.Contains(e.key, "pass") {
		return name
	}
	return name + " = " + e.value
}

// readINI reads sections and "key = value" lines. Comments begin with ; or #.
func readINI(text string) (entries []entry, err error) {
	section, number := "", 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		switch {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[':
			name, rest, ok := strings.Cut(line[1:], "]")
			if rest = strings.TrimSpace(rest); !ok || rest != "" && rest[0] != ';' && rest[0] != '#' {
				return nil, fmt.Errorf("line %d: a section's name ends with ]", number)
			}
			section = strings.TrimSpace(name)
		default:
			key, value, ok := strings.Cut(line, "=")
			if key = strings.TrimSpace(key); !ok || key == "" {
				return nil, fmt.Errorf("line %d: neither a section nor key = value", number)
			}
			entries = append(entries, entry{number, section, key, withoutComment(strings.TrimSpace(value), " ;", " #")})
		}
	}
	return entries, nil
}

// readConf reads RabbitMQ's "key = value" lines. Comments begin with #.
func readConf(text string) (entries []entry, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(strings.TrimPrefix(line, "\ufeff"))
		if line == "" || line[0] == '#' || line[0] == '%' {
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if key = strings.TrimSpace(key); !ok || key == "" {
			return nil, fmt.Errorf("line %d: not key = value (an Erlang file, advanced.config or rabbitmq.config, cannot be translated)", number)
		}
		value = strings.TrimSpace(value)
		if n := len(value); n > 1 && value[0] == '\'' && value[n-1] == '\'' {
			value = value[1 : n-1]
		} else {
			value = withoutComment(value, " #")
		}
		entries = append(entries, entry{number, "", key, value})
	}
	return entries, nil
}

// withoutComment cuts a value where a comment begins.
func withoutComment(value string, marks ...string) string {
	for _, mark := range marks {
		value, _, _ = strings.Cut(value, mark)
	}
	return strings.TrimSpace(value)
}
