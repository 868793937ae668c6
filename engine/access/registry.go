package access

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// Registry is the set of users and what each may do.
type Registry struct {
	version atomic.Uint64

	mu    sync.RWMutex
	users map[string]*User
}

// NewRegistry makes an empty one.
func NewRegistry() *Registry {
	r := &Registry{users: map[string]*User{}}
	r.version.Store(1)
	return r
}

// Version is another number after every change (invariant 2).
func (r *Registry) Version() uint64 { return r.version.Load() }

// User finds a user; nil if there is none.
func (r *Registry) User(name []byte) *User {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.users[string(name)]
}

// Grant returns what a user may do in a virtual host, nil for nothing.
func (r *Registry) Grant(u *User, vhost string) *Grant {
	if u.scopes != nil {
		return u.scopes.grant(vhost)
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return u.grants[vhost]
}

// Specs returns all users by name.
func (r *Registry) Specs() []Spec {
	r.mu.RLock()
	defer r.mu.RUnlock()
	specs := make([]Spec, 0, len(r.users))
	for _, name := range slices.Sorted(maps.Keys(r.users)) {
		specs = append(specs, r.users[name].Spec())
	}
	return specs
}

// change runs do with the lock held and raises the version if it succeeds.
func (r *Registry) change(do func() error) error {
	r.mu.Lock()
	err := do()
	r.mu.Unlock()
	if err == nil {
		r.version.Add(1)
	}
	return err
}

// Add creates a user. Errors: Exists, Invalid.
func (r *Registry) Add(s Spec) error {
	s, err := s.checked()
	if err != nil {
		return err
	}
	return r.change(func() error {
		if r.users[s.Name] != nil {
			return errorf(Exists, "user '%s' exists", s.Name)
		}
		r.put(s)
		return nil
	})
}

// Put creates a user or changes it; permissions stay. Errors: Invalid.
func (r *Registry) Put(s Spec) error {
	s, err := s.checked()
	if err != nil {
		return err
	}
	return r.change(func() error { r.put(s); return nil })
}

func (r *Registry) put(s Spec) {
	u := r.users[s.Name]
	if u == nil {
		u = &User{Name: s.Name, grants: map[string]*Grant{}}
	} else if old := u.spec.Load().Password; s.Password.Scram == "" && s.Password.Text == old.Text {
		s.Password.Scram = old.Scram // the same password, from a file that has its hash only
	}
	u.spec.Store(&s)
	r.users[s.Name] = u
}

// Update changes a user by f, which gets a copy. Errors: NotFound, Invalid, f's.
func (r *Registry) Update(name string, f func(s *Spec) error) (Spec, error) {
	var s Spec
	err := r.change(func() error {
		u := r.users[name]
		if u == nil {
			return noUser(name)
		}
		s = u.Spec()
		if err := f(&s); err != nil {
			return err
		}
		var err error
		if s, err = s.checked(); err == nil {
			u.spec.Store(&s)
		}
		return err
	})
	return s, err
}

func noUser(name string) error { return errorf(NotFound, "there is no user '%s'", name) }

// Delete removes a user and its permissions. Errors: NotFound.
func (r *Registry) Delete(name string) error {
	return r.change(func() error {
		u := r.users[name]
		if u == nil {
			return noUser(name)
		}
		delete(r.users, name)
		clear(u.grants)
		u.deleted.Store(true)
		return nil
	})
}

// SetPermissions sets what a user may do in a virtual host. Errors: NotFound,
// Invalid.
func (r *Registry) SetPermissions(user, vhost string, p Permissions) error {
	return r.changeGrant(user, vhost, func(_ *User, g *Grant) (*Grant, error) { return g.with(p) })
}

// ClearPermissions takes a user's access to a virtual host away; topic
// permissions stay. Errors: NotFound.
func (r *Registry) ClearPermissions(user, vhost string) error {
	return r.changeGrant(user, vhost, func(_ *User, g *Grant) (*Grant, error) { return g.without(), nil })
}

// SetTopicPermissions restricts the routing keys that a user may use with a
// topic exchange. Errors: NotFound, Invalid.
func (r *Registry) SetTopicPermissions(user, vhost, exchange string, p TopicPermissions) error {
	if err := CheckName("exchange", exchange); err != nil {
		return err
	}
	return r.changeGrant(user, vhost, func(u *User, g *Grant) (*Grant, error) {
		t, err := newTopicGrant(p, u.Name, vhost)
		if err != nil {
			return nil, err
		}
		topics := map[string]*topicGrant{}
		if g != nil {
			maps.Copy(topics, g.topics)
		}
		topics[exchange] = t
		return g.withTopics(topics), nil
	})
}

// ClearTopicPermissions lifts the restrictions on one exchange, or with "" on
// all. Errors: NotFound.
func (r *Registry) ClearTopicPermissions(user, vhost, exchange string) error {
	return r.changeGrant(user, vhost, func(_ *User, g *Grant) (*Grant, error) {
		if g == nil {
			return nil, nil
		}
		topics := map[string]*topicGrant{}
		if exchange != "" {
			maps.Copy(topics, g.topics)
			delete(topics, exchange)
		}
		if len(topics) == 0 && !g.granted {
			return nil, nil
		}
		return g.withTopics(topics), nil
	})
}

func (r *Registry) changeGrant(user, vhost string, f func(*User, *Grant) (*Grant, error)) error {
	return r.change(func() error {
		u := r.users[user]
		if u == nil {
			return noUser(user)
		}
		g, err := f(u, u.grants[vhost])
		switch {
		case err != nil:
			return err
		case g == nil:
			delete(u.grants, vhost)
		default:
			u.grants[vhost] = g
		}
		return nil
	})
}

// DropVHost removes all permissions in a virtual host.
func (r *Registry) DropVHost(vhost string) {
	_ = r.change(func() error {
		for _, u := range r.users {
			delete(u.grants, vhost)
		}
		return nil
	})
}

// UserPermissions are one user's permissions in one virtual host.
type UserPermissions struct {
	User, VHost string
	Permissions
}

// UserTopicPermissions are one user's permissions on one topic exchange.
type UserTopicPermissions struct {
	User, VHost, Exchange string
	TopicPermissions
}

// ListPermissions returns those of a user, in a virtual host; "" means all.
func (r *Registry) ListPermissions(user, vhost string) (list []UserPermissions) {
	r.eachGrant(user, vhost, func(user, vhost string, g *Grant) {
		if g.granted {
			list = append(list, UserPermissions{User: user, VHost: vhost, Permissions: g.Permissions})
		}
	})
	return list
}

// ListTopicPermissions returns those of a user, in a virtual host; "" means all.
func (r *Registry) ListTopicPermissions(user, vhost string) (list []UserTopicPermissions) {
	r.eachGrant(user, vhost, func(user, vhost string, g *Grant) {
		for _, exchange := range g.topicExchanges() {
			list = append(list, UserTopicPermissions{User: user, VHost: vhost, Exchange: exchange, TopicPermissions: g.topics[exchange].permissions})
		}
	})
	return list
}

func (r *Registry) eachGrant(user, vhost string, visit func(user, vhost string, g *Grant)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	for _, name := range slices.Sorted(maps.Keys(r.users)) {
		if user != "" && user != name {
			continue
		}
		grants := r.users[name].grants
		for _, vh := range slices.Sorted(maps.Keys(grants)) {
			if vhost == "" || vhost == vh {
				visit(name, vh, grants[vh])
			}
		}
	}
}
