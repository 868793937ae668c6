package broker

import (
	"slices"

	"github.com/basaltmq/basaltmq/engine/access"
)

// Administration of users and permissions. Each change is checked, takes effect
// at once, also on open connections, and returns the sequence number of its
// definition record: it survives a crash when Definitions.Durable has reached
// that. Errors are *access.Error (Invalid, NotFound, Exists), and change nothing;
// any other says that definitions cannot be written any more.

// DefaultUser is the user that a first start makes, an administrator with all
// permissions in the virtual host "/".
type DefaultUser struct {
	Name, Password string
	Hash           access.Hash // instead of the password, unless it is zero
}

// seed makes the records of what there is, and the default user, if there have
// never been any. It is one record: a crash leaves all of it or nothing.
func (b *Broker) seed(d *DefaultUser) error {
	if d == nil || b.seeded {
		return nil
	}
	b.admin.Lock()
	defer b.admin.Unlock()
	hash := d.Hash
	if hash.IsZero() {
		hash = access.HashPassword([]byte(d.Password))
	}
	user := access.Spec{Name: d.Name, Password: hash, Tags: []string{access.TagAdministrator}}
	if err := b.users.Add(user); err != nil {
		return err
	}
	all := access.Permissions{Configure: ".*", Write: ".*", Read: ".*"}
	if err := b.users.SetPermissions(d.Name, DefaultVHost, all); err != nil {
		return err
	}
	b.begin(userRecord(user), permissionsRecord(access.UserPermissions{User: d.Name, VHost: DefaultVHost, Permissions: all}))
	b.first = true
	return nil
}

// MadeDefaultUser says whether this was the first start.
func (b *Broker) MadeDefaultUser() bool { return b.first }

// begin records that there are records of users from here on, and what virtual
// hosts there were before.
func (b *Broker) begin(more ...[]byte) (seq uint64) {
	records := [][]byte{fields{recAccess}.num(accessVersion)}
	b.mu.RLock()
	for _, vh := range b.vhosts {
		records = append(records, vhostRecord(vh.spec.Load()))
	}
	b.mu.RUnlock()
	b.seeded = true
	return b.record(groupRecord(append(records, more...)...))
}

// administer makes one change: do checks and applies it and returns its record.
// Routes cached by channels are void afterwards, and what was permitted for them.
func (b *Broker) administer(do func() (rec []byte, err error)) (seq uint64, err error) {
	b.admin.Lock()
	defer b.admin.Unlock()
	if err := b.defs.Err(); err != nil {
		return 0, err
	}
	if !b.seeded {
		b.begin()
	}
	rec, err := do()
	if err != nil {
		return 0, err
	}
	seq = b.record(rec)
	b.mu.RLock()
	for _, vh := range b.vhosts {
		vh.version.Add(1)
	}
	b.mu.RUnlock()
	return seq, nil
}

// AddUser creates a user without permissions. Errors: Exists, Invalid.
func (b *Broker) AddUser(s access.Spec) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		if err := checkHash(&s); err != nil {
			return nil, err
		}
		if err := b.users.Add(s); err != nil {
			return nil, err
		}
		return b.userRecord(s.Name), nil
	})
}

// PutUser creates a user or changes all about it but its permissions. Errors:
// Invalid.
func (b *Broker) PutUser(s access.Spec) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		if err := checkHash(&s); err != nil {
			return nil, err
		}
		if err := b.users.Put(s); err != nil {
			return nil, err
		}
		return b.userRecord(s.Name), nil
	})
}

// checkHash reads the password hash of a user to be, which may come from
// anywhere.
func checkHash(s *access.Spec) (err error) {
	s.Password, err = s.Password.Checked()
	return err
}

func (b *Broker) userRecord(name string) []byte { return userRecord(b.users.User([]byte(name)).Spec()) }

// changeUser changes a user by f.
func (b *Broker) changeUser(name string, f func(s *access.Spec) error) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		s, err := b.users.Update(name, f)
		if err != nil {
			return nil, err
		}
		return userRecord(s), nil
	})
}

// SetPassword changes a password. Connections that are open stay open. Errors:
// NotFound, Invalid for an empty one: see ClearPassword.
func (b *Broker) SetPassword(name, password string) (seq uint64, err error) {
	if password == "" {
		return 0, access.Errorf(access.Invalid, "an empty password cannot log in: clear the password of '%s' instead, to allow other mechanisms only", name)
	}
	return b.SetPasswordHash(name, access.HashPassword([]byte(password)))
}

