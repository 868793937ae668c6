package engine_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// memoryMax is what the broker's pool may have in use, whatever the number and
// size of the messages.
const memoryMax = 32 << 20

// largeMiB is the size of the messages of the memory test in MiB: 8, less with
// -short, or what BASALTMQ_LARGE_MIB says (128 is the real thing, 13 GB on disk).
func largeMiB(t *testing.T) int {
	if s := os.Getenv("BASALTMQ_LARGE_MIB"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() {
		return 2
	}
	return 8
}

// TestLarge_Memory: 100 channels of four connections send large messages frame
// by frame in turn, while consumers that do not read are being sent such; then
// one that reads gets them all. The broker's memory stays bounded.
func TestLarge_Memory(t *testing.T) {
	dir := t.TempDir()
	e := startIn(t, dir)
	const connections, channels, sleepers = 4, 25, 6
	size := largeMiB(t) << 20
	chunk := randomBody(131064)
	admin := open(t, e)
	admin.Declare("q", amqptest.Durable)
	admin.Declare("sleepy", 0)
	for range sleepers {
		admin.Write(amqp.AppendMethodFrame(nil, 1, &amqp.BasicPublish{RoutingKey: []byte("sleepy")}))
		admin.Write(amqp.AppendHeaderFrame(nil, 1, uint64(size), []byte{0, 0}))
		sendChunks(t, admin, 1, chunk, size)
	}
	admin.Sync(1)
	for range sleepers {
		c := open(t, e)
		amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 1})
		c.Method(1, c.Consume("sleepy", "t", 0))
	}

	var most atomic.Int64
	stop, watched := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		for {
			most.Store(max(most.Load(), e.Pool().Stats().InUse))
			select {
			case <-stop:
				return
			default:
				runtime.Gosched()
			}
		}
	}()
	var wait sync.WaitGroup
	for number := range connections {
		c := open(t, e)
		for channel := range uint16(channels - 1) {
			c.OpenChannel(channel + 2)
		}
		wait.Go(func() {
			var head []byte
			for channel := range uint16(channels) {
				m := &amqp.BasicPublish{RoutingKey: []byte("q")}
				head = amqp.AppendMethodFrame(head, channel+1, m)
				head = amqp.AppendHeaderFrame(head, channel+1, uint64(size), []byte{0, 0})
			}
			err := c.Send(head)
			for sent := 0; sent < size && err == nil; sent += len(chunk) {
				for channel := range uint16(channels) {
					part := chunk[:min(len(chunk), size-sent)]
					if err = c.Send(amqptest.AppendFrame(nil, amqp.FrameBody, channel+1, part)); err != nil {
						break
					}
				}
			}
			if err != nil {
				t.Errorf("connection %d: %v", number, err)
			}
		})
	}
	wait.Wait()
	count := func() uint32 {
		return amqptest.Ask[*amqp.QueueDeclareOk](admin, 1, admin.QueueDeclare("q", amqptest.Passive, nil)).MessageCount
	}
	eventually(t, "all messages are there", func() bool { return count() == connections*channels })
	runtime.GC()
	var heap runtime.MemStats
	runtime.ReadMemStats(&heap)
	t.Logf("after publishing %d MiB: at most %d KiB of the pool in use, heap %d KiB", size>>20*connections*channels, most.Load()>>10, heap.HeapAlloc>>10)
	if heap.HeapAlloc > memoryMax { // the clients' buffers included
		t.Errorf("%d bytes of heap", heap.HeapAlloc)
	}

	c := open(t, e)
	amqptest.Ask[*amqp.BasicQosOk](c, 1, &amqp.BasicQos{PrefetchCount: 4})
	c.Subscribe(1, "q", "t", 0)
	for n := range connections * channels {
		skipContent(t, c, chunk, size)
		c.Ack(1, uint64(n+1), 0)
	}
	close(stop)
	<-watched
	wantFiles(t, dir, 0, sleepers)
	t.Logf("after consuming: at most %d KiB of the pool in use", most.Load()>>10)
	if most.Load() > memoryMax {
		t.Errorf("%d bytes of the pool in use", most.Load())
	}
}

