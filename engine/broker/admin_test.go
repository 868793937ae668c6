package broker

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// dumpAccess describes the virtual hosts, users and permissions of a broker.
func dumpAccess(b *Broker) (lines []string) {
	for _, s := range b.VHosts() {
		lines = append(lines, fmt.Sprintf("vhost %+v", s))
	}
	for _, s := range b.Users() {
		lines = append(lines, fmt.Sprintf("user %+v", s))
	}
	for _, p := range b.Permissions("", "") {
		lines = append(lines, fmt.Sprintf("permissions %+v", p))
	}
	for _, p := range b.TopicPermissions("", "") {
		lines = append(lines, fmt.Sprintf("topic %+v", p))
	}
	return lines
}

// guest is the default user of tests that want one.
func guest(o *Options) {
	o.DefaultUser = &DefaultUser{Name: "guest", Password: "guest"}
	o.LoopbackUsers = []string{"guest"}
}

func (e *env) must(seq uint64, err error) uint64 {
	e.t.Helper()
	if err != nil {
		e.t.Fatal(err)
	}
	return seq
}

func TestAdmin_Refused(t *testing.T) {
	t.Parallel()
	e := openSim(t, sim.New(sim.Options{}), guest)
	defer e.close()
	b := e.broker
	e.must(b.AddVHost(VHostSpec{Name: "v"}))
	rows := []struct {
		name   string
		do     func() (uint64, error)
		reason access.Reason
		want   string
	}{
		{"user exists", func() (uint64, error) { return b.AddUser(access.Spec{Name: "guest"}) }, access.Exists, "'guest' exists"},
		{"user without a name", func() (uint64, error) { return b.AddUser(access.Spec{}) }, access.Invalid, "no name"},
		{"bad hash", func() (uint64, error) {
			return b.AddUser(access.Spec{Name: "x", Password: access.Hash{Algorithm: access.SHA256, Text: "x"}})
		}, access.Invalid, "base64"},
		{"put with a bad hash", func() (uint64, error) {
			return b.PutUser(access.Spec{Name: "guest", Password: access.Hash{Algorithm: "rot13", Text: "x"}})
		}, access.Invalid, "rot13"},
		{"password of nobody", func() (uint64, error) { return b.SetPassword("x", "y") }, access.NotFound, "no user 'x'"},
		{"empty password", func() (uint64, error) { return b.SetPassword("guest", "") }, access.Invalid, "clear the password"},
		{"tags of nobody", func() (uint64, error) { return b.SetUserTags("x", nil) }, access.NotFound, "no user 'x'"},
		{"bad tag", func() (uint64, error) { return b.SetUserTags("guest", []string{"a\nb"}) }, access.Invalid, "not a tag"},
		{"unknown user limit", func() (uint64, error) { return b.SetUserLimit("guest", "max-fun", 1) }, access.Invalid, "max-channels"},
		{"delete nobody", func() (uint64, error) { return b.DeleteUser("x") }, access.NotFound, "no user 'x'"},
		{"permissions nowhere", func() (uint64, error) { return b.SetPermissions("guest", "w", access.Permissions{}) }, access.NotFound, "no virtual host 'w'"},
		{"permissions of nobody", func() (uint64, error) { return b.SetPermissions("x", "v", access.Permissions{}) }, access.NotFound, "no user 'x'"},
		{"bad pattern", func() (uint64, error) { return b.SetPermissions("guest", "v", access.Permissions{Read: "(?!x)"}) }, access.Invalid, "look-ahead"},
		{"clear nowhere", func() (uint64, error) { return b.ClearPermissions("guest", "w") }, access.NotFound, "'w'"},
		{"topics nowhere", func() (uint64, error) {
			return b.SetTopicPermissions("guest", "w", "e", access.TopicPermissions{})
		}, access.NotFound, "'w'"},
		{"clear topics nowhere", func() (uint64, error) { return b.ClearTopicPermissions("guest", "w", "") }, access.NotFound, "'w'"},
		{"vhost exists", func() (uint64, error) { return b.AddVHost(VHostSpec{Name: "v"}) }, access.Exists, "'v' exists"},
		{"vhost without a name", func() (uint64, error) { return b.AddVHost(VHostSpec{}) }, access.Invalid, "no name"},
		{"long name", func() (uint64, error) { return b.AddVHost(VHostSpec{Name: strings.Repeat("v", 256)}) }, access.Invalid, "256 bytes"},
		{"long description", func() (uint64, error) {
			return b.AddVHost(VHostSpec{Name: "w", Description: strings.Repeat("d", 5000)})
		}, access.Invalid, "description"},
		{"queue type", func() (uint64, error) {
			return b.UpdateVHost("v", func(s *VHostSpec) { s.DefaultQueueType = "lifo" })
		}, access.Invalid, "'lifo'"},
		{"vhost limit nowhere", func() (uint64, error) { return b.SetVHostLimit("w", access.MaxQueues, 1) }, access.NotFound, "'w'"},
		{"unknown vhost limit", func() (uint64, error) { return b.SetVHostLimit("v", access.MaxChannels, 1) }, access.Invalid, "max-queues"},
		{"delete no vhost", func() (uint64, error) { return b.DeleteVHost("w") }, access.NotFound, "'w'"},
	}
	before, last := dumpAccess(b), b.defs.Last()
	for _, row := range rows {
		if seq, err := row.do(); seq != 0 || !access.IsReason(err, row.reason) || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %d, %v, want %q", row.name, seq, err, row.want)
		}
	}
	if after := dumpAccess(b); !slices.Equal(before, after) || b.defs.Last() != last {
		t.Errorf("refused changes changed\n%q\nto\n%q", before, after)
	}
	if _, err := b.User("x"); !access.IsReason(err, access.NotFound) {
		t.Error(err)
	}
}

