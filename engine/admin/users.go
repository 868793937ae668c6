package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
)

// User is a user. The hash is shown, as RabbitMQ does: only administrators see it.
type User struct {
	Name        string        `json:"name"`
	Hash        string        `json:"password_hash"`
	Algorithm   string        `json:"hashing_algorithm"`
	Tags        []string      `json:"tags"`
	Limits      access.Limits `json:"limits"`
	Connections int64         `json:"connections"`
}

func (h *Handler) user(s access.Spec) User {
	u := User{Name: s.Name, Hash: s.Password.Text, Algorithm: string(s.Password.Algorithm), Tags: notNil(s.Tags), Limits: limitsOf(s.Limits)}
	u.Connections = h.Broker.UserConnections(s.Name)
	return u
}

func limitsOf(l access.Limits) access.Limits {
	if l == nil {
		return access.Limits{}
	}
	return l
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// TagList is tags in JSON: an array, or a text with commas between them.
type TagList []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *TagList) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		*t = strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
		return nil
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// UserChange is what to set of a user; what is absent stays, or with PUT becomes
// empty.
type UserChange struct {
	Password  *string  `json:"password,omitempty"`
	Hash      *string  `json:"password_hash,omitempty"`
	Algorithm string   `json:"hashing_algorithm,omitempty"`
	Tags      *TagList `json:"tags,omitempty"`
}

func (h *Handler) userRoutes() {
	b := h.Broker
	h.get("/api/users", Administrator, "All users", func(q *request) (any, error) {
		users := []User{}
		for _, s := range b.Users() {
			users = append(users, h.user(s))
		}
		return paged(q, users)
	})
	h.get("/api/users/without-permissions", Administrator, "Users that have permissions in no virtual host", func(q *request) (any, error) {
		users := []User{}
		for _, s := range b.Users() {
			if len(b.Permissions(s.Name, "")) == 0 {
				users = append(users, h.user(s))
			}
		}
		return paged(q, users)
	})
	h.get("/api/users/{user}", Administrator, "A user", func(q *request) (any, error) {
		s, err := b.User(q.PathValue("user"))
		return h.user(s), err
	})
	h.change("PUT /api/users/{user}", Administrator, "Create a user, or replace its password and tags", h.putUser)
	h.change("PATCH /api/users/{user}", Administrator, "Change a user's password or tags", h.patchUser)
	h.change("DELETE /api/users/{user}", Administrator, "Delete a user and close its connections", func(q *request) (uint64, error) {
		return b.DeleteUser(q.PathValue("user"))
	})
	h.change("POST /api/users/bulk-delete", Administrator, "Delete the users that the body names", h.deleteUsers)
	h.get("/api/whoami", Management, "Who is asking", func(q *request) (any, error) {
		return WhoAmI{q.id.Name(), q.id.Tags()}, nil
	})
	h.get("/api/auth", None, "How to log in to a user interface", func(*request) (any, error) { return h.SingleSignOn.auth(), nil })
	h.get("/api/auth/hash_password/{password}", Administrator, "The hash that would be kept of a password", func(q *request) (any, error) {
		return map[string]string{"ok": access.HashPassword([]byte(q.PathValue("password"))).Text}, nil
	})
	h.answer("PUT /api/auth/hash_password", Administrator, "The hash that would be kept of a password", func(q *request) (any, error) {
		var v struct{ Password string }
		if err := q.decode(&v); err != nil {
			return nil, err
		}
		if v.Password == "" {
			return nil, problemf(http.StatusBadRequest, "a password is missing")
		}
		return map[string]string{"password_hash": access.HashPassword([]byte(v.Password)).Text}, nil
	})
	h.permissionRoutes()
	h.quotaRoutes()
}

// WhoAmI is the answer to who asks.
type WhoAmI struct {
	Name string   `json:"name"`
	Tags []string `json:"tags"`
}

// password is what a change says of it; given is false when it says nothing.
func (c *UserChange) password() (hash access.Hash, given bool, err error) {
	switch {
	case c.Password != nil && c.Hash != nil:
		return hash, false, problemf(http.StatusBadRequest, "give a password or its hash, not both")
	case c.Password != nil && *c.Password == "":
		return hash, false, problemf(http.StatusBadRequest, "the password is empty: give a password_hash that is empty to make a user that cannot log in with one")
	case c.Password != nil && strings.ContainsRune(*c.Password, 0):
		return hash, false, problemf(http.StatusBadRequest, "a password with a zero byte cannot log in")
	case c.Password != nil:
		return access.HashPassword([]byte(*c.Password)), true, nil
	case c.Hash != nil:
		return access.Hash{Algorithm: access.Algorithm(c.Algorithm), Text: *c.Hash}, true, nil
	}
	return hash, false, nil
}

// putUser creates a user or replaces it; with create=true it has to be new.
// Without a password it is one that cannot log in with a password.
func (h *Handler) putUser(q *request) (uint64, error) {
	var c UserChange
	if err := q.decode(&c); err != nil {
		return 0, err
	}
	create, err := q.flag("create")
	if err != nil {
		return 0, err
	}
	hash, _, err := c.password()
	if err != nil {
		return 0, err
	}
	s := access.Spec{Name: q.PathValue("user"), Password: hash}
	if c.Tags != nil {
		s.Tags = *c.Tags
	}
	old, err := h.Broker.User(s.Name)
	q.created = err != nil
	if create {
		return h.Broker.AddUser(s)
	}
	s.Limits = old.Limits
	return h.Broker.PutUser(s)
}

// patchUser changes what the request names.
func (h *Handler) patchUser(q *request) (seq uint64, err error) {
	var c UserChange
	if err := q.decode(&c); err != nil {
		return 0, err
	}
	hash, given, err := c.password()
	if err != nil {
		return 0, err
	}
	name := q.PathValue("user")
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

// deleteUsers deletes those that are there; all are looked at before one goes.
func (h *Handler) deleteUsers(q *request) (seq uint64, err error) {
	var v struct{ Users *[]string }
	if err := q.decode(&v); err != nil {
		return 0, err
	}
	if v.Users == nil {
		return 0, problemf(http.StatusBadRequest, "'users' is missing: an array of names")
	}
	for _, name := range *v.Users {
		if _, err := h.Broker.User(name); err != nil {
			return 0, problemf(http.StatusBadRequest, "there is no user '%s', nobody is deleted", name)
		}
	}
	for _, name := range *v.Users {
		if s, err := h.Broker.DeleteUser(name); err == nil { // or somebody was faster
			seq = max(seq, s)
		}
	}
	return seq, nil
}
