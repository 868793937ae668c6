package amqp

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/stats"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"pgregory.net/rapid"
)

// confirmModel drives a channel's confirmation list. Its logs are transient
// ones: they are durable up to their next offset, so that an append is exactly
// the progress the test wants, and a deleted one is a log that failed.
type confirmModel struct {
	pool  *arena.Pool
	ch    *channel
	logs  []*segstore.Log
	want  []uint64 // per log: highest offset waited for
	alive []bool

	batches  []modelBatch
	outcomes []bool // per publish told: acked
}

type modelBatch struct {
	publishes int
	refused   bool
	waits     []modelWait
}

type modelWait struct {
	log    int
	offset uint64
}

// TestConfirms_Model: under random progress of the logs each publish is
// confirmed once, in order, as soon as all before it are, acked if and only if
// every queue has it.
func TestConfirms_Model(t *testing.T) {
	t.Parallel()
	d, err := disk.OpenPosix(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pool := new(arena.Pool)
	store, err := segstore.Open(segstore.Options{Disk: d, Arena: pool})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = store.Close()
		_ = d.Close()
	})
	id := uint64(0)
	rapid.Check(t, func(t *rapid.T) {
		m := &confirmModel{pool: pool}
		c := &conn{shard: &shard{pool: pool}, frameMax: frameMaxDefault, state: stateOpen}
		m.ch = &channel{conn: c, id: 7, confirm: true}
		for range 3 {
			id++
			l, err := store.OpenLog(id, segstore.LogOptions{Transient: true})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Delete()
			m.logs, m.want, m.alive = append(m.logs, l), append(m.want, 0), append(m.alive, true)
		}
		t.Repeat(map[string]func(*rapid.T){
			"publish":    m.publish,
			"publish2":   m.publish,
			"unroutable": m.unroutable,
			"progress":   m.progress,
			"fail":       m.fail,
			"look":       m.look,
		})
		for i := range m.logs {
			m.advance(t, i, m.want[i])
		}
		m.look(t)
		if m.ch.acked != m.ch.seq || len(m.outcomes) != int(m.ch.seq) || len(m.ch.pending) > 0 || m.ch.enlisted {
			t.Fatalf("at the end %d of %d are confirmed, %d entries left", m.ch.acked, m.ch.seq, len(m.ch.pending))
		}
		if c.out != nil {
			c.out.Release()
		}
	})
}

// publish notes a batch that went to some queues, as commitBatch does.
func (m *confirmModel) publish(t *rapid.T) {
	b := modelBatch{publishes: rapid.IntRange(1, 5).Draw(t, "publishes")}
	m.ch.seq += uint64(b.publishes)
	queues := rapid.IntRange(1, 3).Draw(t, "queues")
	for i := range queues {
		e := confirmation{seq: m.ch.seq, more: i < queues-1}
		switch rapid.IntRange(0, 5).Draw(t, "how") {
		case 0:
			e.failed, b.refused = true, true
		case 1, 2: // a transient queue
		default:
			log := rapid.IntRange(0, len(m.logs)-1).Draw(t, "log")
			m.want[log] += uint64(b.publishes)
			e.log, e.offset = m.logs[log], m.want[log]
			b.waits = append(b.waits, modelWait{log, e.offset})
		}
		m.ch.note(e)
	}
	m.batches = append(m.batches, b)
}

func (m *confirmModel) unroutable(*rapid.T) {
	m.ch.seq++
	m.ch.confirmNow()
	m.batches = append(m.batches, modelBatch{publishes: 1})
}

func (m *confirmModel) progress(t *rapid.T) {
	log := rapid.IntRange(0, len(m.logs)-1).Draw(t, "log")
	m.advance(t, log, m.logs[log].Next()+rapid.Uint64Range(1, 8).Draw(t, "records"))
}

// advance makes a log durable up to offset.
func (m *confirmModel) advance(t *rapid.T, log int, offset uint64) {
	if !m.alive[log] || m.logs[log].Next() >= offset {
		return
	}
	b := segstore.NewBatch(m.pool)
	defer b.Release()
	b.Reset(0)
	template := b.Template(nil, nil, nil)
	for m.logs[log].Next()+uint64(b.Count()) < offset {
		b.Add(template, nil)
	}
	if _, err := m.logs[log].Append(b); err != nil {
		t.Fatal(err)
	}
}

