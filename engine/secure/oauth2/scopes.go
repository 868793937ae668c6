package oauth2

import (
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/basaltmq/basaltmq/engine/access"
)

// rights are what scopes come to.
type rights struct {
	tags   []string
	scopes []access.Scope
}

// rightsOf gathers the scopes of a token's claims. What is not understood gives
// nothing.
func (o *Options) rightsOf(claims map[string]any) (r rights) {
	prefix := o.ScopePrefix
	if prefix == "" && o.ResourceServerID != "" {
		prefix = o.ResourceServerID + "."
	}
	take := func(v any) {
		for _, text := range texts(v) {
			if scope, ok := strings.CutPrefix(text, prefix); ok {
				r.add(scope)
			}
		}
	}
	if resources, ok := claims["resource_access"].(map[string]any); ok {
		if mine, ok := resources[o.ResourceServerID].(map[string]any); ok {
			take(mine["roles"])
		}
	}
	take(claims["scope"])
	for _, name := range o.AdditionalScopesKeys {
		take(claims[name])
	}
	return r
}

// texts are the words of a claim: a string of words, or a list of strings.
func texts(v any) (list []string) {
	switch v := v.(type) {
	case string:
		return strings.Fields(v)
	case []any:
		for _, item := range v {
			if s, ok := item.(string); ok {
				list = append(list, s)
			}
		}
	}
	return list
}

func (r *rights) add(scope string) {
	kind, rest, ok := strings.Cut(scope, ":")
	if !ok {
		return
	}
	if kind == "tag" {
		if rest != "" && !slices.Contains(r.tags, rest) {
			r.tags = append(r.tags, rest)
		}
		return
	}
	p, ok := map[string]access.Permission{"configure": access.Configure, "write": access.Write, "read": access.Read}[kind]
	if !ok {
		return
	}
	parts := strings.SplitN(rest, "/", 3)
	if len(parts) < 2 {
		return
	}
	for i := range parts {
		var err error
		if parts[i], err = url.PathUnescape(parts[i]); err != nil || !utf8.ValidString(parts[i]) {
			return
		}
	}
	s := access.Scope{Permission: p, VHost: parts[0], Name: parts[1]}
	if len(parts) == 3 {
		s.RoutingKey = parts[2]
	}
	r.scopes = append(r.scopes, s)
}

// userName is the first claim of those that is a text.
func (o *Options) userName(claims map[string]any) (string, bool) {
	for _, name := range o.PreferredUsernameClaims {
		if s, ok := claims[name].(string); ok && s != "" {
			return s, true
		}
	}
	return "", false
}

// audiences of a token: a text or a list of texts.
func audiences(claims map[string]any) []string {
	if s, ok := claims["aud"].(string); ok {
		return []string{s}
	}
	return texts(claims["aud"])
}
