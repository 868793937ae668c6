package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestUpkeep_Model runs random histories of one queue with random arguments
// against a model that keeps each message by itself, with a clock that only the
// test moves: who expires, who is dropped or refused, what becomes a dead letter
// of which reason, in which order, through stops and restarts.
func TestUpkeep_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &upkeepModel{dir: t.TempDir(), clock: 1_000_000}
		m.draw(rt)
		m.open(rt)
		defer func() { m.e.crash() }()
		rt.Repeat(map[string]func(*rapid.T){
			"publish":  m.publish,
			"publish2": m.publish,
			"get":      m.get,
			"get2":     m.get,
			"ack":      func(t *rapid.T) { m.settle(t, "ack") },
			"reject":   func(t *rapid.T) { m.settle(t, "reject") },
			"requeue":  func(t *rapid.T) { m.settle(t, "requeue") },
			"requeue2": func(t *rapid.T) { m.settle(t, "requeue") },
			"wait":     m.wait,
			"seldom":   m.seldom,
			"":         m.check,
		})
	})
}

type kept struct {
	body   string
	born   int64
	ttl    int64 // of its own
	count  int64 // how often it came back
	came   bool  // at all
	offset uint64
}

type upkeepModel struct {
	dir   string
	e     *env
	q     *Queue
	dead  *Queue
	clock int64

	arguments amqp.Table
	set       settings

	ready   []*kept
	held    map[uint64]*kept
	end     uint64
	letters []string // what the dead letter queue must have got
	seen    []string // what it has got
	number  int
}

func (m *upkeepModel) draw(t *rapid.T) {
	b := new(amqp.TableBuilder)
	some := func(name string, from, to int64) {
		if rapid.Bool().Draw(t, name) {
			b.SetInt64(name, rapid.Int64Range(from, to).Draw(t, name+" value"))
		}
	}
	some("x-message-ttl", 0, 50)
	some("x-max-length", 0, 12)
	some("x-max-length-bytes", 0, 200)
	some("x-delivery-limit", 0, 3)
	if rapid.Bool().Draw(t, "overflow") {
		b.SetString("x-overflow", rapid.SampledFrom(slices.Sorted(maps.Keys(overflows))).Draw(t, "overflow value"))
	}
	if rapid.Bool().Draw(t, "dead letters") {
		b.SetString("x-dead-letter-exchange", "")
		b.SetString("x-dead-letter-routing-key", "dead")
		if rapid.Bool().Draw(t, "at least once") {
			b.SetString("x-dead-letter-strategy", "at-least-once")
		}
	}
	m.arguments = b.Table()
	m.set = plainSettings
	if s := effective(m.arguments, nil, nil); s != nil {
		m.set = *s
	}
}

func (m *upkeepModel) open(t tb) {
	t.Helper()
	posix, err := disk.OpenPosix(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	m.e, err = tryOpenAt(t, &testDisk{Disk: posix, lazy: true}, segstore.Options{}, func() int64 { return m.clock })
	if err != nil {
		t.Fatal(err)
	}
	m.q = m.e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: m.arguments}, nil)
	m.dead = m.e.queue(QueueDeclare{Name: "dead", Durable: true}, nil)
	m.held = map[uint64]*kept{}
}

// bury is what becomes of a message that is over.
func (m *upkeepModel) bury(k *kept, why reason) {
	if m.set.deadLetters {
		m.letters = append(m.letters, reasonNames[why]+" "+k.body)
	}
}

func (m *upkeepModel) bytes() (n int64) {
	for _, k := range m.ready {
		n += int64(len(k.body))
	}
	return n
}

// tidy drops what is over the limit, then what has expired, from the head.
func (m *upkeepModel) tidy() {
	pop := func(why reason) {
		m.bury(m.ready[0], why)
		m.ready = m.ready[1:]
	}
	if m.set.overflow == dropHead {
		for len(m.ready) > 0 && (int64(len(m.ready)) > m.set.maxLength || m.bytes() > m.set.maxBytes) {
			pop(maxLength)
		}
	}
	for len(m.ready) > 0 && m.over(m.ready[0]) {
		pop(expired)
	}
}

func (m *upkeepModel) over(k *kept) bool {
	ttl := min(m.set.messageTTL, k.ttl)
	return ttl == 0 || ttl != unlimited && m.clock-k.born > ttl
}

func (m *upkeepModel) publish(t *rapid.T) {
	m.e.t = t
	b := segstore.NewBatch(m.e.pool)
	defer b.Release()
	b.Reset(m.clock)
	var batch []*kept
	expiring := false
	for range rapid.IntRange(1, 6).Draw(t, "count") {
		m.number++
		k := &kept{body: fmt.Sprintf("%d%*s", m.number, rapid.IntRange(0, 40).Draw(t, "size"), ""), born: m.clock, ttl: unlimited}
		p := amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: 2}
		if rapid.IntRange(0, 3).Draw(t, "expiration") == 0 {
			k.ttl = rapid.Int64Range(0, 60).Draw(t, "expiration value")
			p.Flags |= amqp.FlagExpiration
			p.Expiration = strconv.AppendInt(nil, k.ttl, 10)
			expiring = true
		}
		b.Add(b.Template(nil, []byte("q"), p.Append(nil)), []byte(k.body))
		batch = append(batch, k)
	}
	if expiring {
		m.q.ExpectExpirations()
	}
	end, _, err := m.q.Publish(b, m.clock)
	var refused []int
	if full, ok := err.(*Overflow); ok {
		refused = full.Refused
		if full.Appended < len(batch)-len(refused) {
			t.Fatalf("%+v of %d", full, len(batch))
		}
	} else if err != nil {
		t.Fatal(err)
	}
	var want []int
	for i, k := range batch {
		inLog := true
		if m.set.rejects() && (int64(len(m.ready))+1 > m.set.maxLength || m.bytes()+int64(len(k.body)) > m.set.maxBytes) {
			want = append(want, i)
			if inLog = m.set.overflow == rejectPublishDLX && m.set.deadLetters; inLog {
				m.letters = append(m.letters, "maxlen "+k.body)
			}
		} else {
			m.ready = append(m.ready, k)
		}
		if inLog {
			k.offset = m.end
			m.end++
		}
	}
	if !slices.Equal(refused, want) || end != m.end {
		t.Fatalf("refused %v up to %d, want %v up to %d", refused, end, want, m.end)
	}
	m.tidy()
}

