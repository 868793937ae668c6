package routing

import (
	"bytes"
	"strings"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// The reference matchers: written for being obviously right, not fast.

func referenceWords(key string) []string {
	if key == "" {
		return nil
	}
	return strings.Split(key, ".")
}

// referenceTopicMatch is the recursive definition; seen keeps it polynomial.
func referenceTopicMatch(pattern, key string) bool {
	type position struct{ pattern, key int }
	patternWords, keyWords := referenceWords(pattern), referenceWords(key)
	seen := map[position]bool{}
	var match func(at position) bool
	match = func(at position) (matched bool) {
		if known, ok := seen[at]; ok {
			return known
		}
		defer func() { seen[at] = matched }()
		if at.pattern == len(patternWords) {
			return at.key == len(keyWords)
		}
		word, left := patternWords[at.pattern], at.key < len(keyWords)
		switch word {
		case "#":
			return match(position{at.pattern + 1, at.key}) || left && match(position{at.pattern, at.key + 1})
		case "*":
			return left && match(position{at.pattern + 1, at.key + 1})
		}
		return left && keyWords[at.key] == word && match(position{at.pattern + 1, at.key + 1})
	}
	return match(position{})
}

func referenceHeadersMatch(arguments, headers amqp.Table) bool {
	mode := "all"
	if match, ok := arguments.Lookup("x-match"); ok {
		text, _ := match.Bytes()
		mode = string(text)
	}
	compared, met := 0, 0
	seen := map[string]bool{}
	for name, value := range arguments.All() {
		if seen[string(name)] {
			continue
		}
		seen[string(name)] = true
		if string(name) == "x-match" || !strings.HasSuffix(mode, "-with-x") && bytes.HasPrefix(name, []byte("x-")) {
			continue
		}
		compared++
		if header, ok := headers.Lookup(string(name)); ok && (value.Kind() == amqp.KindVoid || amqp.Equal(value, header)) {
			met++
		}
	}
	if strings.HasPrefix(mode, "any") {
		return met > 0
	}
	return met == compared
}

// table builds a table of name, value pairs.
func table(pairs ...any) amqp.Table {
	var b amqp.TableBuilder
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		switch value := pairs[i+1].(type) {
		case string:
			b.SetString(name, value)
		case int:
			b.SetInt64(name, int64(value))
		case amqp.Value:
			b.SetValue(name, value)
		}
	}
	return b.Table()
}