// TestSeed: the default user comes with the first start only, and stays deleted.
func TestSeed(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	e := openSim(t, d, guest)
	if u, err := e.broker.User("guest"); err != nil || !slices.Equal(u.Tags, []string{access.TagAdministrator}) || !u.Password.Matches([]byte("guest")) {
		t.Fatalf("%+v, %v", u, err)
	}
	if p := e.broker.Permissions("guest", "/"); len(p) != 1 || p[0].Permissions != (access.Permissions{Configure: ".*", Write: ".*", Read: ".*"}) {
		t.Fatalf("%+v", p)
	}
	e.durable(e.must(e.broker.DeleteUser("guest")))
	e.close()
	for _, checkpointed := range []bool{true, false} {
		d = d.Kill()
		e = openSim(t, d, guest)
		if users := e.broker.Users(); len(users) != 0 {
			t.Fatalf("checkpointed %v: %+v", checkpointed, users)
		}
		e.close()
	}
}

// TestSeed_CrashLeavesAllOrNothing: there is no start at which nobody can log in.
func TestSeed_CrashLeavesAllOrNothing(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		d := sim.New(sim.Options{Seed: seed})
		e := openSim(t, d)
		d = d.PowerCut() // whatever of it has been written
		e.crash()
		e = openSim(t, d, guest)
		after := d.PowerCut()
		e.crash()
		e = openSim(t, after, guest)
		if _, err := e.broker.User("guest"); err != nil || len(e.broker.Permissions("guest", "/")) != 1 {
			t.Errorf("seed %d: %v", seed, err)
		}
		e.close()
	}
}

