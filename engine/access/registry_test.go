package access

import (
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestRegistry_Errors(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	if err := r.Add(Spec{Name: "joe", Tags: []string{" administrator ", "", "monitoring", "monitoring"}, Limits: Limits{MaxChannels: 3, MaxConnections: -1}}); err != nil {
		t.Fatal(err)
	}
	if s := r.Specs(); len(s) != 1 || !slices.Equal(s[0].Tags, []string{"administrator", "monitoring"}) || len(s[0].Limits) != 1 || s[0].Limits[MaxChannels] != 3 {
		t.Errorf("%+v", s)
	}
	rows := []struct {
		name   string
		do     func() error
		reason Reason
		want   string
	}{
		{"twice", func() error { return r.Add(Spec{Name: "joe"}) }, Exists, "'joe' exists"},
		{"no name", func() error { return r.Add(Spec{}) }, Invalid, "no name"},
		{"long name", func() error { return r.Add(Spec{Name: strings.Repeat("x", 256)}) }, Invalid, "256 bytes"},
		{"not UTF-8", func() error { return r.Add(Spec{Name: "\xff"}) }, Invalid, "UTF-8"},
		{"zero byte", func() error { return r.Put(Spec{Name: "a\x00b"}) }, Invalid, "zero byte"},
		{"bad tag", func() error { return r.Put(Spec{Name: "a", Tags: []string{"a,b"}}) }, Invalid, "not a tag"},
		{"many tags", func() error { return r.Put(Spec{Name: "a", Tags: manyTags()}) }, Invalid, "too many"},
		{"unknown limit", func() error { return r.Put(Spec{Name: "a", Limits: Limits{MaxQueues: 1}}) }, Invalid, "max-connections, max-channels"},
		{"update nobody", func() error { _, err := r.Update("no", func(*Spec) error { return nil }); return err }, NotFound, "no user 'no'"},
		{"delete nobody", func() error { return r.Delete("no") }, NotFound, "no user 'no'"},
		{"permissions of nobody", func() error { return r.SetPermissions("no", "/", Permissions{}) }, NotFound, "no user 'no'"},
		{"clear of nobody", func() error { return r.ClearPermissions("no", "/") }, NotFound, "no user 'no'"},
		{"topics of nobody", func() error { return r.ClearTopicPermissions("no", "/", "") }, NotFound, "no user 'no'"},
		{"bad pattern", func() error { return r.SetPermissions("joe", "/", Permissions{Write: "["}) }, Invalid, "regular expression"},
	}
	before := r.Version()
	for _, row := range rows {
		if err := row.do(); !IsReason(err, row.reason) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
	}
	if r.Version() != before {
		t.Error("refused changes raised the version")
	}
}

func manyTags() (tags []string) {
	for i := range tagsMax + 1 {
		tags = append(tags, strings.Repeat("t", i+1))
	}
	return tags
}

func TestRegistry_Authenticate(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	slowHash, err := ParseHash("bcrypt", madeElsewhere[4].text)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Spec{
		{Name: "joe", Password: HashPassword([]byte("secret"))},
		{Name: "blank", Password: HashPassword(nil)},
		{Name: "none"},
		{Name: "slow", Password: slowHash},
	} {
		if err := r.Add(s); err != nil {
			t.Fatal(err)
		}
	}
	rows := []struct {
		name, password string
		ok, slow       bool
	}{
		{"joe", "secret", true, false},
		{"joe", "Secret", false, false},
		{"joe", "", false, false},
		{"JOE", "secret", false, false},
		{"blank", "", false, false}, // a blank password never logs in
		{"none", "", false, false},
		{"none", "x", false, false},
		{"nobody", "secret", false, false},
		{"slow", "test12", true, true},
	}
	for _, row := range rows {
		u, slow, ok := r.Authenticate([]byte(row.name), []byte(row.password))
		if ok != row.ok || (slow != nil) != row.slow || ok && u.Name != row.name {
			t.Errorf("%+v: %v, slow %v, %v", row, u, slow != nil, ok)
		}
	}
	_, right, _ := r.Authenticate([]byte("slow"), []byte("test12"))
	_, wrong, _ := r.Authenticate([]byte("slow"), []byte("test13"))
	if !right() || wrong() {
		t.Error("the slow check gives wrong answers")
	}
	if err := r.Delete("slow"); err != nil {
		t.Fatal(err)
	}
	if right() {
		t.Error("a user deleted meanwhile logs in")
	}
}

// TestRegistry_Revocation: who keeps a Grant finds out by the version.
func TestRegistry_Revocation(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	if err := r.Add(Spec{Name: "joe"}); err != nil {
		t.Fatal(err)
	}
	joe := r.User([]byte("joe"))
	changes := []func() error{
		func() error { return r.SetPermissions("joe", "/", Permissions{Read: ".*"}) },
		func() error { return r.SetPermissions("joe", "/", Permissions{Read: "^x"}) },
		func() error { return r.SetTopicPermissions("joe", "/", "e", TopicPermissions{}) },
		func() error { return r.ClearPermissions("joe", "/") },
		func() error { return r.SetPermissions("joe", "/", Permissions{Read: ".*"}) },
		func() error { r.DropVHost("/"); return nil },
		func() error { return r.SetPermissions("joe", "/", Permissions{Read: ".*"}) },
		func() error { return r.Delete("joe") },
	}
	for i, change := range changes {
		version, grant := r.Version(), r.Grant(joe, "/")
		if err := change(); err != nil {
			t.Fatal(err)
		}
		if r.Version() == version || r.Grant(joe, "/") == grant {
			t.Errorf("change %d is not seen", i)
		}
	}
	if !joe.Deleted() || r.Grant(joe, "/").Granted() || r.User([]byte("joe")) != nil {
		t.Error("joe is still there")
	}
	if err := r.Add(Spec{Name: "joe"}); err != nil {
		t.Fatal(err)
	}
	if !joe.Deleted() || r.User([]byte("joe")).Deleted() {
		t.Error("a new user of that name is another one")
	}
}

func TestUser_Limits(t *testing.T) {
	t.Parallel()
	r := NewRegistry()
	if err := r.Add(Spec{Name: "joe", Limits: Limits{MaxConnections: 2, MaxChannels: 0}}); err != nil {
		t.Fatal(err)
	}
	u := r.User([]byte("joe"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := 0
	for range 8 {
		wg.Go(func() {
			if _, ok := u.AddConnection(); ok {
				mu.Lock()
				got++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// More may be refused than need be while others try, never fewer.
	if got > 2 {
		t.Errorf("%d connections", got)
	}
	for got > 0 {
		u.RemoveConnection()
		got--
	}
	for i, want := range []bool{true, true, false} {
		if limit, ok := u.AddConnection(); ok != want || !ok && limit != 2 {
			t.Errorf("connection %d: %v (%d)", i, ok, limit)
		}
	}
	if limit, ok := u.AddChannel(); ok || limit != 0 {
		t.Error("a channel over a limit of 0")
	}
	if _, err := r.Update("joe", func(s *Spec) (err error) {
		s.Limits, err = s.Limits.With(UserLimits, MaxChannels, -1)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, ok := u.AddChannel(); !ok {
		t.Error("no limit is a limit")
	}
	u.RemoveChannels(1)
	u.RemoveConnection()
	u.RemoveConnection()
	if connections, channels := u.Counts(); connections != 0 || channels != 0 {
		t.Errorf("%d connections, %d channels", connections, channels)
	}
}
