package broker

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestStream_Model runs random histories of one stream against a list of
// everything that was ever published: whoever reads, from wherever and through
// whatever filter, gets exactly what is in the list from there on, as far as
// retention left it; retention leaves what the arguments say; no offset ever
// means two messages that somebody has seen, through stops and crashes.
func TestStream_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		m := &streamModel{dir: t.TempDir(), clock: 1_700_000_000_000, at: map[uint64]streamed{}, ever: map[uint64]streamed{}, seen: map[uint64]string{}, tracked: map[string]uint64{}}
		m.draw(rt)
		m.open(rt)
		defer func() { m.e.crash() }()
		rt.Repeat(map[string]func(*rapid.T){
			"publish":  m.publish,
			"publish2": m.publish,
			"read":     m.read,
			"track":    m.track,
			"wait":     func(t *rapid.T) { m.clock += int64(rapid.IntRange(1, 3000).Draw(t, "ms")); m.step(t) },
			"flush":    m.flush,
			"stop":     m.stop,
			"crash":    m.crash,
			"":         m.check,
		})
	})
}

type streamed struct {
	body  string
	value string // "": none
	n     int64  // a header
	ms    int64
}

type streamModel struct {
	dir       string
	e         *env
	q         *Queue
	clock     int64
	arguments amqp.Table
	maxAge    int64
	maxBytes  uint64

	at        map[uint64]streamed
	ever      map[uint64]streamed // also what retention has removed
	published int
	seen      map[uint64]string // by a reader
	tracked   map[string]uint64
}

func (m *streamModel) draw(t *rapid.T) {
	b := amqp.NewTableBuilder(nil)
	b.SetString("x-queue-type", "stream")
	b.SetInt64("x-stream-max-segment-size-bytes", 4<<10)
	if rapid.Bool().Draw(t, "aging") {
		m.maxAge = 5000
		b.SetString("x-max-age", "5s")
	}
	if rapid.Bool().Draw(t, "limited") {
		m.maxBytes = 20_000
		b.SetInt64("x-max-length-bytes", int64(m.maxBytes))
	}
	m.arguments = b.Table()
}

