package crash

import (
	"errors"
	"fmt"
	"os"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// client is a connection with channel 1 open.
type client struct{ *amqptest.Conn }

// marker is a consumer tag that nobody has: cancelling it changes nothing and
// is answered, after everything sent before was worked off.
const marker = "crash-marker"

var errStopped = errors.New("stopped")

// connect opens a connection that the cut will close.
func (s *Session) connect() (*client, error) {
	conn, err := amqptest.Open(s.process.Addr, amqptest.Options{FrameMax: frameMax})
	if err != nil {
		return nil, err
	}
	return &client{conn}, nil
}

func (c *client) sendMarker() error {
	return c.SendMethod(1, &amqp.BasicCancel{ConsumerTag: []byte(marker)})
}

func isMarker(event amqptest.Event) bool {
	m, ok := event.Method.(*amqp.BasicCancelOk)
	return ok && string(m.ConsumerTag) == marker
}

// sync returns when the broker has worked off what was sent.
func (c *client) sync() error {
	if err := c.sendMarker(); err != nil {
		return err
	}
	_, err := c.Expect(amqp.BasicCancelOkID)
	return err
}

func (c *client) messageCount(queue string) (uint32, error) {
	event, err := c.Call(1, &amqp.QueueDeclare{Queue: []byte(queue), Passive: true}, amqp.QueueDeclareOkID)
	if err != nil {
		return 0, fmt.Errorf("durable queue %s: %w", queue, err)
	}
	return event.Method.(*amqp.QueueDeclareOk).MessageCount, nil
}

// exists runs a passive declare: false when the answer is 404, which closes
// the channel; it is opened again.
func (c *client) exists(m amqp.Method, okID uint32) (bool, error) {
	if err := c.SendMethod(1, m); err != nil {
		return false, err
	}
	event, err := c.Next()
	if err != nil {
		return false, err
	}
	switch answer := event.Method.(type) {
	case *amqp.ChannelClose:
		if answer.ReplyCode != amqp.CodeNotFound {
			return false, fmt.Errorf("got %q", event)
		}
		if err := c.SendMethod(1, &amqp.ChannelCloseOk{}); err != nil {
			return false, err
		}
		_, err = c.Call(1, &amqp.ChannelOpen{}, amqp.ChannelOpenOkID)
		return false, err
	case nil:
		return false, errors.New("a heartbeat, but none were negotiated")
	default:
		if answer.ID() != okID {
			return false, fmt.Errorf("got %q instead of %s", event, amqp.MethodName(okID))
		}
		return true, nil
	}
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

// watch remembers a connection, so that its worker ends with the life. The
// worker calls what it returns.
func (s *Session) watch(c *client) (done func()) {
	s.mu.Lock()
	s.clients[c] = true
	s.mu.Unlock()
	return c.Abort
}

func (s *Session) abortClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.clients {
		c.Abort()
	}
}
