package crash

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// publisher sends numbered messages with at most window unconfirmed.
type publisher struct {
	number   uint16
	exchange string
	key      string
	queues   []string // where its messages go
	window   int
	large    bool // up to 1 MiB
}

// A publisher waits while a queue holds so much.
const (
	queueDepthMax = 1500
	queueBytesMax = 12 << 20
	pause         = 5 * time.Millisecond
)

// unconfirmed are the messages of one channel, by delivery tag from first on.
type unconfirmed struct {
	first    uint64
	messages []messageID
	done     []bool
}

func (u *unconfirmed) add(id messageID) {
	u.messages = append(u.messages, id)
	u.done = append(u.done, false)
}

// take removes what a confirm covers and returns it.
func (u *unconfirmed) take(tag uint64, multiple bool) ([]messageID, error) {
	if tag < u.first || tag >= u.first+uint64(len(u.messages)) {
		return nil, fmt.Errorf("confirm for tag %d (multiple=%t), but %d tags from %d on are open", tag, multiple, len(u.messages), u.first)
	}
	at := int(tag - u.first)
	from := at
	if multiple {
		from = 0
	}
	var ids []messageID
	for i := from; i <= at; i++ {
		if !u.done[i] {
			u.done[i] = true
			ids = append(ids, u.messages[i])
		} else if !multiple {
			return nil, fmt.Errorf("second confirm for tag %d", tag)
		}
	}
	for len(u.done) > 0 && u.done[0] {
		u.messages, u.done = u.messages[1:], u.done[1:]
		u.first++
	}
	return ids, nil
}

// run publishes until the connection ends.
func (p *publisher) run(s *Session, r *rand.Rand) error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer s.watch(c)()
	if _, err := c.Call(1, &amqp.ConfirmSelect{}, amqp.ConfirmSelectOkID); err != nil {
		return err
	}
	open := unconfirmed{first: 1}
	var raw []byte
	for {
		raw = raw[:0]
		blocked := false
		for len(open.messages) < p.window && len(raw) < 1<<20 {
			if blocked = s.ledger.full(p.queues, queueDepthMax, queueBytesMax); blocked {
				break
			}
			s.sequences[p.number]++
			id := messageID{publisher: p.number, sequence: s.sequences[p.number]}
			size, persistent := randomSize(r, p.large), r.IntN(50) > 0
			s.ledger.publish(p.queues, id, size, persistent, sent)
			open.add(id)
			raw = appendPublish(raw, p.exchange, p.key, id, size, persistent)
		}
		if len(raw) > 0 {
			if err := c.Send(raw); err != nil {
				return err
			}
		}
		if err := p.readConfirm(s, c, &open, blocked); err != nil {
			return err
		}
	}
}

// readConfirm waits for a confirm, not long if there is something else to do.
func (p *publisher) readConfirm(s *Session, c *client, open *unconfirmed, blocked bool) error {
	event, ok, err := c.poll(blocked && len(open.messages) == 0)
	if err != nil || !ok {
		return err
	}
	switch m := event.Method.(type) {
	case *amqp.BasicAck:
		ids, err := open.take(m.DeliveryTag, m.Multiple)
		if err != nil {
			return err
		}
		for _, id := range ids {
			s.ledger.confirm(p.queues, id)
		}
		return nil
	case *amqp.BasicNack:
		if s.failing.Load() {
			_, err := open.take(m.DeliveryTag, m.Multiple)
			return err
		}
	}
	return fmt.Errorf("publisher %d got %q", p.number, event)
}
