package broker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestDeadLetter_AtLeastOnce_OneOfSeveralRefuses: a letter that waits because one
// of its queues refuses it, does not go to the others again and again.
func TestDeadLetter_AtLeastOnce_OneOfSeveralRefuses(t *testing.T) {
	t.Parallel()
	clock := int64(1000)
	e := openAt(t, posixDisk(t, t.TempDir()), &clock)
	defer e.close()
	e.exchange(ExchangeDeclare{Name: "dead", Type: "fanout"})
	names := []string{"open", "one", "two"}
	queues := map[string]*Queue{}
	for i, name := range names {
		d := QueueDeclare{Name: name}
		if i > 0 { // "one" takes a message, "two" takes two
			d.Arguments = values("x-max-length", i, "x-overflow", "reject-publish")
		}
		queues[name] = e.queue(d, nil)
		e.bind(Binding{Source: "dead", Queue: name})
	}
	source := e.queue(QueueDeclare{Name: "source", Durable: true, Arguments: values(
		"x-max-length", 0, "x-dead-letter-exchange", "dead", "x-dead-letter-strategy", "at-least-once")}, nil)
	var want []string
	for i := range 6 {
		want = append(want, fmt.Sprint("m", i))
	}
	e.put(source, clock, "", want...)
	got := map[string][]string{}
	take := func(name string) {
		for {
			run, _ := queues[name].Get()
			if run.Count == 0 {
				return
			}
			got[name] = append(got[name], e.body(queues[name], run.First))
			queues[name].Settle(run.First, 1)
		}
	}
	tries := func(n int) {
		for range n {
			e.broker.keeper.step()
			clock += retryInterval
		}
	}
	tries(5)
	take("open")
	if !slices.Equal(got["open"], want) {
		t.Fatalf("who takes everything has %q after five tries", got["open"])
	}
	for range 8 {
		take("one")
		take("two")
		tries(3)
	}
	take("open")
	for _, name := range names {
		slices.Sort(got[name])
		if strings.Join(got[name], " ") != strings.Join(want, " ") {
			t.Errorf("%s has got %q", name, got[name])
		}
	}
	if n := source.log.Unsettled(); n != 0 || len(source.upkeep.move.given) != 0 {
		t.Errorf("%d letters are left, of %d is noted who has them", n, len(source.upkeep.move.given))
	}

	// Who refuses goes: then all that are left have it.
	e.put(queues["one"], clock, "", "in the way")
	e.put(source, clock, "", "last")
	tries(3)
	if n := source.log.Unsettled(); n != 1 {
		t.Fatalf("%d letters wait", n)
	}
	if _, _, err := e.vh.DeleteQueue([]byte("one"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	tries(3)
	take("open")
	take("two")
	if n := source.log.Unsettled(); n != 0 || !slices.Equal(got["open"][6:], []string{"last"}) || !slices.Equal(got["two"][6:], []string{"last"}) {
		t.Errorf("%d letters are left; %q, %q", n, got["open"][6:], got["two"][6:])
	}
}
