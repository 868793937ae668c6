package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

func storedHeaders(t tb, properties []byte) amqp.Table {
	t.Helper()
	p, err := amqp.DecodeProperties(properties)
	if err != nil {
		t.Fatal(err)
	}
	return p.Headers
}

// In order of time, then of publishing; never early; at once without a delay.
func TestDelayed_Order(t *testing.T) {
	t.Parallel()
	c := openClocked(t, sim.New(sim.Options{}), 1000)
	defer func() { c.close() }()
	c.exchange(delayedExchange("d", "direct", true))
	q := c.queue(QueueDeclare{Name: "q"}, nil)
	c.bind(Binding{Source: "d", Queue: "q", RoutingKey: "k"})
	for i, delay := range []int64{30, 10, 30, 0, 20, 10, -5} {
		c.post("d", "k", delayedBy(delay), fmt.Sprint(i))
	}
	c.post("d", "k", noProperties, "plain")
	for _, step := range []struct {
		now  int64
		want string
	}{
		{1000, "3 6 plain"},
		{1009, "3 6 plain"},
		{1010, "3 6 plain 1 5"},
		{1029, "3 6 plain 1 5 4"},
		{1030, "3 6 plain 1 5 4 0 2"},
	} {
		c.until(step.now)
		if got := strings.Join(c.ready(q), " "); got != step.want {
			t.Fatalf("at %d: %s, want %s", step.now, got, step.want)
		}
	}
	// RabbitMQ's plugin leaves the delay in the header, negated.
	_, properties := c.record(q, 3)
	if v, _ := storedHeaders(t, properties).Lookup(headerDelay); v.Kind() != amqp.KindInt32 {
		t.Fatalf("x-delay is of kind %c", v.Kind())
	} else if n, _ := v.Int64(); n != -10 {
		t.Fatalf("x-delay is %d", n)
	}
	// Nothing is delayed: the keeper has nothing to wait for.
	c.broker.keeper.step()
	if d := c.vh.exchanges["d"].delayed; d.log.Unsettled() != 0 || len(c.broker.keeper.due) != 0 {
		t.Fatalf("%d messages and %d dates are left", d.log.Unsettled(), len(c.broker.keeper.due))
	}
}

func TestDelayed_HeaderKinds(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		set  func(b *amqp.TableBuilder)
		want int64
	}{
		{func(*amqp.TableBuilder) {}, 0},
		{func(b *amqp.TableBuilder) { b.SetInt32(headerDelay, 7) }, 7},
		{func(b *amqp.TableBuilder) { b.SetInt64(headerDelay, 1<<40) }, 1 << 40},
		{func(b *amqp.TableBuilder) { b.SetInt64(headerDelay, -3) }, 0},
		{func(b *amqp.TableBuilder) { b.SetString(headerDelay, "12") }, 12},
		{func(b *amqp.TableBuilder) { b.SetString(headerDelay, "-12") }, 0},
		{func(b *amqp.TableBuilder) { b.SetString(headerDelay, "soon") }, 0},
		{func(b *amqp.TableBuilder) { b.SetBool(headerDelay, true) }, 0},
	} {
		if got := delayOf(table(row.set)); got != row.want {
			t.Errorf("%q: %d, want %d", table(row.set), got, row.want)
		}
	}
	if got := due(1000, 1<<63-1); got < 0 || got == 1<<63-1 {
		t.Errorf("an enormous delay is due at %d", got)
	}
}

