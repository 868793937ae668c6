package broker

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"pgregory.net/rapid"
)

// TestAdmin_Model runs random histories of users, permissions, virtual hosts and
// queues in them, with snapshots, restarts, kills and power cuts at any moment,
// against a model of plain maps. After a crash the state is that after some
// change, and no change that was durable is missing.
func TestAdmin_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &adminModel{disk: sim.New(sim.Options{Seed: rapid.Uint64().Draw(rt, "seed")}), state: adminState{
			vhosts: map[string]VHostSpec{"/": {Name: "/"}},
		}, history: map[uint64]adminState{}}
		m.e = openSim(rt, m.disk)
		m.note()
		defer func() { m.e.crash() }()
		rt.Repeat(map[string]func(*rapid.T){
			"put user":                m.putUser,
			"change user":             m.changeUser,
			"delete user":             m.deleteUser,
			"set permissions":         m.setPermissions,
			"set permissions2":        m.setPermissions,
			"clear permissions":       m.clearPermissions,
			"set topic permissions":   m.setTopic,
			"clear topic permissions": m.clearTopic,
			"add vhost":               m.addVHost,
			"change vhost":            m.changeVHost,
			"delete vhost":            m.deleteVHost,
			"declare queue":           m.declareQueue,
			"declare queue2":          m.declareQueue,
			"checkpoint": func(t *rapid.T) {
				if err := m.e.broker.checkpoint(); err != nil {
					t.Fatal(err)
				}
			},
			"wait":      func(t *rapid.T) { m.e.t = t; m.e.durable(m.e.broker.defs.Last()) },
			"restart":   m.restart,
			"kill":      func(t *rapid.T) { m.stop(t, m.disk.Kill) },
			"power cut": func(t *rapid.T) { m.stop(t, m.disk.PowerCut) },
			"":          m.check,
		})
	})
}

type adminState struct {
	vhosts map[string]VHostSpec
	queues map[[2]string]bool // vhost, name
	users  map[string]access.Spec
	perms  map[[2]string]access.Permissions      // user, vhost
	topics map[[3]string]access.TopicPermissions // user, vhost, exchange
}

func (s adminState) clone() adminState {
	return adminState{maps.Clone(s.vhosts), maps.Clone(s.queues), maps.Clone(s.users), maps.Clone(s.perms), maps.Clone(s.topics)}
}

type adminModel struct {
	disk    *sim.Disk
	e       *env
	state   adminState
	history map[uint64]adminState // after each definition record
}

// note remembers the state after the last record.
func (m *adminModel) note() {
	if m.state.queues == nil {
		m.state.queues, m.state.users = map[[2]string]bool{}, map[string]access.Spec{}
		m.state.perms, m.state.topics = map[[2]string]access.Permissions{}, map[[3]string]access.TopicPermissions{}
	}
	m.history[m.e.broker.defs.Last()] = m.state.clone()
}

var (
	vhostNames   = []string{"/", "v1", "ö %/"}
	userNames    = []string{"joe", "ann", "x y"}
	patternTexts = []string{"", ".*", "^a", "^(b|c)$", "{username}"}
)

func draw(t *rapid.T, label string, from []string) string {
	return rapid.SampledFrom(from).Draw(t, label)
}

// done checks that a change was refused exactly when it should be.
func (m *adminModel) done(t *rapid.T, seq uint64, err error, allowed bool) bool {
	t.Helper()
	if (err == nil) != allowed || (seq > 0) != allowed {
		t.Fatalf("record %d, %v; allowed: %v", seq, err, allowed)
	}
	return allowed
}

func (m *adminModel) spec(t *rapid.T, name string) access.Spec {
	s := access.Spec{Name: name}
	if rapid.Bool().Draw(t, "password") {
		s.Password = access.HashPassword([]byte("secret"))
	}
	if rapid.Bool().Draw(t, "tag") {
		s.Tags = []string{"management", "other"}
	}
	if rapid.Bool().Draw(t, "limit") {
		s.Limits = access.Limits{access.MaxChannels: rapid.Int64Range(0, 3).Draw(t, "channels")}
	}
	return s
}

