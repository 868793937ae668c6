package engine_test

import (
	"math/rand/v2"
	"testing"

	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// FuzzConnection sends any bytes behind a handshake and an open channel to a
// live broker: the answers must be valid and the connection must end. Another
// client must not notice.
func FuzzConnection(f *testing.F) {
	prefix := amqp.AppendMethodFrame(amqptest.Handshake(amqptest.Options{}), 1, &amqp.ChannelOpen{})
	for _, s := range recordedSessions() {
		raw := s.bytes()
		if len(raw) > len(prefix) {
			f.Add(raw[len(prefix):])
		}
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 20 {
		_, raw := mutate(random, recordedSessions())
		f.Add(raw[min(len(raw), len(prefix)):])
	}
	f.Add([]byte{3, 0, 1, 255, 255, 255, 255})
	f.Add([]byte{1, 0, 1, 0, 0, 0, 0, 0xCE})
	e := start(f)
	watcher := open(f, e)
	reader := rand.New(rand.NewPCG(1, 1))
	f.Fuzz(func(t *testing.T, data []byte) {
		closed, err := playRaw(e.Addr(), append(prefix[:len(prefix):len(prefix)], data...), reader)
		if err != nil {
			t.Fatalf("connection.close %d: %v", closed, err)
		}
		watcher := watcher.With(t)
		watcher.WantQuiet(1)
		if queues := e.Broker().VHost("/").Queues(); len(queues) > 100 {
			for _, q := range queues {
				if !q.Exclusive() {
					amqptest.Ask[*amqp.QueueDeleteOk](watcher, 1, &amqp.QueueDelete{Queue: []byte(q.Name)})
				}
			}
		}
	})
}