// Routed when it is due: by the bindings of that time, CC and BCC, the inner
// type's rules; to the alternate exchange if there is no binding then.
func TestDelayed_RoutedWhenDue(t *testing.T) {
	t.Parallel()
	c := openClocked(t, sim.New(sim.Options{}), 1000)
	defer func() { c.close() }()
	c.exchange(ExchangeDeclare{Name: "other", Type: "fanout"})
	d := delayedExchange("d", "topic", true)
	d.Arguments = table(func(b *amqp.TableBuilder) {
		b.SetString(argDelayedType, "topic")
		b.SetString(argAlternate, "other")
	})
	c.exchange(d)
	early, late, lost := c.queue(QueueDeclare{Name: "early"}, nil), c.queue(QueueDeclare{Name: "late"}, nil), c.queue(QueueDeclare{Name: "lost"}, nil)
	c.bind(Binding{Source: "d", Queue: "early", RoutingKey: "a.*"})
	c.bind(Binding{Source: "other", Queue: "lost"})
	c.post("d", "a.b", delayedBy(10), "first")
	if _, err := c.vh.Unbind(Binding{Source: "d", Queue: "early", RoutingKey: "a.*"}, nil); err != nil {
		t.Fatal(err)
	}
	c.post("d", "a.b", delayedBy(10), "second")
	c.until(1010)
	c.wantReady(early, nil)
	c.wantReady(lost, []string{"first", "second"})
	c.bind(Binding{Source: "d", Queue: "late", RoutingKey: "#.z"})
	c.post("d", "x", withHeaders(func(b *amqp.TableBuilder) {
		b.SetInt64(headerDelay, 10)
		b.SetValue("BCC", amqp.ArrayValue(amqp.ArrayOf(amqp.String("b.z"))))
	}), "copied")
	c.until(1020)
	c.wantReady(late, []string{"copied"})
	_, properties := c.record(late, 0)
	if _, ok := storedHeaders(t, properties).Lookup("BCC"); ok {
		t.Fatal("BCC is delivered")
	}
	// Without an alternate exchange: dropped.
	c.exchange(delayedExchange("nowhere", "direct", true))
	c.post("nowhere", "k", delayedBy(10), "dropped")
	c.until(1030)
	if n := c.vh.exchanges["nowhere"].delayed.log.Unsettled(); n != 0 {
		t.Fatalf("%d messages stay", n)
	}
}

// From exchange to exchange: a delayed one on the way delays, once.
func TestDelayed_Chain(t *testing.T) {
	t.Parallel()
	c := openClocked(t, sim.New(sim.Options{}), 1000)
	defer func() { c.close() }()
	c.exchange(ExchangeDeclare{Name: "a", Type: "fanout"})
	c.exchange(delayedExchange("d", "fanout", false))
	c.exchange(delayedExchange("e", "fanout", false))
	now, then := c.queue(QueueDeclare{Name: "now"}, nil), c.queue(QueueDeclare{Name: "then"}, nil)
	c.bind(Binding{Source: "a", Queue: "now"})
	c.bind(Binding{Source: "a", Exchange: "d", ToExchange: true})
	c.bind(Binding{Source: "d", Exchange: "e", ToExchange: true})
	c.bind(Binding{Source: "e", Queue: "then"})
	entry, err := c.vh.CheckPublish([]byte("a"))
	if err != nil || entry.Traits&ByProperties == 0 {
		t.Fatalf("traits %d, %v: the route depends on the header", entry.Traits, err)
	}
	c.post("a", "k", delayedBy(10), "m")
	c.wantReady(now, []string{"m"})
	c.until(1009)
	c.wantReady(then, nil)
	c.until(1010)
	c.wantReady(then, []string{"m"})
}

// The time to live of a delayed message begins when it gets to its queue.
func TestDelayed_ExpirationBeginsWhenDue(t *testing.T) {
	t.Parallel()
	c := openClocked(t, sim.New(sim.Options{}), 1000)
	defer func() { c.close() }()
	c.exchange(delayedExchange("d", "fanout", true))
	q := c.queue(QueueDeclare{Name: "q"}, nil)
	c.bind(Binding{Source: "d", Queue: "q"})
	p := amqp.Properties{Flags: amqp.FlagHeaders | amqp.FlagExpiration, Expiration: []byte("50"), Headers: intArgument(headerDelay, 100)}
	c.post("d", "k", p.Append(nil), "m")
	c.until(1100)
	c.wantReady(q, []string{"m"})
	c.until(1150)
	c.wantReady(q, []string{"m"})
	c.now = 1151
	c.await("it expires", func() bool {
		c.broker.keeper.step()
		return q.Counts().Ready == 0
	})
}

// Messages with an expiration that are released together with others without one
// expire all the same.
func TestDelayed_ExpirationBesideOthers(t *testing.T) {
	t.Parallel()
	c := openClocked(t, sim.New(sim.Options{}), 1000)
	defer func() { c.close() }()
	c.exchange(delayedExchange("d", "fanout", true))
	q := c.queue(QueueDeclare{Name: "q"}, nil)
	c.bind(Binding{Source: "d", Queue: "q"})
	p := amqp.Properties{Flags: amqp.FlagHeaders | amqp.FlagExpiration, Expiration: []byte("50"), Headers: intArgument(headerDelay, 100)}
	c.post("d", "k", p.Append(nil), "goes")
	c.post("d", "k", delayedBy(100), "stays")
	c.until(1100)
	c.wantReady(q, []string{"goes", "stays"})
	c.now = 1151
	c.await("it expires", func() bool {
		c.broker.keeper.step()
		return q.Counts().Ready == 1
	})
}