func (m *adminModel) putUser(t *rapid.T) {
	s := m.spec(t, draw(t, "user", userNames))
	add := rapid.Bool().Draw(t, "add")
	_, exists := m.state.users[s.Name]
	do := m.e.broker.PutUser
	if add {
		do = m.e.broker.AddUser
	}
	seq, err := do(s)
	if m.done(t, seq, err, !add || !exists) {
		m.state.users[s.Name] = s
	}
	m.note()
}

func (m *adminModel) changeUser(t *rapid.T) {
	name := draw(t, "user", userNames)
	s, exists := m.state.users[name]
	var seq uint64
	var err error
	switch rapid.IntRange(0, 2).Draw(t, "what") {
	case 0:
		s.Tags = []string{"policymaker"}
		seq, err = m.e.broker.SetUserTags(name, s.Tags)
	case 1:
		s.Limits = maps.Clone(s.Limits)
		if s.Limits == nil {
			s.Limits = access.Limits{}
		}
		s.Limits[access.MaxConnections] = 5
		seq, err = m.e.broker.SetUserLimit(name, access.MaxConnections, 5)
	default:
		s.Password = access.Hash{}
		seq, err = m.e.broker.ClearPassword(name)
	}
	if m.done(t, seq, err, exists) {
		m.state.users[name] = s
	}
	m.note()
}

func (m *adminModel) deleteUser(t *rapid.T) {
	name := draw(t, "user", userNames)
	_, exists := m.state.users[name]
	seq, err := m.e.broker.DeleteUser(name)
	if m.done(t, seq, err, exists) {
		delete(m.state.users, name)
		maps.DeleteFunc(m.state.perms, func(k [2]string, _ access.Permissions) bool { return k[0] == name })
		maps.DeleteFunc(m.state.topics, func(k [3]string, _ access.TopicPermissions) bool { return k[0] == name })
	}
	m.note()
}

// place draws a user and a virtual host; both: they exist.
func (m *adminModel) place(t *rapid.T) (user, vhost string, both bool) {
	user, vhost = draw(t, "user", userNames), draw(t, "vhost", vhostNames)
	_, known := m.state.users[user]
	_, there := m.state.vhosts[vhost]
	return user, vhost, known && there
}

func (m *adminModel) setPermissions(t *rapid.T) {
	user, vhost, both := m.place(t)
	p := access.Permissions{Configure: draw(t, "c", patternTexts), Write: draw(t, "w", patternTexts), Read: draw(t, "r", patternTexts)}
	seq, err := m.e.broker.SetPermissions(user, vhost, p)
	if m.done(t, seq, err, both) {
		m.state.perms[[2]string{user, vhost}] = p
	}
	m.note()
}

func (m *adminModel) clearPermissions(t *rapid.T) {
	user, vhost, both := m.place(t)
	seq, err := m.e.broker.ClearPermissions(user, vhost)
	if m.done(t, seq, err, both) {
		delete(m.state.perms, [2]string{user, vhost})
	}
	m.note()
}

func (m *adminModel) setTopic(t *rapid.T) {
	user, vhost, both := m.place(t)
	exchange := draw(t, "exchange", []string{"amq.topic", "e"})
	p := access.TopicPermissions{Write: draw(t, "w", patternTexts), Read: draw(t, "r", patternTexts)}
	seq, err := m.e.broker.SetTopicPermissions(user, vhost, exchange, p)
	if m.done(t, seq, err, both) {
		m.state.topics[[3]string{user, vhost, exchange}] = p
	}
	m.note()
}

func (m *adminModel) clearTopic(t *rapid.T) {
	user, vhost, both := m.place(t)
	exchange := draw(t, "exchange", []string{"amq.topic", ""})
	seq, err := m.e.broker.ClearTopicPermissions(user, vhost, exchange)
	if m.done(t, seq, err, both) {
		maps.DeleteFunc(m.state.topics, func(k [3]string, _ access.TopicPermissions) bool {
			return k[0] == user && k[1] == vhost && (exchange == "" || k[2] == exchange)
		})
	}
	m.note()
}

func (m *adminModel) addVHost(t *rapid.T) {
	s := VHostSpec{Name: draw(t, "vhost", vhostNames), Description: draw(t, "description", []string{"", "text"})}
	_, exists := m.state.vhosts[s.Name]
	seq, err := m.e.broker.AddVHost(s)
	if m.done(t, seq, err, !exists) {
		m.state.vhosts[s.Name] = s
	}
	m.note()
}

