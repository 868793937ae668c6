package amqp

import (
	"log/slog"
	"net/netip"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// connOf is a connection of the default user in "/", as far as permissions go.
func connOf(t *testing.T) (*conn, *broker.Broker) {
	t.Helper()
	d := sim.New(sim.Options{})
	logger := slog.New(slog.DiscardHandler)
	store, err := segstore.Open(segstore.Options{Disk: d, Arena: new(arena.Pool), Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(broker.Options{Store: store, Disk: d, Logger: logger, DefaultUser: &broker.DefaultUser{Name: "joe", Password: "x"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.Close()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	login, err := b.Identify([]byte("joe"), netip.Addr{})
	if err != nil {
		t.Fatal(err)
	}
	c := &conn{shard: &shard{srv: &Server{broker: b}}, user: login.User}
	if err := c.enter(b.VHost("/")); err != nil {
		t.Fatal(err)
	}
	return c, b
}

// A publish to another exchange than the last asks for permission, and so may
// every publish to a topic exchange: what has been asked before costs no
// allocation. A publish like the last asks for nothing (TestRevocation_Publisher
// holds that it notices a change all the same).
func TestPermit_AllocatesNothing(t *testing.T) {
	c, b := connOf(t)
	if _, err := b.SetPermissions("joe", "/", access.Permissions{Write: "^(amq\\.|orders)", Read: ".*"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.SetTopicPermissions("joe", "/", "amq.topic", access.TopicPermissions{Write: "^{username}"}); err != nil {
		t.Fatal(err)
	}
	ch := &channel{conn: c, id: 1}
	names, key := [][]byte{nil, []byte("amq.topic"), []byte("orders")}, []byte("joe.x")
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range names {
			if err := ch.permitPublish(name); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.permitTopic(access.Write, names[1], key); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if ch.pub.byTopic {
		t.Error("orders is no topic exchange")
	}
	// The next question gets the new answer.
	if _, err := b.SetPermissions("joe", "/", access.Permissions{}); err != nil {
		t.Fatal(err)
	}
	if ch.permitPublish(names[2]) == nil {
		t.Error("a withdrawn permission counts")
	}
}

// What a connection counts for in its user and vhost is taken back once.
func TestEnterAndLeave(t *testing.T) {
	c, b := connOf(t)
	vh := b.VHost("/")
	if _, ok := c.user.AddChannel(); !ok {
		t.Fatal("no channel")
	}
	c.counted++
	for range 2 {
		c.leave()
		if connections, channels := c.user.Counts(); connections != 0 || channels != 0 || vh.Connections() != 0 {
			t.Fatalf("%d connections and %d channels of the user, %d connections in the vhost", connections, channels, vh.Connections())
		}
	}
}