func (m *streamModel) open(t tb) {
	posix, err := disk.OpenPosix(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	m.e, err = tryOpenAt(t, &testDisk{Disk: posix, lazy: true}, segstore.Options{}, func() int64 { return m.clock })
	if err != nil {
		t.Fatal(err)
	}
	m.q = m.e.queue(QueueDeclare{Name: "s", Durable: true, Arguments: m.arguments}, nil)
	m.e.durable(m.e.broker.pendingSeq())
}

func (m *streamModel) publish(t *rapid.T) {
	b := segstore.NewBatch(m.e.pool)
	defer b.Release()
	b.Reset(m.clock)
	var all []streamed
	for range rapid.IntRange(1, 8).Draw(t, "messages") {
		s := streamed{
			body:  fmt.Sprintf("%d-%s", m.published, string(make([]byte, rapid.IntRange(0, 900).Draw(t, "size")))),
			value: rapid.SampledFrom([]string{"", "", "a", "b", "a,b", "rare"}).Draw(t, "value"),
			n:     int64(rapid.IntRange(0, 2).Draw(t, "n")), ms: m.clock,
		}
		m.published++
		h := amqp.NewTableBuilder(nil)
		if s.value != "" {
			h.SetString(headerFilterValue, s.value)
		}
		h.SetInt64("n", s.n)
		p := amqp.Properties{Flags: amqp.FlagHeaders, Headers: h.Table()}
		b.Add(b.Template(nil, []byte("s"), p.Append(nil)), []byte(s.body))
		all = append(all, s)
	}
	end, _, err := m.q.Publish(b, m.clock)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range all {
		offset := end - uint64(len(all)) + uint64(i)
		if body, ok := m.seen[offset]; ok {
			t.Fatalf("offset %d is given again: it was %.10q", offset, body)
		}
		m.at[offset], m.ever[offset] = s, s
	}
}

// wants is the filter of a reader, and the arguments that ask for it.
type wants struct {
	name  string
	pairs func(b *amqp.TableBuilder)
	want  func(s streamed) bool
}

var streamFilters = []wants{
	{"all", func(*amqp.TableBuilder) {}, func(streamed) bool { return true }},
	{"a", func(b *amqp.TableBuilder) { b.SetString(argumentFilter, "a") }, func(s streamed) bool { return s.value == "a" || s.value == "a,b" }},
	{"rare", func(b *amqp.TableBuilder) { b.SetString(argumentFilter, "rare") }, func(s streamed) bool { return s.value == "rare" }},
	{"b or none", func(b *amqp.TableBuilder) {
		b.SetString(argumentFilter, "b")
		b.SetBool(argumentUnfiltered, true)
	}, func(s streamed) bool { return s.value == "b" || s.value == "a,b" || s.value == "" }},
	{"n=1", func(b *amqp.TableBuilder) {
		h := amqp.NewTableBuilder(nil)
		h.SetString("n", "1")
		b.SetTable(argumentFilter, h.Table())
	}, func(s streamed) bool { return s.n == 1 }},
}

// attach makes a consumer that begins at a random place and returns which
// messages it should get.
func (m *streamModel) attach(t *rapid.T, tag string) (c *Consumer, want []uint64) {
	f := rapid.SampledFrom(streamFilters).Draw(t, "filter")
	b := amqp.NewTableBuilder(nil)
	f.pairs(b)
	low, end := m.q.log.Low(), m.q.log.Next()
	from, since := end, int64(0)
	switch rapid.SampledFrom([]string{"first", "next", "number", "back", "time"}).Draw(t, "offset") {
	case "first":
		b.SetString("x-stream-offset", "first")
		from = low
	case "next":
		b.SetString("x-stream-offset", "next")
	case "number":
		n := rapid.Uint64Range(low-min(low, 5), end+5).Draw(t, "number")
		b.SetInt64("x-stream-offset", int64(n))
		from = max(n, low)
	case "back":
		n := rapid.Uint64Range(1, end-low+5).Draw(t, "back")
		b.SetInt64("x-stream-offset", -int64(n))
		from = max(low, end-min(n, end))
	case "time":
		seconds := m.clock/1000 - int64(rapid.IntRange(0, 10).Draw(t, "seconds ago"))
		b.SetValue("x-stream-offset", amqp.TimestampValue(uint64(seconds)))
		from, since = low, seconds*1000
	}
	c = &Consumer{Queue: m.q, Owner: &fakeOwner{}, Tag: tag}
	if err := m.q.AttachStream(c, b.Table()); err != nil {
		t.Fatal(err)
	}
	for offset, s := range m.at {
		if offset >= from && s.ms >= since && f.want(s) {
			want = append(want, offset)
		}
	}
	slices.Sort(want)
	return c, want
}

// readOn reads with c to the end of the stream.
func (m *streamModel) readOn(t tb, c *Consumer) (got []uint64) {
	r := m.q.log.NewReader()
	defer r.Close()
	var rec segstore.Record
	for m.q.position(c) < m.q.log.Next() {
		var run Run
		m.e.await("records may be seen", func() bool {
			run = m.q.TakeStream(c)
			return run.Count > 0 || m.q.position(c) == m.q.log.Next() // all of it has been dropped
		})
		for at, end := run.First, run.First+run.Count; at < end; {
			r.SetQuery(c.Stream.Query)
			woken := make(chan struct{}, 1)
			err := r.Seek(at, func() { woken <- struct{}{} })
			if errors.Is(err, segstore.ErrNotResident) {
				<-woken
				continue
			}
			if next, ok := missing(err); ok {
				at = next
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			for at < end && r.Next(&rec) {
				at++
				if c.Stream.Early(rec.Offset, rec.Timestamp) || !c.Stream.Wants(r.Template(rec.Template).Properties) {
					continue
				}
				if s := m.at[rec.Offset]; s.body != string(rec.Body) {
					t.Fatalf("offset %d is %.10q, want %.10q", rec.Offset, rec.Body, s.body)
				}
				m.seen[rec.Offset] = string(rec.Body)
				got = append(got, rec.Offset)
			}
		}
	}
	return got
}

func (q *Queue) position(c *Consumer) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return c.Stream.cursor
}

func (m *streamModel) read(t *rapid.T) {
	c, want := m.attach(t, "amq.ctag-x")
	defer m.q.Detach(c)
	if got := m.readOn(t, c); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v, low %d", got, want, m.q.log.Low())
	}
}

