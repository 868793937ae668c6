package broker

import (
	"bytes"
	"errors"
	"slices"
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
		if rec := v.specRecord(); rec != nil {
			p.records = append(p.records, rec)
		}
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

// add takes a record, unless it says what is so already.
func (p *importPlan) add(rec, now []byte) bool {
	if bytes.Equal(rec, now) {
		return false
	}
	p.records = append(p.records, rec)
	return true
}

func (p *importPlan) user(u UserImport) error {
	s := u.Spec
	var now []byte
	if old := p.users.User([]byte(s.Name)); old != nil {
		was := old.Spec()
		now = userRecord(was)
		if u.KeepLimits {
			s.Limits = was.Limits
		}
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
	if p.add(userRecord(s), now) {
		p.userSpecs = append(p.userSpecs, s)
	}
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
	var now []byte
	for _, old := range p.users.ListPermissions(g.User, g.VHost) {
		now = permissionsRecord(old)
	}
	if err := p.users.SetPermissions(g.User, g.VHost, g.Permissions); err != nil {
		return err
	}
	if p.add(permissionsRecord(g), now) {
		p.grants = append(p.grants, g)
	}
	return nil
}

func (p *importPlan) topicPermissions(g access.UserTopicPermissions) error {
	if err := p.exists(g.VHost); err != nil {
		return err
	}
	var now []byte
	for _, old := range p.users.ListTopicPermissions(g.User, g.VHost) {
		if old.Exchange == g.Exchange {
			now = topicRecord(old)
		}
	}
	if err := p.users.SetTopicPermissions(g.User, g.VHost, g.Exchange, g.TopicPermissions); err != nil {
		return err
	}
	if p.add(topicRecord(g), now) {
		p.topics = append(p.topics, g)
	}
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
	var now []byte
	if old := v.policies.find(c.Name, operator); old != nil {
		now = policyRecord(old, operator)
	}
	if !p.add(policyRecord(c, operator), now) {
		return nil
	}
	p.broker.warnIdle(c)
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
	now := p.parameters[k]
	if now == nil {
		now = p.broker.parameters[k]
	}
	if !slices.Equal(now, parameter.Value) {
		p.records = append(p.records, parameterRecord(&parameter))
		p.parameters[k] = parameter.Value
	}
	return nil
}