func (m *adminModel) changeVHost(t *rapid.T) {
	name := draw(t, "vhost", vhostNames)
	s, exists := m.state.vhosts[name]
	var seq uint64
	var err error
	if rapid.Bool().Draw(t, "limit") {
		s.Limits = access.Limits{access.MaxQueues: 100}
		seq, err = m.e.broker.SetVHostLimit(name, access.MaxQueues, 100)
	} else {
		s.Tags, s.DefaultQueueType = []string{"t"}, "classic"
		seq, err = m.e.broker.UpdateVHost(name, func(v *VHostSpec) { v.Tags, v.DefaultQueueType = s.Tags, s.DefaultQueueType })
	}
	if m.done(t, seq, err, exists) {
		m.state.vhosts[name] = s
	}
	m.note()
}

func (m *adminModel) deleteVHost(t *rapid.T) {
	name := draw(t, "vhost", vhostNames)
	_, exists := m.state.vhosts[name]
	seq, err := m.e.broker.DeleteVHost(name)
	if m.done(t, seq, err, exists) {
		delete(m.state.vhosts, name)
		maps.DeleteFunc(m.state.queues, func(k [2]string, _ bool) bool { return k[0] == name })
		maps.DeleteFunc(m.state.perms, func(k [2]string, _ access.Permissions) bool { return k[1] == name })
		maps.DeleteFunc(m.state.topics, func(k [3]string, _ access.TopicPermissions) bool { return k[1] == name })
	}
	m.note()
}

func (m *adminModel) declareQueue(t *rapid.T) {
	vh := m.e.broker.VHost(draw(t, "vhost", vhostNames))
	if vh == nil {
		return
	}
	name := draw(t, "queue", queueNames)
	if _, _, _, err := vh.DeclareQueue(QueueDeclare{Name: name, Durable: true}, nil); err != nil {
		t.Fatal(err)
	}
	m.state.queues[[2]string{vh.Name, name}] = true
	m.note()
}

func (m *adminModel) restart(t *rapid.T) {
	m.e.t = t
	m.e.close()
	m.disk = m.disk.Kill()
	m.e = openSim(t, m.disk)
}

// stop ends the machine now: the state found is that after some record, none of
// those that were durable missing.
func (m *adminModel) stop(t *rapid.T, how func() *sim.Disk) {
	durable := m.e.broker.defs.Durable()
	m.disk = how()
	m.e.crash()
	m.e = openSim(t, m.disk)
	last := m.e.broker.defs.Last()
	if last < durable {
		t.Fatalf("records up to %d were durable, %d are left", durable, last)
	}
	// The first change makes two records; the state between them is the old one.
	at := uint64(0)
	for seq := range m.history {
		if seq <= last {
			at = max(at, seq)
		}
	}
	m.state = m.history[at].clone()
	maps.DeleteFunc(m.history, func(seq uint64, _ adminState) bool { return seq > last })
}

func (m *adminModel) check(t *rapid.T) {
	var want []string
	for _, name := range slices.Sorted(maps.Keys(m.state.vhosts)) {
		want = append(want, fmt.Sprintf("vhost %+v", m.state.vhosts[name]))
	}
	for _, name := range slices.Sorted(maps.Keys(m.state.users)) {
		want = append(want, fmt.Sprintf("user %+v", m.state.users[name]))
	}
	for k, p := range m.state.perms {
		want = append(want, fmt.Sprintf("permissions %+v", access.UserPermissions{User: k[0], VHost: k[1], Permissions: p}))
	}
	for k, p := range m.state.topics {
		want = append(want, fmt.Sprintf("topic %+v", access.UserTopicPermissions{User: k[0], VHost: k[1], Exchange: k[2], TopicPermissions: p}))
	}
	for k := range m.state.queues {
		want = append(want, fmt.Sprintf("queue %q", k))
	}
	got := dumpAccess(m.e.broker)
	for _, s := range m.e.broker.VHosts() {
		for _, q := range m.e.broker.VHost(s.Name).Queues() {
			got = append(got, fmt.Sprintf("queue %q", [2]string{s.Name, q.Name}))
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the broker has\n%q\nwant\n%q", got, want)
	}
}
