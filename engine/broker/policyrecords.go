package broker

import (
	"maps"
	"slices"
)

// Definition records of policies and parameters. Fields as in records.go and
// accessrecords.go; a priority is a number modulo 2^64.
const (
	recPolicyFirst byte = 42

	recPolicy         byte = 42 // vhost, flags, name, pattern, apply-to, priority, definition
	recPolicyClear    byte = 43 // vhost, flags, name
	recParameter      byte = 44 // vhost, component, name, value in JSON; a global one has neither vhost nor component
	recParameterClear byte = 45 // vhost, component, name
	recPolicyLast     byte = 45
)

const flagOperator byte = 1

func policyRecord(c *compiled, operator bool) []byte {
	f := append(fields{recPolicy}.str(c.VHost), flagIf(operator, flagOperator))
	return f.str(c.Name).str(c.Pattern).str(c.ApplyTo).num(uint64(c.Priority)).str(string(c.Definition))
}

func policyClearRecord(vhost, name string, operator bool) []byte {
	return append(fields{recPolicyClear}.str(vhost), flagIf(operator, flagOperator)).str(name)
}

func parameterRecord(p *Parameter) []byte {
	return fields{recParameter}.str(p.VHost).str(p.Component).str(p.Name).str(string(p.Value))
}

func parameterClearRecord(k parameterKey) []byte {
	return fields{recParameterClear}.str(k.vhost).str(k.component).str(k.name)
}

// policy reads the fields of recPolicy behind the vhost.
func (r *reader) policy(vhost string) (p Policy, operator bool) {
	operator = r.flags()&flagOperator != 0
	return Policy{VHost: vhost, Name: r.str(), Pattern: r.str(), ApplyTo: r.str(), Priority: int64(r.num()), Definition: r.table()}, operator
}

// applyPolicy replays one record of this file. Policies are matched when all
// records have been read.
func (b *Broker) applyPolicy(kind byte, r *reader) error {
	vhost := r.str()
	vh := b.vhosts[vhost]
	switch kind {
	case recPolicy:
		p, operator := r.policy(vhost)
		if r.err != nil || vh == nil {
			return r.err
		}
		c, err := compilePolicy(p, operator)
		if err != nil {
			return err
		}
		if vh.policies, err = vh.policies.with(c, operator); err != nil {
			return err
		}
	case recPolicyClear:
		operator, name := r.flags()&flagOperator != 0, r.str()
		if r.err == nil && vh != nil {
			vh.policies = vh.policies.without(name, operator)
		}
	case recParameter:
		p := Parameter{VHost: vhost, Component: r.str(), Name: r.str(), Value: []byte(r.str())}
		if r.err != nil || vh == nil && vhost != "" {
			return r.err
		}
		if err := p.check(); err != nil {
			return err
		}
		b.parameters[p.key()] = p.Value
	case recParameterClear:
		k := parameterKey{vhost, r.str(), r.str()}
		if r.err == nil {
			delete(b.parameters, k)
		}
	}
	return r.err
}

// snapshotPolicies makes records of policies and parameters; the caller holds
// admin and the locks of the vhosts.
func (b *Broker) snapshotPolicies(vhosts []*VHost, emit func(rec []byte)) {
	for _, vh := range vhosts {
		for _, operator := range []bool{false, true} {
			for _, c := range vh.policies.list(operator) {
				emit(policyRecord(c, operator))
			}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(b.parameters), parameterKey.compare) {
		emit(parameterRecord(&Parameter{k.vhost, k.component, k.name, b.parameters[k]}))
	}
}

// readPolicyDefinition decodes a record of this file for tools.
func readPolicyDefinition(kind byte, r *reader) (info DefinitionInfo) {
	info.VHost = r.str()
	switch kind {
	case recPolicy:
		info.Kind = DefinitionPolicy
		p, operator := r.policy(info.VHost)
		info.Name = p.Name
		if r.err == nil {
			if _, err := compilePolicy(p, operator); err != nil {
				info.Err = err
				return info
			}
		}
	case recPolicyClear:
		info.Kind, info.Deleted = DefinitionPolicy, true
		r.flags()
		info.Name = r.str()
	case recParameter:
		info.Kind = DefinitionParameter
		p := Parameter{VHost: info.VHost, Component: r.str(), Name: r.str(), Value: []byte(r.str())}
		info.Name = p.Name
		if r.err == nil {
			if err := p.check(); err != nil {
				info.Err = err
				return info
			}
		}
	case recParameterClear:
		info.Kind, info.Deleted = DefinitionParameter, true
		r.str()
		info.Name = r.str()
	}
	if r.err != nil {
		info.Err = errMalformed
	}
	return info
}
