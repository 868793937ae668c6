package broker

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestCore_Model runs random histories of a whole virtual host, without sockets and
// with a clock that only the test moves, against a model that keeps each message
// by itself: exchanges of several types, bound to queues and to each other, with
// alternates; delayed ones; queues with times to live, limits of each kind,
// priorities, delivery limits, a single active consumer, and dead letters into
// any exchange, in circles too, some of them at least once; policies that come and go;
// consumers with priorities and prefetch, exclusive ones; gets, acks, rejects,
// requeues, recovers, cancels, purges; stops, kills and power cuts. It holds who
// gets what, in which order, flagged how, with which deaths.
//
// Everything happens in the test's goroutine, the keeper's work too. After each of
// the keeper's steps the model follows (core_model_follow_test.go): which of two
// things that are due at the same millisecond comes first is the broker's choice,
// that each is allowed and follows from what was before is checked, and that in
// the end nothing remains that is due.
//
// A failure prints the line that repeats it. For long runs: -rapid.checks=100000.
func TestCore_Model(t *testing.T) {
	groups := 30
	if testing.Short() {
		groups = 8
	}
	for i := range groups { // rapid's hundred histories each, if the command line says nothing
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, coreHistory)
		})
	}
}

func coreHistory(rt *rapid.T) {
	m := &coreModel{t: rt, disk: sim.New(sim.Options{Seed: 1}), now: 1_000_000, routes: &routeModel{}, queues: map[string]*coreQueue{}, waiting: map[string][]*delayedMessage{}, delayed: map[string]map[uint64]*delayedMessage{}}
	m.open()
	defer func() { m.c.crash() }()
	m.declare()
	action := func(f func()) func(*rapid.T) {
		return func(t *rapid.T) {
			m.t, m.c.t = t, t
			f()
			m.settle()
		}
	}
	rt.Repeat(map[string]func(*rapid.T){
		"publish": action(m.publish), "publish2": action(m.publish), "publish3": action(m.publish),
		"get": action(m.get), "consume": action(m.consume),
		"conclude": action(m.conclude), "conclude2": action(m.conclude), "conclude3": action(m.conclude),
		"recover": action(m.recover), "cancel": action(m.cancel), "stall": action(m.stall), "stall2": action(m.stall),
		"bind": action(m.bind), "unbind": action(m.unbind),
		"wait": m.wait, "policy": action(m.policy), "seldom": action(m.seldom),
	})
}

// coreMessage is one message in one queue, or on its way there.
type coreMessage struct {
	body     string
	key      string
	priority uint8       // that its publisher gave it
	ttl      int64       // of its own
	deaths   []coreDeath // the last one first

	level   *coreLevel
	offset  uint64
	born    int64
	came    bool // was taken before
	count   int64
	settled bool
	gone    bool   // it was settled before the model could look at it
	why     reason // while it is dying
}

type coreDeath struct {
	queue, reason string
	count         int64
}

// coreLevel is a log: of a queue, or of one level of a priority queue.
type coreLevel struct {
	q        *coreQueue
	priority uint8
	log      *Queue
	end      uint64 // offsets below are known
	cursor   uint64 // offsets below were taken
	dying    []*coreMessage
	known    map[uint64]*coreMessage // all there ever were
}

// coreQueue is the model of a queue.
type coreQueue struct {
	name      string
	arguments amqp.Table
	set       settings
	max       uint8 // x-max-priority
	single    bool
	base      *Queue

	levels    map[uint8]*coreLevel
	ready     []*coreMessage // in the order in which they are to be taken
	held      []*coreMessage
	holders   map[*coreMessage]*coreConsumer // nil: basic.get
	consumers []*coreConsumer
	active    *coreConsumer // if single
}

// delayedMessage is a message in a delayed exchange.
type delayedMessage struct {
	coreMessage
	due int64
}