func TestAuthenticate_Loopback(t *testing.T) {
	t.Parallel()
	e := openSim(t, sim.New(sim.Options{}), guest)
	defer e.close()
	e.must(e.broker.AddUser(access.Spec{Name: "joe", Password: access.HashPassword([]byte("secret"))}))
	for _, row := range []struct {
		user, password, from string
		ok                   bool
	}{
		{"guest", "guest", "127.0.0.1", true},
		{"guest", "guest", "127.255.0.9", true},
		{"guest", "guest", "::1", true},
		{"guest", "guest", "::ffff:127.0.0.1", true}, // an IPv4 address on an IPv6 socket
		{"guest", "guest", "", true},                 // a unix socket
		{"guest", "guest", "192.0.2.1", false},
		{"guest", "guest", "::ffff:192.0.2.1", false},
		{"guest", "wrong", "127.0.0.1", false},
		{"joe", "secret", "192.0.2.1", true},
		{"nobody", "guest", "127.0.0.1", false},
	} {
		var from netip.Addr
		if row.from != "" {
			from = netip.MustParseAddr(row.from)
		}
		login, err := e.broker.Authenticate([]byte(row.user), []byte(row.password), from)
		if (err == nil) != row.ok || row.ok && login.User.Name != row.user {
			t.Errorf("%+v: %v", row, err)
		}
		if _, err := e.broker.Identify([]byte(row.user), from); (err == nil) != (row.ok || row.password == "wrong") {
			t.Errorf("identify %+v: %v", row, err)
		}
	}
}

// TestDeleteVHost takes everything in it along, and only that.
func TestDeleteVHost(t *testing.T) {
	t.Parallel()
	e := openSim(t, sim.New(sim.Options{}), guest)
	b := e.broker
	odd := "ä/\x00 '\"\n%2F"
	e.must(b.AddVHost(VHostSpec{Name: odd, Description: "d", Tags: []string{"t"}}))
	e.must(b.SetPermissions("guest", odd, access.Permissions{Read: ".*"}))
	e.must(b.SetTopicPermissions("guest", odd, "t", access.TopicPermissions{}))
	vh := b.VHost(odd)
	other := e.vh
	for _, v := range []*VHost{vh, other} {
		e.vh = v
		e.exchange(ExchangeDeclare{Name: "e", Type: "topic", Durable: true})
		for _, q := range []QueueDeclare{{Name: "durable", Durable: true}, {Name: "transient"}, {Name: "mine", Exclusive: true}} {
			e.publish(e.queue(q, me), "m")
			if _, err := v.Bind(Binding{Source: "e", Queue: q.Name}, me); err != nil {
				t.Fatal(err)
			}
		}
	}
	q, err := vh.Queue([]byte("durable"), nil)
	if err != nil {
		t.Fatal(err)
	}
	owner := &fakeOwner{}
	if err := q.Attach(&Consumer{Queue: q, Owner: owner, Tag: "t"}); err != nil {
		t.Fatal(err)
	}
	revoked := 0
	b.OnRevoked(func() { revoked++ })
	seq := e.must(b.DeleteVHost(odd))
	if b.VHost(odd) != nil || !vh.Deleted() || revoked != 1 || owner.cancelled != 1 || len(vh.Queues()) != 0 || q.Counts() != (Counts{}) {
		t.Errorf("there: %v, deleted %v, revoked %d, cancelled %d, %d queues, %+v", b.VHost(odd) != nil, vh.Deleted(), revoked, owner.cancelled, len(vh.Queues()), q.Counts())
	}
	if p := b.Permissions("", odd); len(p) != 0 || len(b.TopicPermissions("", odd)) != 0 {
		t.Errorf("permissions are left: %+v", p)
	}
	const goneText = "CONNECTION_FORCED - vhost 'ä/\x00 '\"\n%2F' is deleted"
	_, err = vh.DeclareExchange(ExchangeDeclare{Name: "new", Type: "fanout", Durable: true})
	wantError(t, err, amqp.CodeConnectionForced, goneText)
	_, _, _, err = vh.DeclareQueue(QueueDeclare{Name: "new", Durable: true}, nil)
	wantError(t, err, amqp.CodeConnectionForced, goneText)
	e.must(b.AddVHost(VHostSpec{Name: odd}))
	if again := b.VHost(odd); again == vh || again.Deleted() || len(again.Queues()) != 0 {
		t.Error("a new one of its name is the old one")
	}
	e.must(b.DeleteVHost(odd))
	e.durable(seq)
	want := dump(other)
	e.close()
	e = openSim(t, e.disk.Disk.(*sim.Disk).Kill(), guest)
	defer e.close()
	got := slices.DeleteFunc(want, func(line string) bool {
		return strings.Contains(line, "transient") || strings.Contains(line, "mine")
	})
	if now := dump(e.vh); !slices.Equal(now, got) || e.broker.VHost(odd) != nil {
		t.Errorf("after a restart\n%q\nwant\n%q", now, got)
	}
	if text := e.log.String(); strings.Contains(text, "quarantine") {
		t.Error(text)
	}
}

