package access

import (
	"bytes"
	"slices"
	"strings"
	"sync/atomic"
)

// Tags that the broker itself looks at. Others are kept.
const (
	TagAdministrator = "administrator"
	TagMonitoring    = "monitoring"
	TagPolicymaker   = "policymaker"
	TagManagement    = "management"
	TagImpersonator  = "impersonator" // may publish with another's user id
)

// Spec is everything about a user but its permissions.
type Spec struct {
	Name     string
	Password Hash
	Tags     []string
	Limits   Limits // of UserLimits
}

// checked returns s as it is kept. Errors: Invalid.
func (s Spec) checked() (Spec, error) {
	if err := CheckName("user", s.Name); err != nil {
		return s, err
	}
	if strings.ContainsRune(s.Name, 0) {
		return s, errorf(Invalid, "a user name with a zero byte cannot log in")
	}
	tags, err := CheckTags(s.Tags)
	if err != nil {
		return s, err
	}
	s.Tags = tags
	s.Limits, err = s.Limits.checked(UserLimits)
	return s, err
}

// CheckTags returns tags as they are kept: trimmed, each once, in their order.
// Errors: Invalid.
func CheckTags(tags []string) (kept []string, err error) {
	for _, tag := range tags {
		tag = strings.TrimSpace(tag)
		if tag == "" || slices.Contains(kept, tag) {
			continue
		}
		if len(tag) > tagBytesMax || strings.ContainsAny(tag, ",\r\n\x00") {
			return nil, errorf(Invalid, "'%s' is not a tag: at most %d bytes, without commas", tag, tagBytesMax)
		}
		kept = append(kept, tag)
	}
	if len(kept) > tagsMax {
		return nil, errorf(Invalid, "%d tags are too many; %d are possible", len(kept), tagsMax)
	}
	return kept, nil
}

// User is a user of a Registry.
type User struct {
	Name    string
	spec    atomic.Pointer[Spec]
	deleted atomic.Bool

	connections, channels atomic.Int64

	grants map[string]*Grant // by virtual host; guarded by Registry.mu
	scopes *scopes           // of a user of no registry; nil: of one
}

// Spec returns what is set; its slices and maps are not to be changed.
func (u *User) Spec() Spec { return *u.spec.Load() }

// HasTag says whether the user has a tag.
func (u *User) HasTag(tag string) bool { return slices.Contains(u.spec.Load().Tags, tag) }

// Deleted says that the user is not in its registry any more.
func (u *User) Deleted() bool { return u.deleted.Load() }

// AddConnection counts a connection, unless that would be more than limit.
func (u *User) AddConnection() (limit int64, ok bool) { return u.add(&u.connections, MaxConnections) }

// RemoveConnection takes AddConnection back.
func (u *User) RemoveConnection() { u.connections.Add(-1) }

// AddChannel counts a channel, unless that would be more than limit.
func (u *User) AddChannel() (limit int64, ok bool) { return u.add(&u.channels, MaxChannels) }

// RemoveChannels takes AddChannel back, n times.
func (u *User) RemoveChannels(n int) { u.channels.Add(-int64(n)) }

// Counts returns the open connections and channels.
func (u *User) Counts() (connections, channels int64) {
	return u.connections.Load(), u.channels.Load()
}

func (u *User) add(counter *atomic.Int64, name string) (limit int64, ok bool) {
	limit, limited := u.spec.Load().Limits.Get(name)
	if n := counter.Add(1); limited && n > limit {
		counter.Add(-1)
		return limit, false
	}
	return 0, true
}

// Authenticate finds a user by name and password; a user that is not there by the
// name as it is may be by the name as SASLprep has it. slow is not nil when the
// password takes long to check: it is then for the caller to call, elsewhere,
// and to heed; user is not logged in before. An unknown user, an empty password
// and a wrong one are all the same to the caller: ok is false.
func (r *Registry) Authenticate(name, password []byte) (user *User, slow func() bool, ok bool) {
	u := r.User(name)
	if u == nil {
		if prepared := Prepared(name); !bytes.Equal(prepared, name) {
			u = r.User(prepared)
		}
	}
	if u == nil {
		unknown.Matches(password)
		return nil, nil, false
	}
	hash := u.spec.Load().Password
	switch {
	case len(password) == 0 || hash.IsZero():
		unknown.Matches(name)
		return nil, nil, false
	case hash.Slow():
		password = slices.Clone(password)
		return u, func() bool { return hash.Matches(password) && !u.Deleted() }, true
	}
	return u, nil, hash.Matches(password)
}
