package broker

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/basaltmq/basaltmq/engine/access"
)

// Parameter is a value that something other than the broker's core reads. One of
// a virtual host belongs to a component; a global one has neither.
type Parameter struct {
	VHost     string
	Component string
	Name      string
	Value     []byte // JSON, compact
}

// parameterBytesMax and parameterDepthMax bound a value: readers of JSON stop at
// some depth, and whoever cannot read one parameter cannot read the list.
const (
	parameterBytesMax = 256 << 10
	parameterDepthMax = 64
)

type parameterKey struct{ vhost, component, name string }

func (k parameterKey) compare(o parameterKey) int {
	return cmp.Or(cmp.Compare(k.vhost, o.vhost), cmp.Compare(k.component, o.component), cmp.Compare(k.name, o.name))
}

func (p *Parameter) key() parameterKey { return parameterKey{p.VHost, p.Component, p.Name} }

func (p *Parameter) global() bool { return p.VHost == "" && p.Component == "" }

// Components whose parameters are kept in another form, and are set with
// commands of their own.
const (
	ComponentVHostLimits    = "vhost-limits"
	ComponentOperatorPolicy = "operator_policy"
	componentPolicy         = "policy"
)

// check compacts the value. Errors: Invalid.
func (p *Parameter) check() error {
	what := "parameter"
	if p.global() {
		what = "global parameter"
	} else if err := access.CheckName("component of parameter '"+p.Name+"'", p.Component); err != nil {
		return err
	}
	if err := access.CheckName(what, p.Name); err != nil {
		return err
	}
	switch p.Component {
	case ComponentVHostLimits, ComponentOperatorPolicy, componentPolicy:
		return access.Errorf(access.Invalid, "'%s' is not set as a parameter: use the command for limits or policies", p.Component)
	}
	if len(p.Value) > parameterBytesMax {
		return access.Errorf(access.Invalid, "the value of %s '%s' has %d bytes; %d are possible", what, p.Name, len(p.Value), parameterBytesMax)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, p.Value); err != nil {
		return access.Errorf(access.Invalid, "the value of %s '%s' is not JSON: %v", what, p.Name, err)
	}
	if deeper(compact.Bytes(), parameterDepthMax) {
		return access.Errorf(access.Invalid, "the value of %s '%s' is nested deeper than %d", what, p.Name, parameterDepthMax)
	}
	p.Value = compact.Bytes()
	return nil
}

// deeper says whether arrays and objects in JSON are nested deeper than n.
func deeper(data []byte, n int) bool {
	depth, quoted := 0, false
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			if depth++; depth > n {
				return true
			}
		case c == '}' || c == ']':
			depth--
		}
	}
	return false
}

// SetParameter creates or replaces a parameter. Errors: NotFound for the virtual
// host, Invalid.
func (b *Broker) SetParameter(p Parameter) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		if !p.global() {
			if err := b.checkVHost(p.VHost); err != nil {
				return nil, err
			}
		}
		if err := p.check(); err != nil {
			return nil, err
		}
		b.parameters[p.key()] = p.Value
		return parameterRecord(&p), nil
	})
}

// ClearParameter removes a parameter. Errors: NotFound.
func (b *Broker) ClearParameter(vhost, component, name string) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		k := parameterKey{vhost, component, name}
		if b.parameters[k] == nil {
			if vhost == "" {
				return nil, access.Errorf(access.NotFound, "there is no global parameter '%s'", name)
			}
			return nil, access.Errorf(access.NotFound, "there is no parameter '%s' of component '%s' in virtual host '%s'", name, component, vhost)
		}
		delete(b.parameters, k)
		return parameterClearRecord(k), nil
	})
}

// Parameters lists parameters, global ones first.
func (b *Broker) Parameters() (list []Parameter) {
	b.admin.Lock()
	defer b.admin.Unlock()
	for _, k := range slices.SortedFunc(maps.Keys(b.parameters), parameterKey.compare) {
		list = append(list, Parameter{k.vhost, k.component, k.name, b.parameters[k]})
	}
	return list
}

// dropParameters forgets those of a virtual host; the caller holds admin.
func (b *Broker) dropParameters(vhost string) {
	maps.DeleteFunc(b.parameters, func(k parameterKey, _ []byte) bool { return k.vhost == vhost && vhost != "" })
}