type coreModel struct {
	t       *rapid.T
	disk    *sim.Disk
	c       *clocked
	now     int64
	routes  *routeModel
	delays  map[string]bool // exchanges that delay
	queues  map[string]*coreQueue
	waiting map[string][]*delayedMessage          // by exchange, in the order in which they are due
	delayed map[string]map[uint64]*delayedMessage // all that exchanges were ever given, by offset
	number  int
	turns   int // that consumers have had or waited for
	tags    int

	// safely: dead letters go at least once, and no queue refuses any. A letter
	// that one of several queues refused goes to the others twice, which is tested
	// elsewhere.
	safely   bool
	policies map[string]amqp.Table // definitions, by pattern
}

var (
	coreExchanges = []string{"e0", "e1", "e2", "d0", "d1"}
	coreQueues    = []string{"q0", "q1", "q2"}
	coreKeys      = []string{"a", "b", "q0", "q2"}
	corePatterns  = []string{"^q[01]$", "^q2$"}
)

func (m *coreModel) names() []string { return slices.Sorted(maps.Keys(m.queues)) }

func (m *coreModel) pick(label string) *coreQueue {
	return m.queues[rapid.SampledFrom(coreQueues).Draw(m.t, label)]
}

// chance is true one time in n.
func (m *coreModel) chance(label string, n int) bool {
	return rapid.IntRange(0, n-1).Draw(m.t, label) == n-1
}

// open opens the broker on the disk and finds the queues that are there.
func (m *coreModel) open() {
	m.c = openClocked(m.t, m.disk, m.now)
	m.c.broker.keeper.watched = m.follow
	for name, q := range m.queues {
		q.base = m.c.vh.queues[name]
		q.consumers, q.active = nil, nil
		for _, l := range q.levels {
			l.log = q.base
			if l.priority == 0 {
				continue
			}
			if l.log = q.base.levels.at[l.priority]; l.log == nil { // all of it was settled; its offsets go on
				if l.log = q.base.level(l.priority); l.log.ready() > 0 {
					m.t.Fatalf("level %d of %s was not there", l.priority, name)
				}
			}
		}
		m.sized(q)
	}
}

// sized has the sizes of messages found out that were there before their bytes
// were limited: until that is done nobody can tell what is over the limit.
func (m *coreModel) sized(q *coreQueue) {
	for _, l := range q.base.family() {
		m.c.await("sizes are known", func() bool {
			l.mu.Lock()
			e := l.upkeep
			known := e == nil || e.sizes == nil || e.sizeFrom >= e.sizeEnd
			l.mu.Unlock()
			if !known {
				m.c.broker.keeper.readSizes(l, m.now)
			}
			return known
		})
	}
}

// level is where messages of a priority go.
func (q *coreQueue) level(priority uint8) *coreLevel {
	priority = min(priority, q.max)
	l := q.levels[priority]
	if l == nil {
		l = &coreLevel{q: q, priority: priority, known: map[uint64]*coreMessage{}}
		q.levels[priority] = l
	}
	if l.log == nil {
		if l.log = q.base; priority > 0 {
			l.log = q.base.levels.at[priority]
		}
	}
	return l
}

// highestFirst are the levels there are.
func (q *coreQueue) highestFirst() (list []*coreLevel) {
	for _, p := range slices.Sorted(maps.Keys(q.levels)) {
		list = slices.Insert(list, 0, q.levels[p])
	}
	return list
}

func (q *coreQueue) readyBytes() (n int64) {
	for _, msg := range q.ready {
		n += int64(len(msg.body))
	}
	return n
}

// reset makes the effective settings.
func (m *coreModel) reset(q *coreQueue) {
	q.set = plainSettings
	for _, pattern := range corePatterns {
		if regexp.MustCompile(pattern).MatchString(q.name) {
			if s := effective(q.arguments, m.policies[pattern], nil); s != nil {
				q.set = *s
			}
		}
	}
}
