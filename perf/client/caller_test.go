package client

import (
	"testing"

	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

// testCalls returns calls of an operation that declares and deletes.
func testCalls(window int, ownChannels bool) *calls {
	declare, remove := &amqp.QueueDeclare{Queue: []byte("q")}, &amqp.QueueDelete{Queue: []byte("q")}
	return &calls{
		slots: make([]callSlot, window), latency: NewLatencyRecorder(0),
		operation: Operation{
			OwnChannels: ownChannels, Replies: []uint32{amqp.QueueDeclareOkID, amqp.QueueDeleteOkID},
			Append: func(dst []byte, channel uint16, _ uint64, call int) []byte {
				if call == 1 {
					return amqp.AppendMethodFrame(dst, channel, remove)
				}
				return amqp.AppendMethodFrame(dst, channel, declare)
			},
		},
	}
}

// asked is a call that the model of a broker has to answer.
type asked struct {
	channel uint16
	reply   uint32
}

// Whatever the window and the order in which channels are answered: every
// operation is done once, never more than the window are outstanding, and a
// channel has one at a time.
func TestCallsAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		window, own := rapid.IntRange(1, 9).Draw(t, "window"), rapid.Bool().Draw(t, "own channels")
		quota := uint64(rapid.IntRange(1, 60).Draw(t, "quota"))
		c := testCalls(window, own)
		replies := map[uint32]uint32{amqp.QueueDeclareID: amqp.QueueDeclareOkID, amqp.QueueDeleteID: amqp.QueueDeleteOkID}
		var pending []asked
		received := 0
		buffer := make([]byte, 0, rapid.IntRange(120, 2000).Draw(t, "capacity"))
		for c.finished < quota {
			buffer = c.fill(buffer[:0], quota, 1)
			for rest := buffer; len(rest) > 0; {
				frame, n, err := amqp.ParseFrame(rest, 0)
				if err != nil || n == 0 {
					t.Fatalf("%d, %v", n, err)
				}
				id, _, _ := amqp.SplitMethod(frame.Payload)
				pending = append(pending, asked{frame.Channel, replies[id]})
				received++
				rest = rest[n:]
			}
			if len(pending) == 0 {
				t.Fatalf("stuck with %d of %d done", c.finished, quota)
			}
			if outstanding := c.started - c.finished; outstanding > uint64(window) || window == 1 && len(pending) > 1 {
				t.Fatalf("%d operations outstanding, %d calls; window %d", outstanding, len(pending), window)
			}
			if own {
				perChannel := map[uint16]int{}
				for _, call := range pending {
					if perChannel[call.channel]++; perChannel[call.channel] > 2 || call.channel <= session.ClientChannel {
						t.Fatalf("channel %d is used by two operations", call.channel)
					}
				}
			}
			// Answer some: in order on a channel, any channel first.
			for range rapid.IntRange(1, len(pending)).Draw(t, "answers") {
				at := 0
				if own {
					channel := pending[rapid.IntRange(0, len(pending)-1).Draw(t, "channel of call")].channel
					for pending[at].channel != channel {
						at++
					}
				}
				c.latency.begin()
				forCaller, err := c.take(pending[at].channel, pending[at].reply)
				c.latency.end()
				if forCaller || err != nil {
					t.Fatal(forCaller, err)
				}
				pending = append(pending[:at], pending[at+1:]...)
			}
		}
		if c.started != quota || len(pending) != 0 || received != int(2*quota) {
			t.Fatalf("%d started, %d calls unanswered, %d received; quota %d", c.started, len(pending), received, quota)
		}
		latencies := NewHistogram()
		if c.latency.DrainInto(latencies); latencies.TotalCount() != int64(quota) {
			t.Fatalf("%d latencies of %d operations", latencies.TotalCount(), quota)
		}
	})
}

// An answer that is none is an error, not a count.
func TestCallsRefuseWrongReplies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		channel   uint16
		id        uint32
		forCaller bool
	}{
		{"nothing is due", 1, amqp.QueueDeleteOkID, false},
		{"another method", 1, amqp.QueueBindOkID, false},
		{"another channel", 2, amqp.QueueDeclareOkID, false},
		{"channel closed", 1, amqp.ChannelCloseID, true},
		{"consumer cancelled", 1, amqp.BasicCancelID, true},
	} {
		c := testCalls(1, false)
		c.fill(make([]byte, 0, 1000), Unlimited, 1)
		forCaller, err := c.take(test.channel, test.id)
		if forCaller != test.forCaller || (err == nil) != test.forCaller {
			t.Errorf("%s: %v, %v", test.name, forCaller, err)
		}
	}
	own := testCalls(3, true)
	own.fill(make([]byte, 0, 1000), Unlimited, 1)
	for _, channel := range []uint16{1, 5, 65535} {
		if _, err := own.take(channel, amqp.QueueDeclareOkID); err == nil {
			t.Errorf("a reply on channel %d was taken", channel)
		}
	}
}

// What a caller that is stopped still has to say makes its operation whole.
func TestCallsRest(t *testing.T) {
	t.Parallel()
	c := testCalls(1, false)
	first := c.fill(make([]byte, 0, 1000), Unlimited, 1)
	rest := c.appendRest(nil)
	if len(first) == 0 || len(rest) == 0 || c.slots[0].sent != 2 {
		t.Errorf("%d bytes, then %d; %d calls sent", len(first), len(rest), c.slots[0].sent)
	}
	if again := c.appendRest(nil); len(again) != 0 {
		t.Errorf("%d bytes more", len(again))
	}
}

func TestCallsAllocateNothing(t *testing.T) {
	for _, window := range []int{1, 100} {
		c := testCalls(window, false)
		buffer := make([]byte, 0, callerBufferBytes)
		if got := testing.AllocsPerRun(100, func() {
			buffer = c.fill(buffer[:0], Unlimited, 1)
			c.latency.begin()
			defer c.latency.end()
			for c.finished < c.started {
				slot := &c.slots[c.finished%uint64(window)]
				if slot.answered == slot.sent {
					break // one call at a time
				}
				if _, err := c.take(session.ClientChannel, c.operation.Replies[slot.answered]); err != nil {
					t.Fatal(err)
				}
			}
		}); got != 0 {
			t.Errorf("window %d: %v allocations", window, got)
		}
	}
}
