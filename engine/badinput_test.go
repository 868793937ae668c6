package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// sessionCount is the number of mutated sessions: 100,000, fewer with -short,
// or what BASALTMQ_BAD_SESSIONS says.
func sessionCount(t *testing.T) int {
	if s := os.Getenv("BASALTMQ_BAD_SESSIONS"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if testing.Short() {
		return 5000
	}
	return 100_000
}

// TestBadInput_SessionsAreValid: what gets mutated is accepted as it is.
func TestBadInput_SessionsAreValid(t *testing.T) {
	e := start(t)
	keepDurable(t, e)
	for _, s := range recordedSessions() {
		t.Run(s.name, func(t *testing.T) {
			c := amqptest.NewClient(t, e.Addr())
			c.Write(s.bytes())
			_ = c.Socket.CloseWrite()
			for {
				event, err := c.Next()
				if errors.Is(err, io.EOF) {
					return
				}
				if _, ok := event.Method.(*amqp.ConnectionClose); ok || err != nil {
					t.Fatalf("%s, %v", event, err)
				}
			}
		})
	}
}

// TestBadInput_MutatedSessions throws damaged sessions at a broker while a
// healthy client publishes and consumes. Each is answered by the protocol, at
// most by a connection.close with a known code; none hangs, nothing leaks, and
// the healthy client loses nothing.
func TestBadInput_MutatedSessions(t *testing.T) {
	e := start(t)
	keepDurable(t, e)
	healthy := startHealthy(t, e)
	goroutines := runtime.NumGoroutine()
	all := recordedSessions()
	const workers, batch = 8, 50
	count := sessionCount(t)
	var next atomic.Int64
	var codes [1000]atomic.Int64
	var wait sync.WaitGroup
	began := time.Now()
	for range workers {
		wait.Go(func() {
			for !t.Failed() {
				first := next.Add(batch) - batch
				if first >= int64(count) {
					return
				}
				for number := first; number < first+batch; number++ {
					random := rand.New(rand.NewPCG(seed(), uint64(number)))
					name, raw := mutate(random, all)
					closed, err := playRaw(e.Addr(), raw, random)
					if err != nil {
						t.Errorf("session %d of seed %d (%s, %d bytes): %v\n%q", number, seed(), name, len(raw), err, raw)
						return
					}
					codes[closed].Add(1)
				}
			}
		})
	}
	wait.Wait()
	messages := healthy.finish()
	for code := range codes {
		if n := codes[code].Load(); n > 0 {
			t.Logf("%7d sessions ended with %d", n, code)
		}
	}
	t.Logf("%d sessions in %v; %d messages of the healthy client went through", count, time.Since(began).Round(time.Millisecond), messages)
	if messages == 0 {
		t.Error("the healthy client did nothing")
	}

	// What damaged declares have left behind goes; then all memory is back.
	eventually(t, "all sessions have ended", func() bool { return e.Connections() == 0 })
	c := open(t, e)
	for _, q := range e.Broker().VHost("/").Queues() {
		if q.Exclusive() {
			continue // goes with its connection
		}
		amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: []byte(q.Name)})
	}
	eventually(t, "all queues are gone", func() bool { return len(e.Broker().VHost("/").Queues()) == 0 })
	memoryBelow(t, e, 1<<20)
	eventually(t, "no goroutine is left over", func() bool { return runtime.NumGoroutine() <= goroutines })
}

// seed makes the mutations of a run; BASALTMQ_BAD_SEED repeats one or tries
// another.
func seed() uint64 {
	n, err := strconv.ParseUint(os.Getenv("BASALTMQ_BAD_SEED"), 10, 64)
	if err != nil {
		return 2026
	}
	return n
}

// keepDurable declares the one durable queue that sessions publish to.
func keepDurable(t *testing.T, e *engine.Engine) {
	c := open(t, e)
	c.Declare("bad-durable", amqptest.Durable)
	amqptest.Ask[*amqp.ConnectionCloseOk](c, 0, &amqp.ConnectionClose{})
	c.WantClosed()
}

// How a damaged session ends; see playRaw.
type ending uint8

const (
	endDying  ending = iota // the client resets without reading
	endOfFile               // the client ends its direction, the broker must end the other
	endAnswer               // the client asks to close
)

// quiet is how long a client waits for an answer that need not come, because
// the request to close was swallowed by a damaged frame before it. A broker
// that is slow to answer only makes the session end earlier.
const quiet = 20 * time.Millisecond

