package admin

import (
	"net/http"
	"slices"

	"github.com/basaltmq/basaltmq/engine/access"
)

// User is a user without its password.
type User struct {
	Name        string        `json:"name"`
	Tags        []string      `json:"tags"`
	Limits      access.Limits `json:"limits"`
	Algorithm   string        `json:"hashing_algorithm"` // empty: no password
	Connections int64         `json:"connections"`
}

func (h *Handler) user(s access.Spec) User {
	u := User{Name: s.Name, Tags: notNil(s.Tags), Limits: s.Limits, Algorithm: string(s.Password.Algorithm)}
	if u.Limits == nil {
		u.Limits = access.Limits{}
	}
	u.Connections = h.Broker.UserConnections(s.Name)
	return u
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// UserChange is what to set of a user; what is absent stays, or with PUT becomes
// empty.
type UserChange struct {
	Password  *string   `json:"password,omitempty"`
	Hash      *string   `json:"password_hash,omitempty"`
	Algorithm string    `json:"hashing_algorithm,omitempty"`
	Tags      *[]string `json:"tags,omitempty"`
}

// Permissions are a user's in a virtual host.
type Permissions struct {
	User      string `json:"user"`
	VHost     string `json:"vhost"`
	Configure string `json:"configure"`
	Write     string `json:"write"`
	Read      string `json:"read"`
}

// TopicPermissions are a user's on a topic exchange.
type TopicPermissions struct {
	User     string `json:"user"`
	VHost    string `json:"vhost"`
	Exchange string `json:"exchange"`
	Write    string `json:"write"`
	Read     string `json:"read"`
}

func (h *Handler) userRoutes() {
	b := h.Broker
	h.get("/api/users", func(http.ResponseWriter, *http.Request) (any, error) {
		users := []User{}
		for _, s := range b.Users() {
			users = append(users, h.user(s))
		}
		return users, nil
	})
	h.get("/api/users/{user}", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		s, err := b.User(r.PathValue("user"))
		return h.user(s), err
	})
	h.change("PUT /api/users/{user}", h.putUser)
	h.change("PATCH /api/users/{user}", h.patchUser)
	h.change("DELETE /api/users/{user}", func(r *http.Request) (uint64, error) { return b.DeleteUser(r.PathValue("user")) })

	permissions := func(user, vhost string) []Permissions {
		list := []Permissions{}
		for _, p := range b.Permissions(user, vhost) {
			list = append(list, Permissions{p.User, p.VHost, p.Configure, p.Write, p.Read})
		}
		return list
	}
	topics := func(user, vhost string) []TopicPermissions {
		list := []TopicPermissions{}
		for _, p := range b.TopicPermissions(user, vhost) {
			list = append(list, TopicPermissions{p.User, p.VHost, p.Exchange, p.Write, p.Read})
		}
		return list
	}
	h.get("/api/permissions", func(http.ResponseWriter, *http.Request) (any, error) { return permissions("", ""), nil })
	h.get("/api/topic-permissions", func(http.ResponseWriter, *http.Request) (any, error) { return topics("", ""), nil })
	h.get("/api/users/{user}/permissions", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		s, err := b.User(r.PathValue("user"))
		return permissions(s.Name, ""), err
	})
	h.get("/api/users/{user}/topic-permissions", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		s, err := b.User(r.PathValue("user"))
		return topics(s.Name, ""), err
	})
	h.get("/api/vhosts/{vhost}/permissions", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		_, err := h.host(r)
		return permissions("", r.PathValue("vhost")), err
	})
	h.get("/api/vhosts/{vhost}/topic-permissions", func(_ http.ResponseWriter, r *http.Request) (any, error) {
		_, err := h.host(r)
		return topics("", r.PathValue("vhost")), err
	})
	h.change("PUT /api/permissions/{vhost}/{user}", func(r *http.Request) (uint64, error) {
		var p struct{ Configure, Write, Read *string }
		if err := body(r, &p); err != nil {
			return 0, err
		}
		if p.Configure == nil || p.Write == nil || p.Read == nil {
			return 0, problemf(http.StatusBadRequest, "permissions need configure, write and read")
		}
		return b.SetPermissions(r.PathValue("user"), r.PathValue("vhost"), access.Permissions{Configure: *p.Configure, Write: *p.Write, Read: *p.Read})
	})
	h.change("DELETE /api/permissions/{vhost}/{user}", func(r *http.Request) (uint64, error) {
		return b.ClearPermissions(r.PathValue("user"), r.PathValue("vhost"))
	})
	h.change("PUT /api/topic-permissions/{vhost}/{user}", func(r *http.Request) (uint64, error) {
		var p struct {
			Exchange    string
			Write, Read *string
		}
		if err := body(r, &p); err != nil {
			return 0, err
		}
		if p.Write == nil || p.Read == nil {
			return 0, problemf(http.StatusBadRequest, "topic permissions need exchange, write and read")
		}
		return b.SetTopicPermissions(r.PathValue("user"), r.PathValue("vhost"), p.Exchange, access.TopicPermissions{Write: *p.Write, Read: *p.Read})
	})
	h.change("DELETE /api/topic-permissions/{vhost}/{user}", func(r *http.Request) (uint64, error) {
		return b.ClearTopicPermissions(r.PathValue("user"), r.PathValue("vhost"), r.FormValue("exchange"))
	})
	h.change("PUT /api/user-limits/{user}/{limit}", func(r *http.Request) (uint64, error) {
		value, err := limitValue(r)
		if err != nil {
			return 0, err
		}
		return b.SetUserLimit(r.PathValue("user"), r.PathValue("limit"), value)
	})
	h.change("DELETE /api/user-limits/{user}/{limit}", func(r *http.Request) (uint64, error) {
		return b.SetUserLimit(r.PathValue("user"), r.PathValue("limit"), -1)
	})
}

