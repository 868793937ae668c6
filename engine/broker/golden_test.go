package broker

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
)

var updateGolden = flag.Bool("update", false, "write testdata anew: texts, and missing files")

// readGolden applies a definitions file of testdata.
func readGolden(t *testing.T, name string) (b *Broker, seq uint64) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	b = emptyBroker()
	if seq, err = readSnapshot(data, b.apply); err != nil {
		t.Fatal(err)
	}
	b.forgetUnrecorded()
	ReadDefinitions(data, func(info DefinitionInfo) {
		if info.Err != nil {
			t.Errorf("%+v", info)
		}
	})
	return b, seq
}

// TestGolden_BeforeUsers reads a file of a version that knew neither users nor
// virtual hosts: each that a record names is there. The file cannot be written
// anew.
func TestGolden_BeforeUsers(t *testing.T) {
	b, seq := readGolden(t, "v1-definitions")
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(b.vhosts)) {
		lines = append(lines, "vhost "+name)
		lines = append(lines, dump(b.vhosts[name])...)
	}
	want := []string{
		"vhost /",
		`binding e -> f true "k" 0`,
		`binding e -> q false "k.#" 0`,
		"exchange e topic durable=true auto-delete=true internal=false",
		"exchange f headers durable=true auto-delete=false internal=true",
		"queue q durable=true auto-delete=false exclusive=false",
		"vhost old vhost",
		`binding amq.direct -> q false "" 0`,
		"queue q durable=true auto-delete=true exclusive=false",
	}
	if !slices.Equal(lines, want) || seq != 300 || b.seeded || len(b.Users()) != 0 {
		t.Errorf("up to %d, seeded %v:\n%q\nwant\n%q", seq, b.seeded, lines, want)
	}
}

// TestGolden_Users holds the format of records of users and virtual hosts.
func TestGolden_Users(t *testing.T) {
	const name = "v1-definitions-users"
	specs := []VHostSpec{
		{Name: "/"},
		{Name: "ö/%", Description: "odd", Tags: []string{"a", "b"}, DefaultQueueType: "classic", Limits: access.Limits{access.MaxQueues: 7, access.MaxConnections: 0}},
	}
	users := []access.Spec{
		{Name: "ann", Tags: []string{"administrator", "own"}},
		{Name: "joe", Password: access.Hash{Algorithm: access.SHA256, Text: "kI3GCqW5JLMJa4iX1lo7X4D6XbYqlLgxIs30+P6tENUV2POR"}, Limits: access.Limits{access.MaxChannels: 3}},
	}
	permissions := []access.UserPermissions{{User: "joe", VHost: "ö/%", Permissions: access.Permissions{Configure: "", Write: "^w", Read: ".*"}}}
	topics := []access.UserTopicPermissions{{User: "joe", VHost: "ö/%", Exchange: "amq.topic", TopicPermissions: access.TopicPermissions{Write: "^{username}", Read: ""}}}
	if *updateGolden {
		records := [][]byte{fields{recNextLogID}.num(9), fields{recAccess}.num(accessVersion)}
		for i := range specs {
			records = append(records, vhostRecord(&specs[i]))
		}
		for _, s := range users {
			records = append(records, userRecord(s))
		}
		records = append(records, permissionsRecord(permissions[0]), topicRecord(topics[0]),
			queueRecord(recQueueDeclare, &VHost{Name: "ö/%"}, &Queue{Name: "q", ID: 7}),
			queueRecord(recQueueDeclare, &VHost{Name: "gone"}, &Queue{Name: "q", ID: 8}),
			// What only the journal has otherwise:
			groupRecord(userRecord(access.Spec{Name: "bob"}), vhostRecord(&VHostSpec{Name: "w"})),
			permissionsRecord(access.UserPermissions{User: "bob", VHost: "w"}),
			topicRecord(access.UserTopicPermissions{User: "ann", VHost: "w", Exchange: "e"}),
			fields{recPermissionsClear}.str("w").str("bob"), fields{recTopicClear}.str("w").str("ann").str(""),
			fields{recVHostDelete}.str("w"), fields{recUserDelete}.str("bob"))
		if err := os.WriteFile(filepath.Join("testdata", name), snapshotFile(301, records...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, seq := readGolden(t, name)
	want := emptyBroker()
	for i := range specs {
		want.vhost(specs[i].Name).spec.Store(&specs[i])
	}
	for _, s := range users {
		if err := want.users.Put(s); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range permissions {
		if err := want.users.SetPermissions(p.User, p.VHost, p.Permissions); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range topics {
		if err := want.users.SetTopicPermissions(p.User, p.VHost, p.Exchange, p.TopicPermissions); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := dumpAccess(b), dumpAccess(want); seq != 301 || !slices.Equal(got, want) {
		t.Errorf("up to %d:\n%q\nwant\n%q", seq, got, want)
	}
	if vh := b.VHost("ö/%"); vh == nil || len(vh.queues) != 1 || b.VHost("gone") != nil {
		t.Error("queues of virtual hosts")
	}
}