func (m *confirmModel) fail(t *rapid.T) {
	log := rapid.IntRange(0, 5*len(m.logs)).Draw(t, "log")
	if log < len(m.logs) && m.alive[log] {
		m.alive[log] = false
		if err := m.logs[log].Delete(); err != nil {
			t.Fatal(err)
		}
	}
}

// look resolves what can be and compares it with what the batches say.
func (m *confirmModel) look(t *rapid.T) {
	m.ch.conn.resolveAll()
	m.readOutput(t)
	at := 0
	for _, b := range m.batches {
		resolved, acked := true, !b.refused
		for _, w := range b.waits {
			if m.logs[w.log].Durable() < w.offset {
				resolved = resolved && !m.alive[w.log]
				acked = false
			}
		}
		if !resolved {
			break
		}
		for range b.publishes {
			if at >= len(m.outcomes) {
				t.Fatalf("publish %d could be confirmed and is not", at+1)
			}
			if m.outcomes[at] != acked {
				t.Fatalf("publish %d: acked %v, want %v", at+1, m.outcomes[at], acked)
			}
			at++
		}
	}
	if at != len(m.outcomes) {
		t.Fatalf("%d publishes confirmed, only %d could be", len(m.outcomes), at)
	}
}

// readOutput takes the acks and nacks out of the connection's output.
func (m *confirmModel) readOutput(t *rapid.T) {
	c := m.ch.conn
	if c.out == nil {
		return
	}
	for buf := c.out.Bytes()[:c.outLen]; len(buf) > 0; {
		f, n, err := amqp.ParseFrame(buf, frameMaxDefault)
		if err != nil || n == 0 || f.Channel != m.ch.id {
			t.Fatalf("output is no frame of channel %d: %v, %v", m.ch.id, f, err)
		}
		buf = buf[n:]
		tag, multiple, acked, err := confirmOf(f.Payload)
		if err != nil {
			t.Fatal(err)
		}
		told := uint64(len(m.outcomes))
		if tag <= told || !multiple && tag != told+1 || tag > m.ch.seq {
			t.Fatalf("confirm of %d (multiple: %v) after %d", tag, multiple, told)
		}
		for range tag - told {
			m.outcomes = append(m.outcomes, acked)
		}
	}
	c.outLen = 0
}

func confirmOf(payload []byte) (tag uint64, multiple, acked bool, err error) {
	id, args, err := amqp.SplitMethod(payload)
	switch {
	case err != nil:
		return 0, false, false, err
	case id == amqp.BasicAckID:
		var ack amqp.BasicAck
		err = ack.Decode(args)
		return ack.DeliveryTag, ack.Multiple, true, err
	case id == amqp.BasicNackID:
		var nack amqp.BasicNack
		err = nack.Decode(args)
		return nack.DeliveryTag, nack.Multiple, false, err
	}
	return 0, false, false, fmt.Errorf("unexpected %s", amqp.MethodName(id))
}

// Confirming allocates nothing, however many channels there are, and the virtual
// host's counters have it afterwards.
func TestConfirms_DoNotAllocate(t *testing.T) {
	c := &conn{shard: &shard{pool: new(arena.Pool), loop: new(loop.Loop)}, frameMax: frameMaxDefault, state: stateOpen, counts: new(stats.Loop)}
	var channels [50]*channel
	for i := range channels {
		channels[i] = &channel{conn: c, id: uint16(i + 1), confirm: true}
	}
	turn := func() {
		for _, ch := range channels {
			ch.seq += 10
			ch.counters()
			ch.counts.timed = timedPublish{ch.seq, 0}
			ch.confirmNow()
		}
		c.resolveAll()
		c.outLen = 0
	}
	turn() // lists and buffers get their size
	if n := testing.AllocsPerRun(100, turn); n != 0 {
		t.Errorf("%v allocations to confirm on %d channels", n, len(channels))
	}
	told := uint64(0)
	for _, ch := range channels {
		if ch.acked != ch.seq {
			t.Errorf("channel %d: %d of %d are confirmed", ch.id, ch.acked, ch.seq)
		}
		told += ch.seq
	}
	confirm, _ := (&Server{shards: []*shard{c.shard}}).Latencies()
	if counted := c.counts.Shared[stats.Confirm].Load(); counted != told || confirm.Count() != told/10 {
		t.Errorf("%d confirms counted, %d timed; %d messages were confirmed, one of 10 timed", counted, confirm.Count(), told)
	}
	c.out.Release()
}