func limitValue(r *http.Request) (int64, error) {
	var v struct{ Value *int64 }
	if err := body(r, &v); err != nil {
		return 0, err
	}
	if v.Value == nil {
		return 0, problemf(http.StatusBadRequest, "a limit needs a value")
	}
	return *v.Value, nil
}

// password is what a change says of it; given is false when it says nothing.
func (c *UserChange) password() (hash access.Hash, given bool, err error) {
	switch {
	case c.Password != nil && c.Hash != nil:
		return hash, false, problemf(http.StatusBadRequest, "give a password or its hash, not both")
	case c.Password != nil && *c.Password == "":
		return hash, false, problemf(http.StatusBadRequest, "the password is empty: give a password_hash that is empty to make a user that cannot log in with one")
	case c.Password != nil:
		return access.HashPassword([]byte(*c.Password)), true, nil
	case c.Hash != nil:
		return access.Hash{Algorithm: access.Algorithm(c.Algorithm), Text: *c.Hash}, true, nil
	}
	return hash, false, nil
}

// putUser creates a user or replaces it; with create=true it has to be new.
func (h *Handler) putUser(r *http.Request) (uint64, error) {
	var c UserChange
	if err := body(r, &c); err != nil {
		return 0, err
	}
	create, err := flag(r, "create")
	if err != nil {
		return 0, err
	}
	hash, given, err := c.password()
	if err != nil {
		return 0, err
	}
	if !given {
		return 0, problemf(http.StatusBadRequest, "a user needs a password, or a password_hash that may be empty")
	}
	s := access.Spec{Name: r.PathValue("user"), Password: hash}
	if c.Tags != nil {
		s.Tags = *c.Tags
	}
	if create {
		return h.Broker.AddUser(s)
	}
	if old, err := h.Broker.User(s.Name); err == nil {
		s.Limits = old.Limits
	}
	return h.Broker.PutUser(s)
}

// patchUser changes what the request names.
func (h *Handler) patchUser(r *http.Request) (seq uint64, err error) {
	var c UserChange
	if err := body(r, &c); err != nil {
		return 0, err
	}
	hash, given, err := c.password()
	if err != nil {
		return 0, err
	}
	name := r.PathValue("user")
	if given {
		seq, err = h.Broker.SetPasswordHash(name, hash)
	}
	if err == nil && c.Tags != nil {
		seq, err = h.Broker.SetUserTags(name, slices.Clone(*c.Tags))
	}
	if err == nil && !given && c.Tags == nil {
		return 0, problemf(http.StatusBadRequest, "the request changes nothing: give a password, a password_hash or tags")
	}
	return seq, err
}
