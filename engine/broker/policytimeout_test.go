package broker

import (
	"testing"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

// TestPolicy_ConsumerTimeout: consumers that come while a policy sets a limit
// have it, unless they bring their own.
func TestPolicy_ConsumerTimeout(t *testing.T) {
	e := openSim(t, sim.New(sim.Options{}))
	defer e.close()
	q := e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	limit := func(want int64) {
		t.Helper()
		if ms, err := q.AckTimeout(nil, 0); err != nil || ms != want {
			t.Errorf("%d ms, %v; want %d", ms, err, want)
		}
	}
	limit(0)
	e.policy("p", "^q", `{"consumer-timeout":60000}`)
	limit(60000)
	if ms, err := q.AckTimeout(intArgument("x-consumer-timeout", 5), 0); err != nil || ms != 5 {
		t.Errorf("the consumer's own: %d ms, %v", ms, err)
	}
	e.must(e.broker.ClearPolicy("/", "p"))
	limit(0)
}