// TestDeleteVHost_Interrupted: a crash after the record and before the files are
// gone. The next start finishes it, and puts nothing aside.
func TestDeleteVHost_Interrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	e.must(e.broker.AddVHost(VHostSpec{Name: "v"}))
	slash := e.vh
	e.vh = e.broker.VHost("v")
	for _, name := range []string{"a", "b"} {
		e.publish(e.queue(QueueDeclare{Name: name, Durable: true}, nil), "m")
	}
	e.vh = slash
	e.publish(e.queue(QueueDeclare{Name: "kept", Durable: true}, nil), "m")
	e.close()
	e = openDir(t, dir)
	e.durable(e.broker.defs.Append(fields{recVHostDelete}.str("v")))
	e.crash()
	e = openDir(t, dir)
	defer e.close()
	if text := e.log.String(); strings.Contains(text, "quarantine") {
		t.Error(text)
	}
	if got := e.broker.Recovered(); got != (Recovered{Queues: 1, Messages: 1}) {
		t.Errorf("%+v", got)
	}
	e.await("only the log that is needed", func() bool {
		ids, err := e.store.ListLogs()
		return err == nil && len(ids) == 1
	})
}

// TestDeleteVHost_WhileInUse: what is declared meanwhile does not bring the
// virtual host back.
func TestDeleteVHost_WhileInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	for round := range 5 {
		e.must(e.broker.AddVHost(VHostSpec{Name: "v"}))
		vh := e.broker.VHost("v")
		var wg sync.WaitGroup
		started := make(chan struct{}, 4)
		for worker := range 4 {
			wg.Go(func() {
				for i := 0; ; i++ {
					if i > 100_000 {
						t.Error("a deleted virtual host takes declarations")
						return
					}
					name := fmt.Sprintf("q%d-%d-%d", round, worker, i)
					_, _, _, err := vh.DeclareQueue(QueueDeclare{Name: name, Durable: true}, nil)
					if err == nil {
						_, err = vh.DeclareExchange(ExchangeDeclare{Name: name, Type: "direct", Durable: true})
					}
					if i == 0 {
						started <- struct{}{}
					}
					if err != nil {
						wantError(t, err, amqp.CodeConnectionForced, "CONNECTION_FORCED - vhost 'v' is deleted")
						return
					}
					_, _ = vh.Bind(Binding{Source: name, Queue: name}, nil) // 404 when it is gone
				}
			})
		}
		for range 4 {
			<-started
		}
		seq := e.must(e.broker.DeleteVHost("v"))
		wg.Wait()
		e.durable(seq)
	}
	e.durable(e.broker.defs.Last())
	e.crash()
	e = openDir(t, dir)
	defer e.close()
	if e.broker.VHost("v") != nil || e.broker.Recovered() != (Recovered{}) || strings.Contains(e.log.String(), "quarantine") {
		t.Errorf("%+v: %s", e.broker.Recovered(), e.log.String())
	}
}

