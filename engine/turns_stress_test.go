package engine_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestTurns_Stress: consumers that take turns and do whatever consumers do: read
// slowly, acknowledge some in any order, requeue, cancel, roll back, close channels,
// lose their connections, while queues are paused and go on. What was not
// acknowledged comes again, flagged; what was does not; no limit is exceeded, and
// nothing stays behind.
func TestTurns_Stress(t *testing.T) {
	t.Parallel()
	seeds, messages, steps := 3, 2500, 250
	if testing.Short() {
		seeds, messages, steps = 1, 1000, 100
	}
	for seed := range uint64(seeds) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			stressTurns(t, seed, messages, steps)
		})
	}
}

var turnsNames = []string{"kept", "plain", "ranked"}

func stressTurns(t *testing.T, seed uint64, messages, steps int) {
	const publishers, workers = 2, 7
	e := start(t)
	admin := open(t, e)
	declareWith(admin, "plain", amqptest.Durable)
	declareWith(admin, "ranked", amqptest.Durable, "x-max-priority", 4)
	declareWith(admin, "kept", amqptest.Durable, "x-message-ttl", 3_600_000)
	ledger := newTurnsLedger(t, publishers*messages)
	random := func(n int) *rand.Rand { return rand.New(rand.NewPCG(seed, uint64(n))) }

	var busy, drains sync.WaitGroup
	for p := range publishers {
		c := open(t, e)
		busy.Go(func() { ledger.check(ledger.publish(c.Conn, random(p), p*messages, messages)) })
	}
	for n := range workers {
		w := &turnsWorker{random: random(publishers + n), engine: e, ledger: ledger, noAck: n < 2, slow: n%2 == 1}
		if !w.slow {
			ledger.begin()
		}
		busy.Go(func() {
			if !w.slow {
				defer ledger.end()
			}
			if !ledger.check(w.connect()) {
				return
			}
			defer func() { w.conn.Abort() }()
			for range steps {
				if !ledger.check(w.step()) {
					return
				}
			}
			ledger.check(w.leave())
		})
	}
	busy.Wait()
	for _, name := range turnsNames {
		w := turnsWorker{engine: e}
		if err := w.pause(name, false); err != nil {
			t.Fatal(err)
		}
	}
	var stop atomic.Bool
	for n := range 2 {
		w := &turnsWorker{random: random(publishers + workers + n), engine: e, ledger: ledger, plain: true}
		drains.Go(func() {
			if !ledger.check(w.connect()) {
				return
			}
			defer func() { w.conn.Abort() }()
			ledger.check(w.drain(&stop))
		})
	}
	eventually(t, "nothing is left", func() bool {
		for _, name := range turnsNames {
			q := e.Broker().VHost("/").FindQueue(name)
			if n := q.Counts(); n.Ready+n.Unacked > 0 && !ledger.broken() {
				return false
			}
		}
		return true
	})
	stop.Store(true)
	drains.Wait()
	if !t.Failed() {
		ledger.close()
	}
}

// turnsLedger is what all know of the messages.
type turnsLedger struct {
	t    *testing.T
	fail atomic.Bool

	mu    sync.Mutex
	moved sync.Cond
	of    []turnsMessage
	seen  int // deliveries
	quick int // workers that go on by themselves
}

type turnsMessage struct {
	size    int
	seen    bool // by a consumer
	mortal  bool // it may have expired
	done    bool // acknowledged, or had without the need of it
	perhaps bool // the ack may have got lost with its connection
}

func newTurnsLedger(t *testing.T, n int) *turnsLedger {
	l := &turnsLedger{t: t, of: make([]turnsMessage, n)}
	l.moved.L = &l.mu
	return l
}

func (l *turnsLedger) broken() bool { return l.fail.Load() }

// check reports an error, and says whether to go on.
func (l *turnsLedger) check(err error) bool {
	if err != nil {
		l.t.Error(err)
		l.fail.Store(true)
		l.moved.Broadcast()
	}
	return !l.fail.Load()
}

func (l *turnsLedger) begin() {
	l.mu.Lock()
	l.quick++
	l.mu.Unlock()
}