// Deleting the exchange deletes what it delays, on disk too.
func TestDelayed_Delete(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{})
	c := openClocked(t, d, 1000)
	c.exchange(delayedExchange("d", "fanout", true))
	q := c.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	c.bind(Binding{Source: "d", Queue: "q"})
	for range 20 {
		c.post("d", "k", delayedBy(10), "m")
	}
	c.until(1001)
	seq, err := c.vh.DeleteExchange("d", false)
	if err != nil {
		t.Fatal(err)
	}
	c.durable(seq)
	c.until(2000)
	c.wantReady(q, nil)
	c.close()
	c = openClocked(t, d.Kill(), 3000)
	defer func() { c.close() }()
	if ids, err := c.store.ListLogs(); err != nil || len(ids) > 1 || strings.Contains(c.log.String(), "quarantine") {
		t.Fatalf("logs %v, %v\n%s", ids, err, c.log)
	}
}

// A large body gets to its queues by name, and the delayed name goes.
func TestDelayed_LargeBody(t *testing.T) {
	t.Parallel()
	c := openClocked(t, sim.New(sim.Options{}), 1000)
	defer func() { c.close() }()
	withBodies(c.env)
	defer c.broker.bodies.Close()
	c.exchange(delayedExchange("d", "fanout", true))
	var queues []*Queue
	for _, name := range []string{"a", "b"} {
		queues = append(queues, c.queue(QueueDeclare{Name: name, Durable: true}, nil))
		c.bind(Binding{Source: "d", Queue: name})
	}
	h := c.vh.exchanges["d"].delayed
	c.publishExternal(h) // an ordinary one, too; both without the header: due at once
	if got := c.names(h); len(got) != 1 {
		t.Fatalf("the delayed body is called %v", got)
	}
	c.await("released", func() bool {
		c.now++ // removing waits for the disk
		c.broker.keeper.step()
		return h.log.Unsettled() == 0 && len(h.upkeep.move.doomed) == 0
	})
	for _, q := range queues {
		if got := c.names(q); len(got) != 1 || q.Counts().Ready != 2 {
			t.Fatalf("%s has bodies %v and %+v", q.Name, got, q.Counts())
		}
	}
	if got := c.names(h); len(got) != 0 {
		t.Fatalf("bodies %v stay", got)
	}
}

