package segstore

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"pgregory.net/rapid"
)

func TestBatch_RoundTripsThroughALog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := openTest(t, testOptions{})
		defer s.close()
		l := s.log(1, false)
		b := NewBatch(s.arena)
		defer b.Release()
		type rec struct {
			tm   Template
			body []byte
			ts   int64
		}
		var want []rec
		small := rapid.SliceOfN(rapid.Byte(), 0, 3)
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			ts := rapid.Int64Range(0, 1<<45).Draw(t, "ts")
			b.Reset(ts)
			for range rapid.IntRange(0, 200).Draw(t, "records") {
				tm := Template{small.Draw(t, "x"), small.Draw(t, "k"), small.Draw(t, "p")}
				if rapid.IntRange(0, 20).Draw(t, "later") == 0 {
					delta := rapid.Int64Range(0, 1<<40).Draw(t, "delta")
					b.SetTime(ts + delta)
					b.delta = uint64(delta)
				}
				n := b.Template(tm.Exchange, tm.RoutingKey, tm.Properties)
				size := rapid.OneOf(rapid.IntRange(0, 20), rapid.IntRange(100, 300), rapid.IntRange(0, 5000)).Draw(t, "size")
				body := bytes.Repeat([]byte{byte(size)}, size)
				if rapid.Bool().Draw(t, "pieces") {
					b.Begin(n, size)
					if rapid.IntRange(0, 9).Draw(t, "abort") == 0 {
						b.Write(body[:size/2])
						b.Abort()
						continue
					}
					cut := rapid.IntRange(0, size).Draw(t, "cut")
					b.Write(body[:cut])
					b.Write(body[cut:])
					b.End()
				} else {
					b.Add(n, body)
				}
				want = append(want, rec{tm, body, ts + int64(b.delta)})
			}
			if _, err := l.Append(b); err != nil {
				t.Fatal(err)
			}
		}
		if l.Next() != uint64(len(want)) {
			t.Fatalf("next %d, want %d", l.Next(), len(want))
		}
		r := l.NewReader()
		defer r.Close()
		var got Record
		for i := 0; i < len(want); {
			if err := r.Seek(uint64(i), nil); err != nil {
				t.Fatalf("seek %d: %v", i, err)
			}
			for r.Next(&got) {
				w := want[i]
				tm := r.Template(got.Template)
				if got.Offset != uint64(i) || got.Timestamp != w.ts || !bytes.Equal(got.Body, w.body) ||
					!bytes.Equal(tm.Exchange, w.tm.Exchange) || !bytes.Equal(tm.RoutingKey, w.tm.RoutingKey) || !bytes.Equal(tm.Properties, w.tm.Properties) {
					t.Fatalf("record %d: got %+v %v, want %+v", i, got, tm, w)
				}
				i++
			}
		}
	})
}

func TestBatch_TemplatesAreFoundAgain(t *testing.T) {
	var pool arena.Pool
	b := NewBatch(&pool)
	for round := range 3 {
		b.Reset(int64(round))
		for n := range 1000 {
			key := []byte(fmt.Sprint("key", n))
			if got := b.Template(nil, key, nil); got != n {
				t.Fatalf("round %d: template %d, want %d", round, got, n)
			}
			if got := b.Template(nil, []byte("key0"), nil); got != 0 {
				t.Fatalf("round %d: key0 is template %d", round, got)
			}
		}
		b.Reset(0)
		// One template again, then a second: nothing stale may be found.
		for n, key := range []string{"key7", "key3", "key7"} {
			if got := b.Template(nil, []byte(key), nil); got != n%2 {
				t.Fatalf("template of %s: %d", key, got)
			}
		}
		// The same when the first came encoded.
		b.Reset(0)
		if got := b.FirstTemplate(AppendTemplate(nil, []byte("exchange"), []byte("key7"), []byte("p"))); got != 0 {
			t.Fatalf("the first template is %d", got)
		}
		if got := b.TemplateAt(0); string(got.Exchange) != "exchange" || string(got.RoutingKey) != "key7" || string(got.Properties) != "p" {
			t.Fatalf("the first template is %q", got)
		}
		for n, exchange := range []string{"", "exchange"} {
			if got := b.Template([]byte(exchange), []byte("key7"), []byte("p")); got != 1-n {
				t.Fatalf("template %d is taken for %d", 1-n, got)
			}
		}
	}
	b.Release()
	if got := pool.Stats().InUse; got != 0 {
		t.Errorf("%d bytes in use after Release", got)
	}
}

func TestBatch_RefusesTemplatesBeyondItsLimit(t *testing.T) {
	var pool arena.Pool
	b := NewBatch(&pool)
	defer b.Release()
	b.Reset(0)
	long := make([]byte, 2*templateBytesMax)
	if b.Template(nil, nil, long) != 0 {
		t.Fatal("the first template was refused for its length")
	}
	if b.Template(nil, nil, []byte{1}) != -1 {
		t.Fatal("a template beyond the limit was accepted")
	}
	if b.Template(nil, nil, long) != 0 {
		t.Fatal("the template used last was not found")
	}
	b.Reset(0)
	if b.Template(nil, nil, []byte{1}) != 0 {
		t.Fatal("the batch is not usable after Reset")
	}
}

func TestBatch_MisusePanics(t *testing.T) {
	var pool arena.Pool
	for name, f := range map[string]func(b *Batch){
		"end early":       func(b *Batch) { b.Begin(0, 2); b.Write([]byte{1}); b.End() },
		"write too much":  func(b *Batch) { b.Begin(0, 2); b.Write([]byte{1, 2, 3}) },
		"write outside":   func(b *Batch) { b.Write([]byte{1}) },
		"nested begin":    func(b *Batch) { b.Begin(0, 2); b.Begin(0, 2) },
		"encode inside":   func(b *Batch) { b.Add(0, nil); b.Begin(0, 2); b.encode(make([]byte, 200)) },
		"body over limit": func(b *Batch) { b.Begin(0, BodyBytesMax+1) },
	} {
		func() {
			b := NewBatch(&pool)
			defer b.Release()
			b.Reset(0)
			b.Template(nil, nil, nil)
			defer func() {
				if recover() == nil {
					t.Errorf("%s did not panic", name)
				}
			}()
			f(b)
		}()
	}
}

func TestBatch_AddAllocatesNothing(t *testing.T) {
	var pool arena.Pool
	b := NewBatch(&pool)
	b.Reset(1)
	body := make([]byte, 16)
	key := []byte("q")
	round := func() {
		b.Reset(1)
		for b.Size() < BatchBytesTarget {
			b.Add(b.Template(nil, key, nil), body)
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations for a batch", n)
	}
}

func BenchmarkBatch_Add16(b *testing.B) {
	var pool arena.Pool
	batch := NewBatch(&pool)
	batch.Reset(1)
	body, key := make([]byte, 16), []byte("queue")
	b.ReportAllocs()
	for b.Loop() {
		if batch.Size() >= BatchBytesTarget {
			batch.Reset(1)
		}
		batch.Add(batch.Template(nil, key, nil), body)
	}
}
