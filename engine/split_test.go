package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// splitSession is a session with contents of all shapes: none, small (runs of
// them for the fast path), several frames, on two channels with interleaved
// frames. It ends with a request on channel 2, so that its end can be seen.
func splitSession(queue string) (raw []byte, want []string) {
	add := func(channel uint16, body string) {
		raw = amqptest.AppendPublish(raw, channel, amqptest.Message{Key: queue, Body: body})
		want = append(want, body)
	}
	for i := range 3 {
		add(1, fmt.Sprint("run ", i))
	}
	add(1, "")
	add(1, "")
	add(1, strings.Repeat("big", 3000)) // 9000 bytes: three frames of 4096
	add(1, "x")
	add(2, "y")
	// Two contents interleaved frame by frame.
	one, two := splitFrames(amqptest.AppendPublish(nil, 1, amqptest.Message{Key: queue, Body: strings.Repeat("1", 5000)})),
		splitFrames(amqptest.AppendPublish(nil, 2, amqptest.Message{Key: queue, Body: strings.Repeat("2", 5000)}))
	for i := range one {
		raw = append(append(raw, one[i]...), two[i]...)
	}
	want = append(want, strings.Repeat("1", 5000), strings.Repeat("2", 5000))
	raw = append(raw, amqp.HeartbeatFrame...)
	for i := range 3 {
		add(2, fmt.Sprint("run ", i))
	}
	return amqp.AppendMethodFrame(raw, 2, &amqp.QueueDeclare{Queue: []byte(queue), Passive: true}), want
}

// splitFrames cuts whole frames apart.
func splitFrames(raw []byte) (frames [][]byte) {
	for len(raw) > 0 {
		_, n, err := amqp.ParseFrame(raw, 0)
		if err != nil || n == 0 {
			panic("not whole frames")
		}
		frames, raw = append(frames, raw[:n]), raw[n:]
	}
	return frames
}

// playSplit sends the session in pieces that end at cuts and checks what comes
// out of the queue.
func playSplit(t rapid.TB, c *amqptest.Client, queue string, cuts []int) {
	raw, want := splitSession(queue)
	from := 0
	for _, cut := range append(cuts, len(raw)) {
		if err := c.Send(raw[from:cut]); err != nil {
			t.Fatal(err)
		}
		from = cut
	}
	line := c.Read().String()
	if wantLine := fmt.Sprintf("2 queue.declare-ok Queue=%s MessageCount=%d ConsumerCount=0", queue, len(want)); line != wantLine {
		t.Fatalf("got %s, want %s (cuts %v)", line, wantLine, cuts)
	}
	for i := range want {
		if got := c.Get(1, queue, amqptest.NoAck); string(got.Body) != want[i] {
			t.Fatalf("message %d is %.40q, want %.40q (cuts %v)", i, got.Body, want[i], cuts)
		}
	}
}

func splitClient(t testing.TB) *amqptest.Client {
	c := amqptest.OpenClient(t, start(t).Addr(), amqptest.Options{FrameMax: 4096})
	c.OpenChannel(2)
	c.Declare("q", 0)
	return c
}

// TestSplit_EveryBoundary cuts the session in two at every byte.
func TestSplit_EveryBoundary(t *testing.T) {
	t.Parallel()
	raw, _ := splitSession("q")
	step := 1
	if testing.Short() {
		step = 7
	}
	c := splitClient(t)
	for cut := 1; cut < len(raw); cut += step {
		if cut > 500 && cut < len(raw)-1500 && cut%97 != 0 {
			continue // inside of large bodies
		}
		playSplit(t, c, "q", []int{cut})
	}
}

// TestSplit_ByteByByte sends one byte at a time, handshake included.
func TestSplit_ByteByByte(t *testing.T) {
	t.Parallel()
	e := start(t)
	c := amqptest.NewClient(t, e.Addr())
	session, want := splitSession("q")
	whole := amqptest.Handshake(amqptest.Options{FrameMax: 4096})
	for channel := range uint16(2) {
		whole = amqp.AppendMethodFrame(whole, channel+1, &amqp.ChannelOpen{})
	}
	whole = amqp.AppendMethodFrame(whole, 1, &amqp.QueueDeclare{Queue: []byte("q")})
	whole = append(whole, session...)
	for i := range whole {
		c.Write(whole[i : i+1])
	}
	c.Want(startLine, tuneLine, openOkLine, "1 channel.open-ok", "2 channel.open-ok", "1 queue.declare-ok *",
		fmt.Sprintf("2 queue.declare-ok Queue=q MessageCount=%d ConsumerCount=0", len(want)))
	for i := range want {
		if got := c.Get(1, "q", amqptest.NoAck); string(got.Body) != want[i] {
			t.Fatalf("message %d is %.40q, want %.40q", i, got.Body, want[i])
		}
	}
}

// TestSplit_Random: the deliveries are the same whatever the split.
func TestSplit_Random(t *testing.T) {
	t.Parallel()
	raw, _ := splitSession("q")
	c := splitClient(t)
	rapid.Check(t, func(t *rapid.T) {
		cuts := rapid.SliceOfN(rapid.IntRange(1, len(raw)-1), 0, 30).Draw(t, "cuts")
		slices.Sort(cuts)
		playSplit(t, c, "q", cuts)
	})
}
