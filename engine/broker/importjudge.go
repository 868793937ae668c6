package broker

import (
	"bytes"
	"errors"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// judge looks at everything that is to be imported, in the order in which things
// rest on each other.
func (p *importPlan) judge(in *Import) {
	for _, i := range in.Users {
		p.refuse(i.At, p.user(i.Value))
	}
	for _, i := range in.VHosts {
		p.refuse(i.At, p.vhost(i.Value))
	}
	for _, i := range in.Limits {
		p.refuse(i.At, p.limits(i.Value))
	}
	for _, v := range p.sorted() {
		rec, before := v.specRecords()
		p.change("vhost", v.vh.Name, before, rec, nil)
	}
	for _, i := range in.Permissions {
		p.refuse(i.At, p.permissions(i.Value))
	}
	for _, i := range in.TopicPermissions {
		p.refuse(i.At, p.topicPermissions(i.Value))
	}
	for _, i := range in.Policies {
		p.refuse(i.At, p.policy(i.Value, false))
	}
	for _, i := range in.OperatorPolicies {
		p.refuse(i.At, p.policy(i.Value, true))
	}
	for _, i := range in.Parameters {
		p.refuse(i.At, p.parameter(i.Value))
	}
	for _, i := range in.Exchanges {
		v, err := p.in(i.Value.VHost)
		if err == nil {
			err = v.exchange(i.Value.ExchangeDeclare)
		}
		p.refuse(i.At, err)
	}
	for _, i := range in.Queues {
		v, err := p.in(i.Value.VHost)
		if err == nil {
			err = v.queue(i.Value.QueueDeclare)
		}
		p.refuse(i.At, err)
	}
	for _, i := range in.Bindings {
		v, err := p.in(i.Value.VHost)
		if err == nil {
			err = v.binding(i.Value.Binding)
		}
		p.refuse(i.At, err)
	}
}

// refusalText is an error without what it carries for others than the reader.
func refusalText(err error) string {
	var a *access.Error
	if errors.As(err, &a) {
		return a.Text
	}
	var e *amqp.Error
	if errors.As(err, &e) {
		if _, text, ok := strings.Cut(e.Text, " - "); ok { // behind the code's name
			return text
		}
		return e.Text
	}
	return err.Error()
}

// change notes what the thing of a kind and a name is to become. before is the
// record of what it is, whatever came before in the same import.
func (p *importPlan) change(kind, name string, before, record []byte, apply func()) {
	key := kind + "\x00" + name
	c := p.changesBy[key]
	if c == nil {
		c = &importChange{before: before}
		p.changes, p.changesBy[key] = append(p.changes, c), c
	}
	c.record, c.apply = record, apply
}

func (p *importPlan) user(u UserImport) error {
	s := u.Spec
	var before []byte
	if old := p.users.User([]byte(s.Name)); old != nil && u.KeepLimits {
		s.Limits = old.Spec().Limits
	}
	if old := p.broker.users.User([]byte(s.Name)); old != nil {
		was := old.Spec()
		before = userRecord(was)
		if u.Cleartext != "" && s.Password.IsZero() && was.Password.Matches([]byte(u.Cleartext)) {
			s.Password = was.Password
		}
	}
	if u.Cleartext != "" && s.Password.IsZero() {
		s.Password = access.HashPassword([]byte(u.Cleartext))
	}
	if err := checkHash(&s); err != nil {
		return err
	}
	if err := p.users.Put(s); err != nil {
		return err
	}
	s = p.users.User([]byte(s.Name)).Spec()
	p.change("user", s.Name, before, userRecord(s), func() { p.must(p.broker.users.Put(s)) })
	return nil
}

func (p *importPlan) vhost(i VHostImport) error {
	v, err := p.in(i.Name)
	if err != nil {
		return err
	}
	s := v.spec
	if i.Description != nil {
		s.Description = *i.Description
	}
	if i.DefaultQueueType != nil {
		s.DefaultQueueType = *i.DefaultQueueType
	}
	if i.Tags != nil {
		s.Tags = i.Tags
	}
	if err := s.check(); err != nil {
		return err
	}
	v.spec = s
	return nil
}

func (p *importPlan) limits(i LimitsImport) error {
	v, err := p.in(i.VHost)
	if err != nil {
		return err
	}
	s := v.spec
	for name, value := range i.Limits {
		if s.Limits, err = s.Limits.With(access.VHostLimits, name, value); err != nil {
			return err
		}
	}
	v.spec = s
	return nil
}

func (p *importPlan) permissions(g access.UserPermissions) error {
	if err := p.exists(g.VHost); err != nil {
		return err
	}
	var before []byte
	for _, old := range p.broker.users.ListPermissions(g.User, g.VHost) {
		before = permissionsRecord(old)
	}
	if err := p.users.SetPermissions(g.User, g.VHost, g.Permissions); err != nil {
		return err
	}
	p.change("permissions", g.User+"\x00"+g.VHost, before, permissionsRecord(g), func() {
		p.must(p.broker.users.SetPermissions(g.User, g.VHost, g.Permissions))
	})
	return nil
}

func (p *importPlan) topicPermissions(g access.UserTopicPermissions) error {
	if err := p.exists(g.VHost); err != nil {
		return err
	}
	var before []byte
	for _, old := range p.broker.users.ListTopicPermissions(g.User, g.VHost) {
		if old.Exchange == g.Exchange {
			before = topicRecord(old)
		}
	}
	if err := p.users.SetTopicPermissions(g.User, g.VHost, g.Exchange, g.TopicPermissions); err != nil {
		return err
	}
	p.change("topic permissions", g.User+"\x00"+g.VHost+"\x00"+g.Exchange, before, topicRecord(g), func() {
		p.must(p.broker.users.SetTopicPermissions(g.User, g.VHost, g.Exchange, g.TopicPermissions))
	})
	return nil
}

func (p *importPlan) policy(policy Policy, operator bool) error {
	v, err := p.in(policy.VHost)
	if err != nil {
		return err
	}
	c, err := compilePolicy(policy, operator)
	if err != nil {
		return err
	}
	var before []byte
	if old := v.policiesBefore.find(c.Name, operator); old != nil {
		before = policyRecord(old, operator)
	}
	record := policyRecord(c, operator)
	kind := "policy"
	if operator {
		kind = "operator policy"
	}
	p.change(kind, c.VHost+"\x00"+c.Name, before, record, func() { p.broker.warnIdle(c) })
	if now := v.policies.find(c.Name, operator); now != nil && bytes.Equal(policyRecord(now, operator), record) {
		return nil
	}
	v.policies, err = v.policies.with(c, operator)
	return err
}

func (p *importPlan) parameter(parameter Parameter) error {
	if !parameter.global() {
		if err := p.exists(parameter.VHost); err != nil {
			return err
		}
	}
	if err := parameter.check(); err != nil {
		return err
	}
	k := parameter.key()
	var before []byte
	if value, ok := p.broker.parameters[k]; ok {
		was := parameter
		was.Value = value
		before = parameterRecord(&was)
	}
	p.change("parameter", k.vhost+"\x00"+k.component+"\x00"+k.name, before, parameterRecord(&parameter), func() {
		p.broker.parameters[k] = parameter.Value
	})
	return nil
}