func TestVHost_QueueLimitAndDefaultType(t *testing.T) {
	t.Parallel()
	e := openSim(t, sim.New(sim.Options{}), guest)
	defer e.close()
	e.must(e.broker.SetVHostLimit("/", access.MaxQueues, 2))
	declare := func(d QueueDeclare) (*Queue, error) {
		q, _, _, err := e.vh.DeclareQueue(d, me)
		return q, err
	}
	e.queue(QueueDeclare{Name: "a"}, me)
	e.queue(QueueDeclare{Name: "b", Exclusive: true}, me)
	const text = "PRECONDITION_FAILED - cannot declare queue 'c': queue limit in vhost '/' (2) is reached"
	_, err := declare(QueueDeclare{Name: "c"})
	wantError(t, err, amqp.CodePreconditionFailed, text)
	e.queue(QueueDeclare{Name: "a"}, me) // it is there already
	e.must(e.broker.SetVHostLimit("/", access.MaxQueues, -1))
	e.queue(QueueDeclare{Name: "c"}, me)
	e.must(e.broker.SetVHostLimit("/", access.MaxQueues, 0))
	_, err = declare(QueueDeclare{Name: "d"})
	wantError(t, err, amqp.CodePreconditionFailed, "PRECONDITION_FAILED - cannot declare queue 'd': queue limit in vhost '/' (0) is reached")
	e.must(e.broker.SetVHostLimit("/", access.MaxQueues, -1))

	plain := e.queue(QueueDeclare{Name: "before", Durable: true}, me)
	e.must(e.broker.UpdateVHost("/", func(s *VHostSpec) { s.DefaultQueueType = "classic" }))
	typed := e.queue(QueueDeclare{Name: "after", Durable: true, Arguments: intArgument("x-max-length", 3)}, me)
	for q, want := range map[*Queue]string{
		plain: "", typed: "classic",
		e.queue(QueueDeclare{Name: "transient"}, me):                                                                "",
		e.queue(QueueDeclare{Name: "exclusive", Durable: true, Exclusive: true}, me):                                "",
		e.queue(QueueDeclare{Name: "auto", Durable: true, AutoDelete: true}, me):                                    "",
		e.queue(QueueDeclare{Name: "own", Durable: true, Arguments: stringArgument("x-queue-type", "classic")}, me): "classic",
	} {
		v, _ := q.Arguments.Lookup("x-queue-type")
		if got, _ := v.Bytes(); string(got) != want {
			t.Errorf("queue %s has type %q, want %q", q.Name, got, want)
		}
	}
	// Declared again without a type, each is what it is.
	e.queue(QueueDeclare{Name: "before", Durable: true}, me)
	e.queue(QueueDeclare{Name: "after", Durable: true, Arguments: intArgument("x-max-length", 3)}, me)
	e.must(e.broker.UpdateVHost("/", func(s *VHostSpec) { s.DefaultQueueType = "stream" }))
	e.queue(QueueDeclare{Name: "after", Durable: true, Arguments: intArgument("x-max-length", 3)}, me)
}

// TestVersion_ChangesWithPermissions: what channels cached of a route is void.
func TestVersion_ChangesWithPermissions(t *testing.T) {
	t.Parallel()
	e := openSim(t, sim.New(sim.Options{}), guest)
	defer e.close()
	for name, change := range map[string]func() (uint64, error){
		"permissions": func() (uint64, error) { return e.broker.SetPermissions("guest", "/", access.Permissions{}) },
		"topics": func() (uint64, error) {
			return e.broker.SetTopicPermissions("guest", "/", "e", access.TopicPermissions{})
		},
		"tags": func() (uint64, error) { return e.broker.SetUserTags("guest", nil) },
	} {
		version, users := e.vh.Version(), e.broker.AccessVersion()
		e.must(change())
		if e.vh.Version() == version || e.broker.AccessVersion() == users {
			t.Errorf("%s: nothing tells", name)
		}
	}
}
