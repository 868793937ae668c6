package broker

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
)

// Administration of policies; see adminusers.go for what all changes have in
// common. A change is applied to the objects that exist before it returns:
// the queues and exchanges of the virtual host are matched without its lock,
// and only those whose policies differ are touched, each under its own lock
// (exchanges: a few at a time under the virtual host's). Changes come one at a
// time; what is declared meanwhile sees the new set already, because the set is
// swapped under the lock that declaring needs.

// exchangesPerHold is how many exchanges change under one hold of VHost.mu.
const exchangesPerHold = 64

// SetPolicy creates or replaces a policy. Errors: NotFound for the virtual host,
// Invalid.
func (b *Broker) SetPolicy(p Policy) (seq uint64, err error) { return b.setPolicy(p, false) }

// SetOperatorPolicy creates or replaces an operator policy: one whose limits
// also hold where arguments or policies ask for more. Errors as SetPolicy.
func (b *Broker) SetOperatorPolicy(p Policy) (seq uint64, err error) { return b.setPolicy(p, true) }

// ClearPolicy removes a policy. Errors: NotFound.
func (b *Broker) ClearPolicy(vhost, name string) (seq uint64, err error) {
	return b.clearPolicy(vhost, name, false)
}

// ClearOperatorPolicy removes an operator policy. Errors: NotFound.
func (b *Broker) ClearOperatorPolicy(vhost, name string) (seq uint64, err error) {
	return b.clearPolicy(vhost, name, true)
}

func (b *Broker) setPolicy(p Policy, operator bool) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		c, err := compilePolicy(p, operator)
		if err != nil {
			return nil, err
		}
		vh := b.VHost(p.VHost)
		if vh == nil {
			return nil, noVHost(p.VHost)
		}
		set, err := vh.policies.with(c, operator)
		if err != nil {
			return nil, err
		}
		b.warnIdle(c)
		vh.usePolicies(set)
		return policyRecord(c, operator), nil
	})
}

func (b *Broker) warnIdle(c *compiled) {
	if idle := idleKeys(c.Definition); len(idle) > 0 {
		b.logger.Warn("a policy has keys that this version keeps but does not act upon", "policy", c.Name, "vhost", c.VHost, "keys", strings.Join(idle, " "))
	}
}

func (b *Broker) clearPolicy(vhost, name string, operator bool) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		vh := b.VHost(vhost)
		if vh == nil {
			return nil, noVHost(vhost)
		}
		if vh.policySet().find(name, operator) == nil {
			what := "policy"
			if operator {
				what = "operator policy"
			}
			return nil, access.Errorf(access.NotFound, "there is no %s '%s' in virtual host '%s'", what, name, vhost)
		}
		vh.usePolicies(vh.policySet().without(name, operator))
		return policyClearRecord(vhost, name, operator), nil
	})
}

// Policies lists the policies of a virtual host, or with "" of all, by name.
func (b *Broker) Policies(vhost string) []Policy { return b.listPolicies(vhost, false) }

// OperatorPolicies lists the operator policies likewise.
func (b *Broker) OperatorPolicies(vhost string) []Policy { return b.listPolicies(vhost, true) }

func (b *Broker) listPolicies(vhost string, operator bool) (list []Policy) {
	b.mu.RLock()
	vhosts := slices.Collect(maps.Values(b.vhosts))
	b.mu.RUnlock()
	for _, vh := range vhosts {
		if vhost != "" && vh.Name != vhost {
			continue
		}
		for _, c := range vh.policySet().list(operator) {
			list = append(list, c.Policy)
		}
	}
	slices.SortFunc(list, func(a, b Policy) int {
		return cmp.Or(cmp.Compare(a.VHost, b.VHost), cmp.Compare(a.Name, b.Name))
	})
	return list
}

// policySet returns the policies in force.
func (vh *VHost) policySet() *policySet {
	vh.mu.RLock()
	defer vh.mu.RUnlock()
	return vh.policies
}

// usePolicies puts another set in force; the caller holds Broker.admin.
func (vh *VHost) usePolicies(set *policySet) {
	vh.mu.Lock()
	vh.policies = set
	queues := slices.Collect(maps.Values(vh.queues))
	exchanges := slices.Collect(maps.Values(vh.exchanges))
	vh.mu.Unlock()
	vh.broker.applyToQueues(set, queues)
	vh.applyToExchanges(set, exchanges)
}

func (b *Broker) applyToQueues(set *policySet, queues []*Queue) {
	for _, q := range queues {
		if a := set.match(queueKind(q.Arguments), q.Name); !a.same(q.applied.Load()) {
			q.applied.Store(a)
			q.applyArguments()
		}
	}
}

func (vh *VHost) applyToExchanges(set *policySet, exchanges []*Exchange) {
	for piece := range slices.Chunk(exchanges, exchangesPerHold) {
		found := make([]*applied, len(piece))
		for i, e := range piece {
			found[i] = set.match(ApplyToExchanges, e.Name)
		}
		vh.mu.Lock()
		for i, e := range piece {
			e.applied = found[i]
		}
		vh.version.Add(1)
		vh.mu.Unlock()
	}
}

// matchPolicies is the start's: all records have been read, nobody else is here
// yet, and queues take what applies to them when their logs are opened.
func (b *Broker) matchPolicies() {
	for _, vh := range b.vhosts {
		for _, e := range vh.exchanges {
			e.applied = vh.policies.match(ApplyToExchanges, e.Name)
		}
		for _, q := range vh.queues {
			q.applied.Store(vh.policies.match(queueKind(q.Arguments), q.Name))
		}
	}
}

// EffectivePolicy returns what policies say of the queue now.
func (q *Queue) EffectivePolicy() EffectivePolicy { return q.applied.Load().effective() }

// EffectivePolicy returns what policies say of an exchange now.
func (vh *VHost) EffectivePolicy(e *Exchange) EffectivePolicy {
	vh.mu.RLock()
	a := e.applied
	vh.mu.RUnlock()
	return a.effective()
}