// track reads with tracking, from where it left off, and acknowledges some.
func (m *streamModel) track(t *rapid.T) {
	tag := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tag")
	from, known := m.tracked[tag]
	if !known {
		from = m.q.log.Next()
	}
	c := &Consumer{Queue: m.q, Owner: &fakeOwner{}, Tag: tag}
	if err := m.q.AttachStream(c, nil); err != nil {
		t.Fatal(err)
	}
	defer m.q.Detach(c)
	var want []uint64
	for offset := range m.at {
		if offset >= from {
			want = append(want, offset)
		}
	}
	slices.Sort(want)
	got := m.readOn(t, c)
	if !slices.Equal(got, want) {
		t.Fatalf("tracked from %d (%t): got %v, want %v", from, known, got, want)
	}
	offset := m.q.position(c)
	if len(got) > 0 && rapid.Bool().Draw(t, "some") {
		offset = rapid.SampledFrom(got).Draw(t, "oldest left")
	}
	m.q.Acknowledged(c, offset)
	m.tracked[tag] = offset
}

func (m *streamModel) step(t tb) { m.e.broker.keeper.step() }

// flush waits until everything is on disk and retention has been looked after.
func (m *streamModel) flush(t *rapid.T) {
	m.q.log.WantDurable()
	m.e.await("all is durable", func() bool { return m.q.log.Durable() == m.q.log.Next() })
	m.clock += trackDelay
	m.e.await("retention holds", func() bool { // segments grow while we look
		m.e.broker.keeper.arm(m.q, 0)
		m.step(t)
		m.trim()
		segments := m.q.log.Segments(nil)
		if len(segments) < 2 {
			return true
		}
		total := uint64(0)
		for _, s := range segments {
			total += uint64(s.Bytes)
		}
		return (m.maxBytes == 0 || total <= m.maxBytes) && (m.maxAge == 0 || segments[1].FirstMs+m.maxAge >= m.clock)
	})
}

func (m *streamModel) trim() {
	for offset := range m.at {
		if offset < m.q.log.Low() {
			delete(m.at, offset)
		}
	}
}

func (m *streamModel) check(t *rapid.T) {
	if m.maxAge == 0 && m.maxBytes == 0 && m.q.log.Low() > 0 && m.q.log.Unsettled() > 0 && len(m.at) > 0 {
		for offset := range m.at {
			if offset < m.q.log.Low() {
				t.Fatalf("offset %d is gone, low %d", offset, m.q.log.Low())
			}
		}
	}
	m.trim()
	if n := m.q.Counts().Ready; n != uint64(len(m.at)) {
		t.Fatalf("%d messages, want %d", n, len(m.at))
	}
}

func (m *streamModel) stop(t *rapid.T) {
	m.e.close()
	m.open(t)
	for tag, offset := range m.tracked {
		if got, ok := m.q.TrackedOffset(tag); !ok || got != offset {
			t.Fatalf("tag %s was at %d: %d, %t", tag, offset, got, ok)
		}
	}
}

func (m *streamModel) crash(t *rapid.T) {
	durable := m.q.log.Durable()
	m.e.crash()
	m.open(t)
	// What was not written is gone; what retention removed may be back.
	low := m.q.log.Low()
	clear(m.at)
	for offset, s := range m.ever {
		if first, n := m.q.log.NextUnsettled(offset, 1); n == 1 && first == offset {
			m.at[offset] = s
		} else if offset >= low {
			if offset < durable {
				t.Fatalf("offset %d was durable", offset)
			}
			delete(m.ever, offset)
		}
	}
	clear(m.tracked) // may be those of a moment ago
	for _, tag := range []string{"x", "y"} {
		if offset, ok := m.q.TrackedOffset(tag); ok {
			m.tracked[tag] = offset
		}
	}
}
