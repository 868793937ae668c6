package access

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// Scope is a permission that somebody else vouches for: a token, not this
// registry. In each of its parts * stands for any text.
type Scope struct {
	Permission  Permission
	VHost, Name string
	RoutingKey  string // for topic exchanges; "" as "*"
}

// Bounds of what somebody else may vouch for.
const (
	scopesMax       = 512
	scopeBytesMax   = 1024 // of one
	scopedVHostsMax = 64   // whose grants are kept
)

// NewScopedUser makes a user that is in no registry: it may do what its scopes
// say. Errors: Invalid.
func NewScopedUser(spec Spec, list []Scope) (*User, error) {
	spec, err := spec.checked()
	if err != nil {
		return nil, err
	}
	if len(list) > scopesMax {
		return nil, errorf(Invalid, "%d scopes are too many; %d are possible", len(list), scopesMax)
	}
	for _, s := range list {
		if !utf8.ValidString(s.VHost) || !utf8.ValidString(s.Name) || !utf8.ValidString(s.RoutingKey) {
			return nil, errorf(Invalid, "a scope is not UTF-8")
		}
		if len(s.VHost)+len(s.Name)+len(s.RoutingKey) > scopeBytesMax {
			return nil, errorf(Invalid, "a scope of more than %d bytes is too long", scopeBytesMax)
		}
	}
	u := &User{Name: spec.Name, scopes: &scopes{list: slices.Clone(list)}}
	u.spec.Store(&spec)
	return u, nil
}

// scopes makes grants of a user's scopes when they are asked for.
type scopes struct {
	list []Scope

	mu     sync.Mutex
	grants map[string]*Grant
}

func (s *scopes) grant(vhost string) *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	g, known := s.grants[vhost]
	if !known {
		g = s.make(vhost)
		if s.grants == nil || len(s.grants) >= scopedVHostsMax {
			s.grants = map[string]*Grant{}
		}
		s.grants[vhost] = g
	}
	return g
}

// topicScope is a scope that may restrict routing keys, within its virtual host.
type topicScope struct {
	permission Permission
	name, key  pattern
}

func (s *scopes) make(vhost string) *Grant {
	var names [permissions][]string
	g := &Grant{}
	var topics []topicScope
	restricted := false
	for _, sc := range s.list {
		if p := wildcard(sc.VHost); !p.match([]byte(vhost)) {
			continue
		}
		g.granted = true
		names[sc.Permission] = append(names[sc.Permission], sc.Name)
		key := sc.RoutingKey
		if key == "" {
			key = "*"
		}
		restricted = restricted || key != "*"
		topics = append(topics, topicScope{sc.Permission, wildcard(sc.Name), wildcard(key)})
	}
	if !g.granted {
		return nil
	}
	if restricted {
		g.scoped = topics
	}
	sources := [permissions]string{}
	for p, list := range names {
		g.patterns[p] = wildcard(list...)
		sources[p] = g.patterns[p].source
	}
	g.Permissions = Permissions{Configure: sources[Configure], Write: sources[Write], Read: sources[Read]}
	return g
}

// topicInScope says whether one of the scopes covers both exchange and key.
func topicInScope(list []topicScope, p Permission, exchange, key []byte) bool {
	for i := range list {
		s := &list[i]
		if s.permission == p && s.name.match(exchange) && s.key.match(key) {
			return true
		}
	}
	return false
}

// wildcard compiles texts, of which any may match, with * for any text. No text
// matches nothing.
func wildcard(texts ...string) pattern {
	if slices.Contains(texts, "*") {
		return pattern{source: ".*", all: true}
	}
	if len(texts) == 0 {
		return pattern{source: "^$", re: nothing}
	}
	alternatives := make([]string, len(texts))
	for i, text := range texts {
		parts := strings.Split(text, "*")
		for j := range parts {
			parts[j] = regexp.QuoteMeta(parts[j])
		}
		alternatives[i] = strings.Join(parts, ".*")
	}
	source := "^(?:" + strings.Join(alternatives, "|") + ")$"
	// It cannot fail: it is UTF-8, and everything but .* is quoted.
	return pattern{source: source, re: regexp.MustCompile("(?s)" + source)}
}

// nothing matches no text.
var nothing = regexp.MustCompile(`[^\s\S]`)
