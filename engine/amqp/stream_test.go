package amqp

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

type nobody struct{}

func (nobody) Wake()      {}
func (nobody) Cancelled() {}

// TestStream_DeliveringAllocatesNothing: from the log's bytes to the output
// buffer and back by acknowledgements, with and without a filter, whatever the
// messages' properties.
func TestStream_DeliveringAllocatesNothing(t *testing.T) {
	posix, err := disk.OpenPosix(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	pool := new(arena.Pool)
	store, err := segstore.Open(segstore.Options{Disk: posix, Arena: pool, OnCommit: func() {}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := broker.Open(broker.Options{Store: store, Disk: posix, Logger: slog.New(slog.DiscardHandler), CleanStop: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { b.Close(); _ = store.Close(); _ = posix.Close() }()
	var arguments amqp.TableBuilder
	arguments.SetString("x-queue-type", "stream")
	q, _, _, err := b.VHost("/").DeclareQueue(broker.QueueDeclare{Name: "s", Durable: true, Arguments: arguments.Table()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	batch := store.NewBatch()
	defer batch.Release()
	batch.Reset(1000)
	for i := range 400 {
		var headers amqp.TableBuilder
		headers.SetString("x-stream-filter-value", fmt.Sprint(i%4))
		headers.SetInt64("n", int64(i%100))
		p := amqp.Properties{Flags: amqp.FlagHeaders | amqp.FlagContentType, ContentType: []byte("text"), Headers: headers.Table()}
		batch.Add(batch.Template(nil, []byte("s"), p.Append(nil)), []byte("sixteen bytes!!!"))
	}
	if _, _, err := q.Publish(batch, 1000); err != nil {
		t.Fatal(err)
	}
	for _, filter := range []string{"", "3"} {
		arguments := amqp.TableBuilder{}
		arguments.SetString("x-stream-offset", "first")
		want := 400
		if filter != "" {
			arguments.SetString("x-stream-filter", filter)
			want = 100
		}
		ch := &channel{conn: &conn{shard: &shard{loop: &loop.Loop{}}, frameMax: 128 * 1024}, id: 1, prefetch: 1000}
		ch.conn.out = pool.Get(outBytesMax)
		cs := &consumer{ch: ch, from: q, prefetch: 1000, stream: &streamDelivery{}, number: -1}
		cs.Consumer = broker.Consumer{Queue: q, Owner: nobody{}, Tag: "tag"}
		if err := q.AttachStream(&cs.Consumer, arguments.Table()); err != nil {
			t.Fatal(err)
		}
		window := q.TakeStream(&cs.Consumer)
		sent := 0
		turn := func() {
			cs.run = window
			before := ch.deliveryTag
			for cs.run.Count > 0 {
				if !cs.place() {
					continue
				}
				ch.conn.outLen = 0
				cs.encodeStreamBatch(cs.credit())
			}
			sent = int(ch.deliveryTag - before)
			ch.unacked.take(0, true, func(r unackedRun) { cs.unacked -= r.count })
		}
		if n := testing.AllocsPerRun(100, turn); n != 0 {
			t.Errorf("filter %q: %v allocations for %d deliveries", filter, n, sent)
		}
		if sent != want || cs.unacked != 0 {
			t.Errorf("filter %q: %d of %d sent, %d unacked", filter, sent, want, cs.unacked)
		}
		q.Detach(&cs.Consumer)
		cs.reader.Close()
		ch.conn.out.Release()
	}
}

// FuzzOffsetHeader: valid properties stay what they are, but for one header more;
// anything else does no harm.
func FuzzOffsetHeader(f *testing.F) {
	var headers amqp.TableBuilder
	headers.SetInt64("x-stream-offset", 5)
	headers.SetString("a", "b")
	all := amqp.Properties{
		Flags:       amqp.FlagHeaders | amqp.FlagContentType | amqp.FlagContentEncoding | amqp.FlagMessageID | amqp.FlagTimestamp,
		ContentType: []byte("t"), ContentEncoding: []byte("e"), MessageID: []byte("id"), Timestamp: 9, Headers: headers.Table(),
	}
	f.Add([]byte{}, uint64(1))
	f.Add([]byte{0, 0}, uint64(1<<40))
	f.Add(all.Append(nil), uint64(77))
	f.Add((&amqp.Properties{Flags: amqp.FlagHeaders, Headers: amqp.Table("\x01aV\x01at\x01\x01aV")}).Append(nil), uint64(1))
	f.Fuzz(func(t *testing.T, raw []byte, offset uint64) {
		out, hole := appendOffsetHeader([]byte("before")[:0], raw)
		copy(out[hole:], []byte{byte(offset >> 56), byte(offset >> 48), byte(offset >> 40), byte(offset >> 32), byte(offset >> 24), byte(offset >> 16), byte(offset >> 8), byte(offset)})
		was, err := amqp.DecodeProperties(raw)
		if err != nil {
			if len(raw) >= 2 {
				return
			}
			was = amqp.Properties{}
		}
		is, err := amqp.DecodeProperties(out)
		if err != nil {
			t.Fatalf("%x became %x: %v", raw, out, err)
		}
		if v, ok := is.Headers.Lookup(headerOffset); !ok {
			t.Fatal("no offset")
		} else if n, _ := v.Int64(); uint64(n) != offset {
			t.Fatalf("offset %d, want %d", n, offset)
		}
		// All others are there as they were, in their order: a name may be there twice.
		others := func(t amqp.Table) (fields []byte, offsets int) {
			for name, value := range t.All() {
				if string(name) == headerOffset {
					offsets++
				} else {
					fields = value.Append(append(append(fields, byte(len(name))), name...))
				}
			}
			return fields, offsets
		}
		before, _ := others(was.Headers)
		if after, offsets := others(is.Headers); offsets != 1 || !bytes.Equal(before, after) {
			t.Fatalf("%d offsets; the other headers %x became %x", offsets, before, after)
		}
		if !bytes.Equal(is.ContentType, was.ContentType) || !bytes.Equal(is.ContentEncoding, was.ContentEncoding) || !bytes.Equal(is.MessageID, was.MessageID) ||
			is.Flags != was.Flags|amqp.FlagHeaders || is.Timestamp != was.Timestamp || !bytes.Equal(is.AppID, was.AppID) {
			t.Fatalf("%+v became %+v", was, is)
		}
	})
}
