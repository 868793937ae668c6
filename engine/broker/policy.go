package broker

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// This file says what a policy is, which it applies to, and what of it counts;
// policies.go changes them.

// Policy gives settings to the queues and exchanges of a virtual host whose
// names match its pattern.
type Policy struct {
	VHost   string
	Name    string
	Pattern string // RE2, matches anywhere in the name
	// ApplyTo is one of ApplyTos; empty means all.
	ApplyTo  string
	Priority int64
	// Definition has the keys of PolicyKeys, which are those of arguments
	// without "x-".
	Definition amqp.Table
}

// What a policy may apply to.
const (
	ApplyToAll       = "all"
	ApplyToQueues    = "queues"
	ApplyToClassic   = "classic_queues"
	ApplyToQuorum    = "quorum_queues"
	ApplyToStreams   = "streams"
	ApplyToExchanges = "exchanges"
)

// ApplyTos are the possible values of Policy.ApplyTo.
var ApplyTos = []string{ApplyToAll, ApplyToQueues, ApplyToClassic, ApplyToQuorum, ApplyToStreams, ApplyToExchanges}

// Bounds of policies. Priorities are what RabbitMQ's clients and files use; any
// 32-bit number will do.
const (
	policyPriorityMax   = 1<<31 - 1
	policyTextBytesMax  = 4096
	policiesPerVHostMax = 10_000 // each declare matches all of them
)

// compiled is a checked policy; immutable.
type compiled struct {
	Policy
	re *regexp.Regexp // nil: matches all
}

// compilePolicy checks a policy. Errors: Invalid.
func compilePolicy(p Policy, operator bool) (*compiled, error) {
	what := "policy"
	if operator {
		what = "operator policy"
	}
	if err := access.CheckName(what, p.Name); err != nil {
		return nil, err
	}
	if p.ApplyTo == "" {
		p.ApplyTo = ApplyToAll
	}
	if !slices.Contains(ApplyTos, p.ApplyTo) {
		return nil, access.Errorf(access.Invalid, "%s '%s' cannot apply to '%s': it is one of %s", what, p.Name, p.ApplyTo, strings.Join(ApplyTos, ", "))
	}
	if p.Priority < -policyPriorityMax-1 || p.Priority > policyPriorityMax {
		return nil, access.Errorf(access.Invalid, "the priority %d of %s '%s' is not a 32-bit number", p.Priority, what, p.Name)
	}
	c := &compiled{Policy: p}
	switch p.Pattern {
	case "", ".*", "^.*", ".*$", "^.*$", "^":
	default:
		var err error
		if c.re, err = access.CompilePattern(p.Pattern); err != nil {
			return nil, err
		}
	}
	var err error
	if c.Definition, err = checkDefinition(what, &p, operator); err != nil {
		return nil, err
	}
	return c, nil
}

// checkDefinition returns a definition as it is kept: keys sorted, numbers as
// 64-bit ones. Errors: Invalid.
func checkDefinition(what string, p *Policy, operator bool) (amqp.Table, error) {
	type field struct {
		name  string
		value amqp.Value
	}
	var fields []field
	for name, v := range p.Definition.All() {
		key, known := PolicyKeys[string(name)]
		switch {
		case !known:
			return nil, access.Errorf(access.Invalid, "%s '%s' has the key '%s', which is not known: the keys are %s", what, p.Name, name, policyKeyNames(operator))
		case operator && !key.Operator:
			return nil, access.Errorf(access.Invalid, "operator policy '%s' has the key '%s', which only policies may have: the keys are %s", p.Name, name, policyKeyNames(true))
		}
		if problem := key.check(v); problem != "" {
			return nil, access.Errorf(access.Invalid, "%s '%s': %s %s", what, p.Name, name, problem)
		}
		if n, ok := v.Int64(); ok {
			v = amqp.Int64Value(n)
		}
		fields = append(fields, field{string(name), v})
	}
	if len(fields) == 0 {
		return nil, access.Errorf(access.Invalid, "%s '%s' defines nothing: give at least one of %s", what, p.Name, policyKeyNames(operator))
	}
	slices.SortFunc(fields, func(a, b field) int { return cmp.Compare(a.name, b.name) })
	var b amqp.TableBuilder
	for _, f := range fields {
		b.SetValue(f.name, f.value)
	}
	return b.Table(), nil
}

// objectKind is what a policy's ApplyTo is compared with.
type objectKind string

func queueKind(arguments amqp.Table) objectKind {
	switch queueType(arguments) {
	case "quorum":
		return ApplyToQuorum
	case "stream":
		return ApplyToStreams
	}
	return ApplyToClassic
}