// get takes one message as basic.get does.
func (m *upkeepModel) get(t *rapid.T) {
	m.e.t = t
	m.quiet(t)
	run, remaining := m.q.Get()
	if len(m.ready) == 0 {
		if run.Count != 0 {
			t.Fatalf("got %d, want nothing", run.First)
		}
		return
	}
	k := m.ready[0]
	m.ready = m.ready[1:]
	if run.Count != 1 || run.First != k.offset || run.Redelivered != k.came || remaining != uint64(len(m.ready)) {
		t.Fatalf("got %+v, %d remain; want %+v, %d", run, remaining, k, len(m.ready))
	}
	if body := m.e.body(m.q, k.offset); body != k.body {
		t.Fatalf("offset %d is %q, want %q", k.offset, body, k.body)
	}
	if n := m.q.DeliveryCount(k.offset); m.set.deliveryLimit != unlimited && int64(n) != k.count {
		t.Fatalf("%+v has count %d", k, n)
	}
	m.held[k.offset] = k
	m.tidy()
}

func (m *upkeepModel) settle(t *rapid.T, how string) {
	if len(m.held) == 0 {
		return
	}
	k := m.held[rapid.SampledFrom(slices.Sorted(maps.Keys(m.held))).Draw(t, "which")]
	delete(m.held, k.offset)
	switch how {
	case "ack":
		m.q.Settle(k.offset, 1)
	case "reject":
		m.q.Reject(k.offset, 1)
		m.bury(k, rejected)
	case "requeue":
		m.q.Requeue(Run{First: k.offset, Count: 1})
		if k.count++; k.count > m.set.deliveryLimit {
			m.bury(k, deliveryLimit)
			return
		}
		k.came = true
		m.giveBack(k)
		m.tidy()
	}
}

func (m *upkeepModel) giveBack(k *kept) {
	i, _ := slices.BinarySearchFunc(m.ready, k, func(a, b *kept) int { return cmp.Compare(a.offset, b.offset) })
	m.ready = slices.Insert(m.ready, i, k)
}

func (m *upkeepModel) wait(t *rapid.T) {
	m.quiet(t)
	m.clock += rapid.Int64Range(1, 30).Draw(t, "ms")
	m.tidy()
}

func (m *upkeepModel) seldom(t *rapid.T) {
	m.e.t = t
	m.quiet(t)
	switch rapid.IntRange(0, 3).Draw(t, "what") {
	case 0:
		if n := m.q.Purge(); n != uint64(len(m.ready)) {
			t.Fatalf("purged %d of %d", n, len(m.ready))
		}
		m.ready = nil
	case 1:
		held := m.held
		m.e.close()
		m.open(t)
		for _, offset := range slices.Sorted(maps.Keys(held)) {
			held[offset].came = true
			m.giveBack(held[offset])
		}
		m.tidy()
	}
}

// quiet lets the keeper do everything there is.
func (m *upkeepModel) quiet(t tb) {
	t.Helper()
	m.e.t = t
	m.e.await("the keeper has nothing to do", func() bool {
		m.e.broker.keeper.step()
		c := m.q.Counts()
		return c.Ready == uint64(len(m.ready)) && m.sized() && len(m.arrived(t)) == len(m.letters)
	})
}

// sized says that the sizes of what the start found are known.
func (m *upkeepModel) sized() bool {
	m.q.mu.Lock()
	defer m.q.mu.Unlock()
	e := m.q.upkeep
	return e == nil || e.sizes == nil || e.sizeFrom >= e.sizeEnd
}

// arrived is what the dead letter queue has.
func (m *upkeepModel) arrived(t tb) []string {
	for offset := uint64(len(m.seen)); offset < m.dead.log.Next(); offset++ {
		rec, properties := m.e.record(m.dead, offset)
		p, err := amqp.DecodeProperties(properties)
		if err != nil {
			t.Fatal(err)
		}
		deaths, _ := p.Headers.Lookup("x-death")
		list, _ := deaths.Array()
		for event := range list.All() {
			first, _ := event.Table()
			why, _ := first.Lookup("reason")
			text, _ := why.Bytes()
			m.seen = append(m.seen, string(text)+" "+rec)
			break
		}
	}
	return m.seen
}

func (m *upkeepModel) check(t *rapid.T) {
	m.quiet(t)
	if got := m.arrived(t); !slices.Equal(got, m.letters) {
		t.Fatalf("\ndead letters %q\nwant         %q", got, m.letters)
	}
	m.q.mu.Lock()
	defer m.q.mu.Unlock()
	if e := m.q.upkeep; e != nil && e.sizes != nil && int64(e.readyBytes) != m.bytes() {
		t.Fatalf("%d bytes ready, want %d", e.readyBytes, m.bytes())
	}
	if m.q.unacked != uint64(len(m.held)) {
		t.Fatalf("%d unacknowledged, want %d", m.q.unacked, len(m.held))
	}
}
