package broker

import (
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// clocked is a broker whose clock is the test's.
type clocked struct {
	*env
	now int64
}

func openClocked(t tb, d disk.Disk, now int64) *clocked {
	t.Helper()
	c := &clocked{now: now}
	e, err := tryOpenAt(t, &testDisk{Disk: d}, segstore.Options{}, func() int64 { return c.now })
	if err != nil {
		t.Fatal(err)
	}
	c.env = e
	return c
}

// until moves the clock and lets the keeper do everything that is due.
func (c *clocked) until(now int64) {
	c.t.Helper()
	c.now = now
	c.await("nothing is due", func() bool {
		c.broker.keeper.step()
		for _, vh := range c.broker.vhosts {
			for _, e := range vh.exchanges {
				if e.delayed != nil && e.delayed.hidden.delays.First() <= now {
					return false
				}
			}
		}
		return true
	})
}

func delayedExchange(name, kind string, durable bool) ExchangeDeclare {
	return ExchangeDeclare{Name: name, Type: typeDelayed, Durable: durable, Arguments: stringArgument(argDelayedType, kind)}
}

// withHeaders are encoded properties with these headers.
func withHeaders(set func(b *amqp.TableBuilder)) []byte {
	p := amqp.Properties{Flags: amqp.FlagHeaders | amqp.FlagDeliveryMode, DeliveryMode: 2, Headers: table(set)}
	return p.Append(nil)
}

func delayedBy(ms int64) []byte {
	return withHeaders(func(b *amqp.TableBuilder) { b.SetInt64(headerDelay, ms) })
}

// post publishes one message as a connection does.
func (c *clocked) post(exchange, key string, properties []byte, body string) {
	c.t.Helper()
	p, err := amqp.DecodeProperties(properties)
	if err != nil {
		c.t.Fatal(err)
	}
	more, stored, err := CarbonCopies(p.Headers)
	if err != nil {
		c.t.Fatal(err)
	}
	p.Headers = stored
	queues, err := c.vh.Route([]byte(exchange), Envelope{RoutingKey: []byte(key), More: more, Properties: properties}, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	properties = ForQueues(queues, more, p.Append(nil))
	b := segstore.NewBatch(c.pool)
	defer b.Release()
	b.Reset(c.now)
	b.Add(b.Template([]byte(exchange), []byte(key), properties), []byte(body))
	for _, q := range queues {
		if _, _, err := q.Publish(b, c.now); err != nil {
			c.t.Fatal(err)
		}
	}
}
