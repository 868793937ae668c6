package access

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Permission is what an operation needs on a resource.
type Permission uint8

const (
	Configure Permission = iota // create and delete
	Write                       // put messages in
	Read                        // get messages out
	permissions
)

// String names it as refusals do.
func (p Permission) String() string { return [...]string{"configure", "write", "read"}[p] }

// Permissions are a user's patterns in one virtual host.
type Permissions struct{ Configure, Write, Read string }

// TopicPermissions are a user's patterns for the routing keys of one topic
// exchange. {username}, {vhost} and {client_id} stand for what they name,
// literally.
type TopicPermissions struct{ Write, Read string }

// Grant is what a user may do in one virtual host. The nil Grant is that of a
// user who may not do anything there.
type Grant struct {
	Permissions Permissions
	granted     bool // false: there are topic permissions only
	patterns    [permissions]pattern
	caches      [permissions]cache
	topics      map[string]*topicGrant // by exchange
	scoped      []topicScope           // of a user of no registry
}

// topicGrant is a user's permissions on one topic exchange.
type topicGrant struct {
	permissions TopicPermissions
	write, read *topicPattern
}

type topicPattern struct {
	pattern
	cache cache
	// perClient: the pattern speaks of {client_id}; expanded is the source but
	// for that.
	perClient bool
	expanded  string
}

// clientIDMark is replaced when the client is known.
const clientIDMark = "{client_id}"

func compileTopic(source, user, vhost string) (t *topicPattern, err error) {
	if len(source) > PatternBytesMax {
		return nil, errorf(Invalid, "a pattern of %d bytes is too long; %d are possible", len(source), PatternBytesMax)
	}
	t = &topicPattern{}
	t.expanded = strings.NewReplacer("{username}", regexp.QuoteMeta(user), "{vhost}", regexp.QuoteMeta(vhost)).Replace(source)
	t.perClient = strings.Contains(source, clientIDMark)
	if err := CheckPattern(t.expanded, len(t.expanded)+patternStatesMax); err != nil {
		return nil, err
	}
	// Expansion may exceed what a pattern may have: it is not the operator's.
	if t.expanded == "" || t.expanded == ".*" {
		t.pattern, err = compile(t.expanded)
	} else if re, compileErr := regexp.Compile(t.expanded); compileErr != nil {
		err = badPattern(source, compileErr)
	} else {
		t.pattern = pattern{source: t.expanded, re: re}
	}
	return t, err
}

func newTopicGrant(p TopicPermissions, user, vhost string) (*topicGrant, error) {
	t := &topicGrant{permissions: p}
	var err error
	if t.write, err = compileTopic(p.Write, user, vhost); err != nil {
		return nil, err
	}
	if t.read, err = compileTopic(p.Read, user, vhost); err != nil {
		return nil, err
	}
	return t, nil
}

// with returns a Grant with other permissions and the same topics.
func (g *Grant) with(p Permissions) (*Grant, error) {
	out := &Grant{Permissions: p, granted: true}
	for i, source := range [permissions]string{p.Configure, p.Write, p.Read} {
		var err error
		if out.patterns[i], err = compile(source); err != nil {
			return nil, err
		}
	}
	if g != nil {
		out.topics = g.topics
	}
	return out, nil
}

// withTopics returns a Grant with the same permissions and other topics.
func (g *Grant) withTopics(topics map[string]*topicGrant) *Grant {
	out := &Grant{topics: topics}
	if g != nil {
		out.Permissions, out.granted, out.patterns = g.Permissions, g.granted, g.patterns
	}
	return out
}

// without returns a Grant with the topics only; nil if there are none.
func (g *Grant) without() *Grant {
	if g == nil || len(g.topics) == 0 {
		return nil
	}
	return &Grant{topics: g.topics}
}

// Granted says whether the user may enter the virtual host at all.
func (g *Grant) Granted() bool { return g != nil && g.granted }

// Allows says whether the permission covers the resource. The caller names the
// default exchange "amq.default". It does not allocate once it knows the answer.
func (g *Grant) Allows(p Permission, name []byte) bool {
	return g.Granted() && g.caches[p].match(&g.patterns[p], name)
}

// HasTopics says whether routing keys of some exchange are restricted.
func (g *Grant) HasTopics() bool { return g != nil && (len(g.topics) > 0 || len(g.scoped) > 0) }

// AllowsTopic says whether a routing key may be used with a topic exchange: to
// publish (Write) or to bind with (Read). Where no topic permissions are set
// everything is allowed. clientID is that of protocols that have one; without
// one, {client_id} stands for itself.
func (g *Grant) AllowsTopic(p Permission, exchange, routingKey []byte, clientID string) bool {
	if !g.HasTopics() {
		return true
	}
	if len(g.scoped) > 0 {
		return topicInScope(g.scoped, p, exchange, routingKey)
	}
	t := g.topics[string(exchange)]
	if t == nil {
		return true
	}
	tp := t.read
	if p == Write {
		tp = t.write
	}
	if !tp.perClient || clientID == "" {
		return tp.cache.match(&tp.pattern, routingKey)
	}
	re, err := regexp.Compile(strings.ReplaceAll(tp.expanded, clientIDMark, regexp.QuoteMeta(clientID)))
	return err == nil && re.Match(routingKey)
}

// topicExchanges are the names of exchanges with topic permissions, sorted.
func (g *Grant) topicExchanges() []string { return slices.Sorted(maps.Keys(g.topics)) }