func (l *turnsLedger) end() {
	l.mu.Lock()
	l.quick--
	l.mu.Unlock()
	l.moved.Broadcast()
}

// await waits until others have got some messages, as long as there are others.
func (l *turnsLedger) await(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for upTo := l.seen + n; l.seen < upTo && l.quick > 0 && !l.broken(); {
		l.moved.Wait()
	}
}

// publish publishes messages with numbers from first on.
func (l *turnsLedger) publish(c *amqptest.Conn, random *rand.Rand, first, count int) error {
	for id := first; id < first+count; {
		var raw []byte
		for n := min(1+random.IntN(100), first+count-id); n > 0; n-- {
			size := random.IntN(64)
			switch random.IntN(40) {
			case 0:
				size = random.IntN(300 << 10)
			case 1, 2, 3, 4:
				size = random.IntN(8 << 10)
			}
			body := strconv.Itoa(id) + ":" + strings.Repeat("x", size)
			p := amqp.Properties{Flags: amqp.FlagDeliveryMode | amqp.FlagPriority, DeliveryMode: uint8(1 + random.IntN(2)), Priority: uint8(random.IntN(5))}
			mortal := random.IntN(20) == 0
			if mortal {
				p.Flags |= amqp.FlagExpiration
				p.Expiration = []byte(strconv.Itoa(random.IntN(30)))
			}
			l.mu.Lock()
			l.of[id].size, l.of[id].mortal = len(body), mortal
			l.mu.Unlock()
			raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Key: turnsNames[random.IntN(3)], Body: body, Properties: &p, FrameMax: 128 << 10})
			id++
		}
		if err := c.Send(raw); err != nil {
			return err
		}
	}
	_, err := c.Call(1, &amqp.BasicCancel{ConsumerTag: []byte("nobody")}, amqp.BasicCancelOkID)
	return err
}

// delivered notes that somebody has got a message, and returns its number.
func (l *turnsLedger) delivered(body []byte, redelivered bool) (id int, err error) {
	number, _, _ := bytes.Cut(body, []byte(":"))
	if id, err = strconv.Atoi(string(number)); err != nil || id >= len(l.of) {
		return 0, fmt.Errorf("a delivery of nothing that was published: %.40q", body)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen++
	l.moved.Broadcast()
	m := &l.of[id]
	switch {
	case m.size != len(body):
		return id, fmt.Errorf("message %d has %d bytes instead of %d", id, len(body), m.size)
	case m.done && !m.perhaps:
		return id, fmt.Errorf("message %d comes again after its ack (redelivered: %v)", id, redelivered)
	case m.seen && !redelivered:
		return id, fmt.Errorf("message %d comes again, not flagged as redelivered", id)
	}
	m.seen, m.done, m.perhaps = true, false, false
	return id, nil
}

// ended notes that the end of messages is on its way, or that it may have been lost.
func (l *turnsLedger) ended(perhaps bool, ids ...int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		m := &l.of[id]
		m.done, m.perhaps = true, perhaps
	}
}

// close says what has not come to its end.
func (l *turnsLedger) close() {
	for id, m := range l.of {
		if !m.done && !m.mortal {
			l.t.Errorf("message %d was lost (seen: %v)", id, m.seen)
		}
	}
}

// turnsWorker is a client with consumers.
type turnsWorker struct {
	random   *rand.Rand
	engine   *engine.Engine
	ledger   *turnsLedger
	plain    bool // its channels have neither limits nor transactions
	noAck    bool // it acknowledges nothing, and keeps its connection
	slow     bool // it waits for others before it reads on
	conn     *amqptest.Conn
	channels [2]*turnsChannel
}

type turnsChannel struct {
	number    uint16
	limit     int // for all consumers; 0: none
	tx        bool
	returning bool // what it holds goes back to the queues
	consumers map[string]*turnsConsumer
	held      []turnsDelivery
	staged    []turnsDelivery // acknowledged in the transaction
	sent      []int           // acknowledged, and the broker may not have heard it
}

type turnsConsumer struct {
	prefetch, held int
}

type turnsDelivery struct {
	tag      uint64
	id       int
	consumer *turnsConsumer
}