// SetPasswordHash changes a password to one that was hashed elsewhere. Errors:
// NotFound, Invalid.
func (b *Broker) SetPasswordHash(name string, h access.Hash) (seq uint64, err error) {
	return b.changeUser(name, func(s *access.Spec) error {
		s.Password = h
		return checkHash(s)
	})
}

// ClearPassword makes a user that cannot log in with a password. Errors: NotFound.
func (b *Broker) ClearPassword(name string) (seq uint64, err error) {
	return b.SetPasswordHash(name, access.Hash{})
}

// SetUserTags replaces a user's tags. Errors: NotFound, Invalid.
func (b *Broker) SetUserTags(name string, tags []string) (seq uint64, err error) {
	return b.changeUser(name, func(s *access.Spec) error {
		s.Tags = slices.Clone(tags)
		return nil
	})
}

// SetUserLimit sets one of access.UserLimits; a negative value removes it. What
// is open already stays open. Errors: NotFound, Invalid.
func (b *Broker) SetUserLimit(name, limit string, value int64) (seq uint64, err error) {
	return b.changeUser(name, func(s *access.Spec) (err error) {
		s.Limits, err = s.Limits.With(access.UserLimits, limit, value)
		return err
	})
}

// DeleteUser removes a user with all its permissions and closes its connections
// (320). Errors: NotFound.
func (b *Broker) DeleteUser(name string) (seq uint64, err error) {
	seq, err = b.administer(func() ([]byte, error) {
		return fields{recUserDelete}.str(name), b.users.Delete(name)
	})
	if err == nil {
		b.revoke()
	}
	return seq, err
}

// Users returns all users by name, with their hashes.
func (b *Broker) Users() []access.Spec { return b.users.Specs() }

// User returns one user. Errors: NotFound.
func (b *Broker) User(name string) (access.Spec, error) {
	if u := b.users.User([]byte(name)); u != nil {
		return u.Spec(), nil
	}
	return access.Spec{}, access.Errorf(access.NotFound, "there is no user '%s'", name)
}

// SetPermissions says what a user may do in a virtual host. Errors: NotFound,
// Invalid.
func (b *Broker) SetPermissions(user, vhost string, p access.Permissions) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		if err := b.checkVHost(vhost); err != nil {
			return nil, err
		}
		rec := permissionsRecord(access.UserPermissions{User: user, VHost: vhost, Permissions: p})
		return rec, b.users.SetPermissions(user, vhost, p)
	})
}

// ClearPermissions takes a user's access to a virtual host away. Errors:
// NotFound.
func (b *Broker) ClearPermissions(user, vhost string) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		if err := b.checkVHost(vhost); err != nil {
			return nil, err
		}
		return fields{recPermissionsClear}.str(vhost).str(user), b.users.ClearPermissions(user, vhost)
	})
}

// SetTopicPermissions restricts the routing keys that a user may publish and
// bind with at a topic exchange, which need not exist. Errors: NotFound, Invalid.
func (b *Broker) SetTopicPermissions(user, vhost, exchange string, p access.TopicPermissions) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		if err := b.checkVHost(vhost); err != nil {
			return nil, err
		}
		rec := topicRecord(access.UserTopicPermissions{User: user, VHost: vhost, Exchange: exchange, TopicPermissions: p})
		return rec, b.users.SetTopicPermissions(user, vhost, exchange, p)
	})
}

// ClearTopicPermissions lifts the restrictions on one exchange, or with "" on
// all of the virtual host. Errors: NotFound.
func (b *Broker) ClearTopicPermissions(user, vhost, exchange string) (seq uint64, err error) {
	return b.administer(func() ([]byte, error) {
		if err := b.checkVHost(vhost); err != nil {
			return nil, err
		}
		return fields{recTopicClear}.str(vhost).str(user).str(exchange), b.users.ClearTopicPermissions(user, vhost, exchange)
	})
}

// Permissions lists those of a user, in a virtual host; "" means all.
func (b *Broker) Permissions(user, vhost string) []access.UserPermissions {
	return b.users.ListPermissions(user, vhost)
}

// TopicPermissions lists those of a user, in a virtual host; "" means all.
func (b *Broker) TopicPermissions(user, vhost string) []access.UserTopicPermissions {
	return b.users.ListTopicPermissions(user, vhost)
}