func TestDelayed_Arguments(t *testing.T) {
	t.Parallel()
	c := openClocked(t, sim.New(sim.Options{}), 1000)
	defer func() { c.close() }()
	const missing = "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
	for _, arguments := range []amqp.Table{nil, stringArgument(argDelayedType, "lifo"), stringArgument(argDelayedType, typeDelayed), stringArgument(argDelayedType, "")} {
		_, err := c.vh.DeclareExchange(ExchangeDeclare{Name: "d", Type: typeDelayed, Arguments: arguments})
		wantError(t, err, 406, missing)
	}
	_, err := c.vh.DeclareExchange(ExchangeDeclare{Name: "d", Type: typeDelayed, Arguments: intArgument(argDelayedType, 1)})
	wantError(t, err, 406, "PRECONDITION_FAILED - invalid type 'signedint' for arg 'x-delayed-type' in exchange 'd' in vhost '/'")
	_, err = c.vh.DeclareExchange(ExchangeDeclare{Name: "d", Type: typeDelayed, Arguments: stringArgument(argDelayedType, typeRecentHistory)})
	if err == nil {
		t.Error("a history that is delayed was accepted")
	}
	c.exchange(delayedExchange("d", "direct", true))
	c.exchange(delayedExchange("d", "direct", true))
	also := delayedExchange("d", "direct", true)
	also.Type = typeDelayedToo
	c.exchange(also)
	_, err = c.vh.DeclareExchange(delayedExchange("d", "fanout", true))
	wantError(t, err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-delayed-type' for exchange 'd' in vhost '/': received 'fanout' but current is 'direct'")
	// The inner type judges bindings.
	c.exchange(delayedExchange("hash", typeConsistentHash, true))
	q := c.queue(QueueDeclare{Name: "q"}, nil)
	if _, err := c.vh.Bind(Binding{Source: "hash", Queue: "q", RoutingKey: "heavy"}, nil); err == nil {
		t.Error("a weight that is none was accepted")
	}
	c.bind(Binding{Source: "hash", Queue: "q", RoutingKey: "1"})
	// LavinMQ's argument, for any type.
	c.exchange(ExchangeDeclare{Name: "too", Type: "fanout", Durable: true, Arguments: table(func(b *amqp.TableBuilder) { b.SetBool(argDelayedToo, true) })})
	c.bind(Binding{Source: "too", Queue: "q"})
	c.post("too", "k", delayedBy(10), "m")
	c.wantReady(q, nil)
	c.post("hash", "k", delayedBy(11), "n")
	c.until(1011)
	c.wantReady(q, []string{"m", "n"})
}

// A queue at its limit refuses what is released like what is published: it is dropped.
func TestDelayed_FullQueueDrops(t *testing.T) {
	t.Parallel()
	c := openClocked(t, sim.New(sim.Options{}), 1000)
	defer func() { c.close() }()
	c.exchange(delayedExchange("d", "fanout", true))
	full := c.queue(QueueDeclare{Name: "full", Arguments: table(func(b *amqp.TableBuilder) {
		b.SetInt64("x-max-length", 1)
		b.SetString("x-overflow", "reject-publish")
	})}, nil)
	c.bind(Binding{Source: "d", Queue: "full"})
	for _, body := range []string{"a", "b"} {
		c.post("d", "k", delayedBy(5), body)
	}
	c.until(1005)
	c.wantReady(full, []string{"a"})
	if n := c.vh.exchanges["d"].delayed.log.Unsettled(); n != 0 {
		t.Fatalf("%d messages stay", n)
	}
}

// What is delayed is there after restarts and kills, on time, once.
func TestDelayed_Restarts(t *testing.T) {
	t.Parallel()
	d := sim.New(sim.Options{Seed: 3})
	c := openClocked(t, d, 1000)
	c.exchange(delayedExchange("d", "fanout", true))
	c.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	c.bind(Binding{Source: "d", Queue: "q"})
	c.durable(c.broker.defs.Last())
	var want []string
	for i := range 60 {
		c.post("d", "k", delayedBy(int64(10+i)), fmt.Sprint(i))
		want = append(want, fmt.Sprint(i))
	}
	for round, now := range []int64{1005, 1020, 1040, 1055, 1100} {
		if now > 1020 {
			c.until(now)
		}
		dead := d
		if round%2 == 0 {
			c.close()
			dead = d.Kill()
		} else {
			ticket := c.store.Begin().End()
			c.await("durable", func() bool { return c.store.TxDurable() >= ticket })
			h := c.vh.exchanges["d"].delayed.log
			h.WantDurable()
			c.await("durable", func() bool { return h.Durable() == h.Next() })
			dead = d.Kill()
			c.crash()
		}
		d = dead
		c = openClocked(t, d, now)
	}
	defer func() { c.close() }()
	c.until(1100)
	got := c.ready(c.vh.queues["q"])
	if !slices.Equal(got, want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

// Messages that become due together, in another order than they came in: small
// ones are read together, large ones alone, and all come in order.
func TestDelayed_Scattered(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]int{"small": 10, "large": gatherBytesMax / 60, "too large together": gatherBytesMax / 70} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := openClocked(t, sim.New(sim.Options{}), 1000)
			defer func() { c.close() }()
			c.exchange(delayedExchange("d", "fanout", true))
			q := c.queue(QueueDeclare{Name: "q", Durable: true}, nil)
			c.bind(Binding{Source: "d", Queue: "q"})
			const count = 90
			want := make([]string, count)
			for i := range count {
				place := i * 101 % count
				want[place] = fmt.Sprintf("%0*d", size-i%7, i)
				c.post("d", "k", delayedBy(int64(10+place)), want[place])
			}
			c.until(1050)
			c.until(1000 + 10 + count)
			got := c.ready(q)
			for i := range want {
				if i >= len(got) || got[i] != want[i] {
					t.Fatalf("%d messages; number %d of %d is wrong", len(got), i, count)
				}
			}
			if len(got) != count {
				t.Fatalf("%d messages, want %d", len(got), count)
			}
		})
	}
}
