package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
)

// fileBytesMax bounds a configuration file.
const fileBytesMax = 1 << 20

// Problem is one mistake in a configuration.
type Problem struct {
	// Place is where: "basaltmq.toml:12", "BASALTMQ_AMQP_PORT", "--amqp-port".
	Place string
	Text  string
}

func (p Problem) Error() string { return p.Place + ": " + p.Text }

// Problems are all mistakes that were found, in their order.
type Problems []Problem

func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i := range p {
		lines[i] = p[i].Error()
	}
	return strings.Join(lines, "\n")
}

// orNil avoids an error that holds nothing.
func (p Problems) orNil() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// fileReader takes a decoded file into a Config.
type fileReader struct {
	name     string
	lines    map[string]int
	config   *Config
	set      map[string]string // places of the keys that were given
	problems Problems
}

// readFile reads a TOML text into c and returns where each key was given. name
// stands for the file in problems.
func readFile(name, text string, c *Config) (map[string]string, error) {
	if len(text) > fileBytesMax {
		return nil, Problems{{name, fmt.Sprintf("the file has more than %s", formatBytes(fileBytesMax))}}
	}
	r := &fileReader{name: name, config: c, set: map[string]string{}}
	var decoded map[string]any
	if _, err := toml.Decode(text, &decoded); err != nil {
		var parse toml.ParseError
		if errors.As(err, &parse) {
			return nil, Problems{{fmt.Sprintf("%s:%d", name, parse.Position.Line), "not TOML: " + parse.Message}}
		}
		return nil, Problems{{name, "not TOML: " + strings.TrimPrefix(err.Error(), "toml: ")}}
	}
	r.lines = locate(text)
	r.table("", decoded)
	slices.SortStableFunc(r.problems, func(a, b Problem) int { return lineOf(a) - lineOf(b) })
	return r.set, r.problems.orNil()
}

func lineOf(p Problem) int {
	n, _ := strconv.Atoi(p.Place[strings.LastIndexByte(p.Place, ':')+1:])
	return n
}

// place is where a path, or what it is part of, stands.
func (r *fileReader) place(path string) string {
	for p := path; ; {
		if line, ok := r.lines[p]; ok {
			return fmt.Sprintf("%s:%d", r.name, line)
		}
		dot := strings.LastIndexByte(p, '.')
		if dot < 0 {
			return r.name
		}
		p = p[:dot]
	}
}

func (r *fileReader) problem(path, format string, args ...any) {
	r.problems = append(r.problems, Problem{r.place(path), fmt.Sprintf(format, args...)})
}

// table reads the top level or a section.
func (r *fileReader) table(section string, decoded map[string]any) {
	for _, leaf := range slices.Sorted(maps.Keys(decoded)) {
		v, path := decoded[leaf], leaf
		if section != "" {
			path = section + "." + leaf
		}
		if path == "tls.sni" {
			r.sni(v)
			continue
		}
		if section == "" && isSection(leaf) {
			if inner, ok := v.(map[string]any); ok {
				r.table(leaf, inner)
			} else {
				r.problem(path, "%s is a section: write [%s], and its keys below", leaf, leaf)
			}
			continue
		}
		key := find(path)
		if key == nil {
			r.unknown(section, leaf, v)
			continue
		}
		r.take(path, v, key.value(r.config), key.Secret)
		r.set[path] = r.place(path)
	}
}

// take reads one value.
func (r *fileReader) take(path string, v any, into value, secret bool) {
	if text, ok := into.fromTOML(v); ok && into.set(text) == nil {
		return
	}
	if secret {
		r.problem(path, "%s must be %s", path, into.allowed())
		return
	}
	r.problem(path, "%s = %s: it must be %s", path, show(v), into.allowed())
}

// show is a decoded value as its author may have written it.
func show(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case []any:
		list := make([]string, len(v))
		for i := range v {
			list[i] = show(v[i])
		}
		return "[" + strings.Join(list, ", ") + "]"
	case map[string]any, []map[string]any:
		return "a table"
	}
	return fmt.Sprint(v)
}

func (r *fileReader) unknown(section, leaf string, v any) {
	path := leaf
	if section != "" {
		path = section + "." + leaf
	}
	kind, written := "key", path
	if _, ok := v.(map[string]any); ok && section == "" {
		kind, written = "section", "["+leaf+"]"
	}
	r.problem(path, "unknown %s %s%s", kind, written, r.meant(section, leaf, kind))
}

// meant suggests what an unknown name may stand for.
func (r *fileReader) meant(section, leaf, kind string) string {
	if kind == "section" {
		names := make([]string, 0, len(Sections))
		for _, s := range Sections[1:] {
			names = append(names, s.Name)
		}
		if s := nearest(leaf, names); s != "" {
			return ": did you mean [" + s + "]?"
		}
		return ": there are [" + strings.Join(names, "], [") + "]"
	}
	var here, elsewhere []string
	for i := range keys {
		switch k := &keys[i]; {
		case k.Section() == section:
			here = append(here, k.Leaf())
		case k.Leaf() == leaf:
			elsewhere = append(elsewhere, k.Name)
		}
	}
	near := nearest(leaf, here)
	if near != "" && section != "" {
		near = section + "." + near
	}
	switch {
	case near != "":
		return ": did you mean " + near + "?"
	case len(elsewhere) > 0:
		return ": did you mean " + strings.Join(elsewhere, " or ") + "?"
	}
	if section == "" {
		return " (basaltmq --print-default-config prints all there are)"
	}
	return fmt.Sprintf(": [%s] has %s", section, strings.Join(here, ", "))
}

// sni reads the array of tables [[tls.sni]].
func (r *fileReader) sni(v any) {
	tables, ok := v.([]map[string]any)
	if !ok {
		r.problem("tls.sni", "tls.sni must be tables: write [[tls.sni]] above host, cert and key, once for each host")
		return
	}
	for i, decoded := range tables {
		s, base := SNI{}, fmt.Sprintf("tls.sni.%d", i)
		for _, name := range slices.Sorted(maps.Keys(decoded)) {
			known := false
			for _, k := range sniKeys {
				if k.name == name {
					known = true
					into := k.value(&s)
					if text, ok := into.fromTOML(decoded[name]); !ok || into.set(text) != nil {
						r.problem(base+"."+name, "%s = %s: it must be %s", name, show(decoded[name]), into.allowed())
					}
				}
			}
			if !known {
				r.problem(base+"."+name, "unknown key %s: [[tls.sni]] has host, cert, key, ca and verify_peer", name)
			}
		}
		for _, name := range []string{"host", "cert"} {
			if decoded[name] == nil {
				r.problem(base, "this [[tls.sni]] has no %s", name)
			}
		}
		r.config.TLS.SNI = append(r.config.TLS.SNI, s)
	}
	r.set["tls.sni"] = r.place("tls.sni.0")
}

func isSection(name string) bool {
	return slices.ContainsFunc(Sections, func(s Section) bool { return s.Name == name && name != "" })
}

// find returns the row of a name; nil if there is none.
func find(name string) *Key {
	for i := range keys {
		if keys[i].Name == name {
			return &keys[i]
		}
	}
	return nil
}