// TestLarge_ManyMiddling: bodies too small for files of their own become files
// all the same when too many are incomplete at once; what had arrived of them
// before moves along.
func TestLarge_ManyMiddling(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := start(t, func(c *engine.Config) { c.DataDir, c.Loops = dir, 1 })
	const channels, size = 500, 200_000
	c := open(t, e)
	c.Declare("q", 0)
	bodies := make([][]byte, channels)
	for n := range bodies {
		bodies[n] = randomBody(size + n)
		if n > 0 {
			c.OpenChannel(uint16(n + 1))
		}
	}
	cuts := []int{0, 10_000, 90_000, 190_000, 0}
	for step := range len(cuts) - 1 {
		for n, body := range bodies {
			var raw []byte
			channel := uint16(n + 1)
			from, to := cuts[step], cuts[step+1]
			if to == 0 {
				to = len(body)
			}
			if step == 0 {
				raw = amqp.AppendMethodFrame(raw, channel, &amqp.BasicPublish{RoutingKey: []byte("q")})
				raw = amqp.AppendHeaderFrame(raw, channel, uint64(len(body)), []byte{0, 0})
			}
			c.Write(amqptest.AppendFrame(raw, amqp.FrameBody, channel, body[from:to]))
		}
		if step == 2 {
			eventually(t, "some are in files", func() bool { n, _, _ := bodyFiles(t, dir); return n > channels/2 })
			if n := e.Pool().Stats().InUse; n > memoryMax+memoryMax/2 {
				t.Fatalf("%d bytes of the pool in use", n)
			}
		}
	}
	c.Sync(1)
	for n, body := range bodies {
		if got := c.Get(1, "q", amqptest.NoAck); !bytes.Equal(got.Body, body) {
			t.Fatalf("message %d: %d bytes", n, len(got.Body))
		}
	}
	wantFiles(t, dir, 0, 0)
	memoryBelow(t, e, 1<<20)
}

// sendChunks sends a body of size bytes that repeats chunk.
func sendChunks(t *testing.T, c *amqptest.Client, channel uint16, chunk []byte, size int) {
	t.Helper()
	for sent := 0; sent < size; sent += len(chunk) {
		c.Write(amqptest.AppendFrame(nil, amqp.FrameBody, channel, chunk[:min(len(chunk), size-sent)]))
	}
}

// skipContent reads a delivery whose body repeats chunk, without keeping it.
func skipContent(t *testing.T, c *amqptest.Client, chunk []byte, size int) {
	t.Helper()
	for got, frames := 0, 0; got < size || frames < 2; frames++ {
		head, err := c.Raw(7)
		if err != nil {
			t.Fatal(err)
		}
		kind, n := head[0], int(binary.BigEndian.Uint32(head[3:]))
		payload, err := c.Raw(n + 1)
		if err != nil {
			t.Fatal(err)
		}
		if kind != amqp.FrameBody {
			continue
		}
		for rest := payload[:n]; len(rest) > 0; {
			want := chunk[got%len(chunk):]
			want = want[:min(len(want), len(rest))]
			if !bytes.Equal(rest[:len(want)], want) {
				t.Fatalf("the body differs at %d", got)
			}
			got, rest = got+len(want), rest[len(want):]
		}
	}
}

// TestLarge_128MiB: the largest message comes through; one byte more is refused
// (406) on its channel.
func TestLarge_128MiB(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 128 MiB")
	}
	dir := t.TempDir()
	e := startIn(t, dir)
	c := open(t, e)
	c.Declare("q", amqptest.Durable)
	chunk := randomBody(131064)
	const size = 128 << 20
	head := func(size uint64) []byte {
		raw := amqp.AppendMethodFrame(nil, 1, &amqp.BasicPublish{RoutingKey: []byte("q")})
		return amqp.AppendHeaderFrame(raw, 1, size, []byte{0x10, 0, 2})
	}
	c.Write(head(size + 1))
	c.Want(fmt.Sprintf("1 channel.close 406 (60,40) PRECONDITION_FAILED - message size %d is larger than configured max size %d", size+1, size))
	c.Method(1, closeOk)
	c.OpenChannel(1)
	confirmSelect(c)
	c.Write(head(size))
	sendChunks(t, c, 1, chunk, size)
	amqptest.Expect[*amqp.BasicAck](c)
	c.Subscribe(1, "q", "t", amqptest.NoAck)
	skipContent(t, c, chunk, size)
	wantFiles(t, dir, 0, 0)
	memoryBelow(t, e, 1<<20)
}
