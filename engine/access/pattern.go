package access

import (
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"
)

// pattern is a compiled permission pattern.
type pattern struct {
	source string
	all    bool // matches every name: no need to look at it
	re     *regexp.Regexp
}

// compile makes a pattern. The empty one matches the empty name only. Errors:
// Invalid.
func compile(source string) (pattern, error) {
	p := pattern{source: source}
	switch source {
	case ".*", "^.*", ".*$", "^.*$":
		p.all = true
		return p, nil
	case "":
		source = "^$"
	}
	re, err := CompilePattern(source)
	p.re = re
	return p, err
}

// CompilePattern compiles a pattern that is not of permissions: the empty one
// matches everything. Errors: Invalid.
func CompilePattern(source string) (*regexp.Regexp, error) {
	if len(source) > PatternBytesMax {
		return nil, errorf(Invalid, "a pattern of %d bytes is too long; %d are possible", len(source), PatternBytesMax)
	}
	if err := CheckPattern(source, len(source)+patternStatesMax); err != nil {
		return nil, err
	}
	re, err := regexp.Compile(source)
	if err != nil {
		return nil, badPattern(source, err)
	}
	return re, nil
}

// CheckPattern refuses what is no pattern, or would be one of more states than
// that: matching takes time for each state and each byte of a name, and repeats of
// repeats make thousands of a few characters. Errors: Invalid.
func CheckPattern(source string, states int) error {
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return badPattern(source, err)
	}
	if n := statesOf(parsed); n > states {
		return errorf(Invalid, "the pattern '%s' is too much work: its repeats stand for %d states, %d are possible", source, n, states)
	}
	return nil
}

// statesOf is about how many states a pattern has when repeats are written out.
func statesOf(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n += statesOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		n = (n - 1) * max(re.Max, re.Min, 1)
	}
	return n
}

// badPattern says what is wrong with a pattern, and where it may come from.
func badPattern(source string, err error) error {
	hint := ""
	for _, unsupported := range []struct{ in, name string }{
		{"(?=", "look-ahead"}, {"(?!", "look-ahead"}, {"(?<=", "look-behind"}, {"(?<!", "look-behind"},
		{"(?>", "atomic groups"}, {"*+", "possessive repeats"}, {"++", "possessive repeats"},
		{`\1`, "back-references"}, {`\2`, "back-references"}, {`\Z`, `\Z (write \z or $)`},
	} {
		if strings.Contains(source, unsupported.in) {
			hint = "; " + unsupported.name + " of Erlang's and Perl's patterns are not understood here: patterns are RE2, which matches in linear time. Name what is allowed instead of what is not"
			break
		}
	}
	var text string
	if e, ok := err.(*syntax.Error); ok {
		text = e.Code.String() + ": `" + e.Expr + "`"
	} else {
		text = err.Error()
	}
	return errorf(Invalid, "'%s' is not a regular expression: %s%s", source, text, hint)
}

func (p *pattern) match(name []byte) bool { return p.all || p.re.Match(name) }

// cache keeps answers of one pattern by name, bounded. The zero value is empty.
type cache struct {
	mu      sync.RWMutex
	answers map[string]bool
}

// match asks the cache, then the pattern.
func (c *cache) match(p *pattern, name []byte) bool {
	if p.all {
		return true
	}
	c.mu.RLock()
	answer, known := c.answers[string(name)]
	c.mu.RUnlock()
	if known {
		return answer
	}
	answer = p.match(name)
	c.mu.Lock()
	if c.answers == nil {
		c.answers = map[string]bool{}
	} else if len(c.answers) >= cacheEntriesMax {
		clear(c.answers)
	}
	c.answers[string(name)] = answer
	c.mu.Unlock()
	return answer
}