// playRaw sends raw, in up to three pieces, and reads the answers until
// connection.close, close-ok, or the end of the socket. One time in ten it dies
// instead of reading, and one time in ten it waits for the broker to close. It
// returns the code of a connection.close, 0 when there was none.
//
// Most sockets are reset in the end, so that few are left in TIME_WAIT.
func playRaw(addr netip.AddrPort, raw []byte, random *rand.Rand) (closed uint16, err error) {
	c, err := amqptest.Dial(addr)
	if err != nil {
		return 0, err
	}
	defer c.Abort()
	end := []ending{endDying, endOfFile, endAnswer}[min(random.IntN(10), 2)]
	deadline := time.Now().Add(amqptest.Patience)
	if end == endAnswer {
		raw = amqp.AppendMethodFrame(raw[:len(raw):len(raw)], 0, &amqp.ConnectionClose{ReplyCode: 200})
		deadline = time.Now().Add(quiet)
	}
	for cuts := random.IntN(3); cuts > 0 && len(raw) > 1; cuts-- {
		n := 1 + random.IntN(len(raw)-1)
		if c.Send(raw[:n]) != nil {
			break
		}
		raw = raw[n:]
	}
	if err := c.Send(raw); err != nil && ended(err) != nil {
		return 0, err
	}
	switch end {
	case endDying:
		return 0, nil
	case endOfFile:
		_ = c.Socket.CloseWrite()
	}
	if head, err := c.RawBefore(8, deadline); bytes.Equal(head, amqp.ProtocolHeader) {
		if event, err := c.Next(); err == nil {
			return 0, fmt.Errorf("%s behind a protocol header", event)
		}
		return 0, nil
	} else if err == nil {
		c.Unread(head)
	} else if len(head) > 0 || end == endAnswer && errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, nil
	} else {
		return 0, ended(err)
	}
	for {
		event, err := c.NextBefore(deadline)
		if end == endAnswer && errors.Is(err, os.ErrDeadlineExceeded) {
			return closed, nil
		}
		if err != nil {
			return closed, ended(err)
		}
		switch m := event.Method.(type) {
		case *amqp.ConnectionClose:
			if closed != 0 || amqp.CodeName(m.ReplyCode) == "UNKNOWN" {
				return 0, fmt.Errorf("unexpected %s", event)
			}
			closed = m.ReplyCode
			if end == endAnswer {
				_ = c.SendMethod(0, &amqp.ConnectionCloseOk{})
				return closed, nil
			}
		case *amqp.ConnectionCloseOk:
			if end == endAnswer {
				return closed, nil
			}
		default:
			if closed != 0 {
				return closed, fmt.Errorf("%s after connection.close", event)
			}
		}
	}
}

// ended passes on what is not just a closed socket.
func ended(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// healthyClient publishes numbered messages and consumes them.
type healthyClient struct {
	t    *testing.T
	conn *amqptest.Conn
	stop atomic.Bool
	done chan uint64
}

func startHealthy(t *testing.T, e *engine.Engine) *healthyClient {
	conn, err := amqptest.Open(e.Addr(), amqptest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h := &healthyClient{t: t, conn: conn, done: make(chan uint64)}
	go func() {
		defer close(h.done)
		defer conn.Abort()
		n, err := h.run()
		if err != nil {
			t.Errorf("healthy client, after %d messages: %v", n, err)
		}
		h.done <- n
	}()
	return h
}

// finish stops the client once all its messages are back.
func (h *healthyClient) finish() uint64 {
	h.stop.Store(true)
	return <-h.done
}

func (h *healthyClient) run() (uint64, error) {
	event, err := h.conn.Call(1, &amqp.QueueDeclare{Exclusive: true}, amqp.QueueDeclareOkID)
	if err != nil {
		return 0, err
	}
	queue := string(event.Method.(*amqp.QueueDeclareOk).Queue)
	if _, err = h.conn.Call(1, &amqp.ConfirmSelect{}, amqp.ConfirmSelectOkID); err == nil {
		_, err = h.conn.Call(1, &amqp.BasicConsume{}, amqp.BasicConsumeOkID)
	}
	if err != nil {
		return 0, err
	}
	var published, confirmed, consumed uint64
	for {
		if published == consumed && published == confirmed {
			if h.stop.Load() {
				return consumed, nil
			}
			var raw []byte
			for range 10 {
				published++
				raw = amqptest.AppendPublish(raw, 1, amqptest.Message{Key: queue, Body: strconv.FormatUint(published, 10)})
			}
			if err := h.conn.Send(raw); err != nil {
				return consumed, err
			}
		}
		event, err := h.conn.Next()
		if err != nil {
			return consumed, err
		}
		switch m := event.Method.(type) {
		case *amqp.BasicAck:
			confirmed = m.DeliveryTag
		case *amqp.BasicDeliver:
			consumed++
			if string(event.Body) != strconv.FormatUint(consumed, 10) || m.Redelivered || m.DeliveryTag != consumed {
				return consumed, fmt.Errorf("message %d is %s", consumed, event)
			}
			if err := h.conn.SendMethod(1, &amqp.BasicAck{DeliveryTag: m.DeliveryTag}); err != nil {
				return consumed, err
			}
		case nil:
		default:
			return consumed, fmt.Errorf("got %s", event)
		}
	}
}