func (c *compiled) matches(kind objectKind, name string) bool {
	switch c.ApplyTo {
	case ApplyToAll:
	case ApplyToQueues:
		if kind == ApplyToExchanges {
			return false
		}
	default:
		if string(kind) != c.ApplyTo {
			return false
		}
	}
	return c.re == nil || c.re.MatchString(name)
}

// policySet are the policies of a virtual host: immutable, and replaced as a
// whole, but for the answers it remembers.
type policySet struct {
	regular, operator []*compiled // by precedence: the first that matches counts

	mu    sync.Mutex // comes after all other locks
	pairs map[applied]*applied
}

// applied are the policies that count for an object; either may be nil.
type applied struct{ policy, operator *compiled }

// match finds the policies of an object; nil: none. The same ones give the same
// pointer, so that ten thousand queues share it.
func (s *policySet) match(kind objectKind, name string) *applied {
	if s == nil {
		return nil
	}
	var a applied
	a.policy = firstMatch(s.regular, kind, name)
	if kind != ApplyToExchanges {
		a.operator = firstMatch(s.operator, kind, name)
	}
	if a == (applied{}) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.pairs[a]
	if p == nil {
		if s.pairs == nil {
			s.pairs = map[applied]*applied{}
		}
		p = &a
		s.pairs[a] = p
	}
	return p
}

func firstMatch(list []*compiled, kind objectKind, name string) *compiled {
	for _, c := range list {
		if c.matches(kind, name) {
			return c
		}
	}
	return nil
}

// same says whether two answers name the same policies in the same versions.
func (a *applied) same(b *applied) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// definitions returns the tables that count, for effective; nil where there is
// no policy.
func (a *applied) definitions() (policy, operator amqp.Table) {
	if a == nil {
		return nil, nil
	}
	if a.policy != nil {
		policy = a.policy.Definition
	}
	if a.operator != nil {
		operator = a.operator.Definition
	}
	return policy, operator
}

// alternate is what the policies say of an exchange's alternate exchange.
func (a *applied) alternate() (name string, ok bool) {
	if a.policy == nil {
		return "", false
	}
	v, ok := a.policy.Definition.Lookup("alternate-exchange")
	text, _ := v.Bytes()
	return string(text), ok
}

// EffectivePolicy is what policies say of an object, before its arguments are
// looked at.
type EffectivePolicy struct {
	Policy, OperatorPolicy string // names; empty: none
	// Definition merges both: of a number that both have, the lower one.
	Definition amqp.Table
}

func (a *applied) effective() (e EffectivePolicy) {
	policy, operator := a.definitions()
	if a == nil {
		return e
	}
	var b amqp.TableBuilder
	if a.policy != nil {
		e.Policy = a.policy.Name
	}
	if a.operator != nil {
		e.OperatorPolicy = a.operator.Name
	}
	for name, v := range policy.All() {
		b.SetValue(string(name), v)
	}
	for name, v := range operator.All() {
		if other, ok := policy.Lookup(string(name)); ok {
			x, _ := other.Int64()
			if y, _ := v.Int64(); x < y {
				v = other
			}
		}
		b.SetValue(string(name), v)
	}
	e.Definition = b.Table()
	return e
}

// precedence orders policies: high priorities first, and where they are equal,
// by name.
func precedence(a, b *compiled) int {
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.Name, b.Name))
}

// with returns the set with one policy more, or another version of it.
func (s *policySet) with(c *compiled, operator bool) (*policySet, error) {
	next := s.without(c.Name, operator)
	list := &next.regular
	if operator {
		list = &next.operator
	}
	if len(*list) >= policiesPerVHostMax {
		return nil, access.Errorf(access.Invalid, "virtual host '%s' has %d policies: more are not possible", c.VHost, len(*list))
	}
	i, _ := slices.BinarySearchFunc(*list, c, precedence)
	*list = slices.Insert(*list, i, c)
	return next, nil
}

// without returns the set less one policy.
func (s *policySet) without(name string, operator bool) *policySet {
	next := &policySet{}
	if s != nil {
		next.regular, next.operator = slices.Clone(s.regular), slices.Clone(s.operator)
	}
	list := &next.regular
	if operator {
		list = &next.operator
	}
	*list = slices.DeleteFunc(*list, func(c *compiled) bool { return c.Name == name })
	return next
}

func (s *policySet) find(name string, operator bool) *compiled {
	for _, c := range s.list(operator) {
		if c.Name == name {
			return c
		}
	}
	return nil
}

func (s *policySet) list(operator bool) []*compiled {
	switch {
	case s == nil:
		return nil
	case operator:
		return s.operator
	}
	return s.regular
}
