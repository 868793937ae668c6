package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// noneWord is how the environment and flags write the empty list.
const noneWord = "none"

// many is what lists have in common: in TOML an array of strings, elsewhere one
// text with commas.
type many struct{}

func (many) fromTOML(v any) (string, bool) {
	array, ok := v.([]any)
	if !ok {
		return "", false
	}
	list := make([]string, len(array))
	for i, x := range array {
		s, ok := x.(string)
		if !ok || s == "" || strings.ContainsAny(s, ",") {
			return "", false
		}
		list[i] = s
	}
	return joinList(list), true
}

func (many) literal(text string) string {
	list := splitList(text)
	for i, s := range list {
		list[i] = quote(s)
	}
	return "[" + strings.Join(list, ", ") + "]"
}

func splitList(text string) []string {
	if text == noneWord || text == "" {
		return []string{}
	}
	list := strings.Split(text, ",")
	for i, s := range list {
		list[i] = strings.TrimSpace(s)
	}
	return list
}

func joinList(list []string) string {
	if len(list) == 0 {
		return noneWord
	}
	return strings.Join(list, ",")
}

// words is a list of texts, of any or of a few.
type words struct {
	many
	p      *[]string
	from   []string // nil: any
	filled bool     // may not be empty
}

func (v words) set(text string) error {
	list := splitList(text)
	for i, s := range list {
		if s == "" || v.from != nil && (!slices.Contains(v.from, s) || slices.Contains(list[:i], s)) {
			return errValue
		}
	}
	if v.filled && len(list) == 0 {
		return errValue
	}
	*v.p = list
	return nil
}
func (v words) text() string { return joinList(*v.p) }
func (v words) allowed() string {
	if v.from == nil {
		return `a list of texts without commas, such as ["one", "two"] (in variables and flags: one,two or none)`
	}
	return fmt.Sprintf("a list of some of %s, each once (in variables and flags separated by commas)", strings.Join(v.from, ", "))
}

// prefixes is a list of addresses and networks.
type prefixes struct {
	many
	p *[]netip.Prefix
}

func (v prefixes) set(text string) error {
	list := make([]netip.Prefix, 0, 4)
	for _, s := range splitList(text) {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			a, err := netip.ParseAddr(s)
			if err != nil {
				return errValue
			}
			p = netip.PrefixFrom(a, a.BitLen())
		}
		if p != p.Masked() {
			return errValue // bits behind the network are a slip
		}
		list = append(list, p)
	}
	*v.p = list
	return nil
}

func (v prefixes) text() string {
	list := make([]string, len(*v.p))
	for i, p := range *v.p {
		list[i] = p.String()
	}
	return joinList(list)
}

func (v prefixes) allowed() string {
	return `a list of addresses and networks such as ["10.0.0.7", "192.168.0.0/16"] (in variables and flags separated by commas)`
}
