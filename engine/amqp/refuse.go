package amqp

import (
	"errors"

	"github.com/basaltmq/basaltmq/engine/broker"
)

// Refusals. A queue at its limit may refuse some publishes of a batch
// (x-overflow reject-publish). A publish that any of its queues refused gets a
// basic.nack; without confirms nobody is told, as in RabbitMQ.

// appended is what became of a batch in one queue.
type appended struct {
	queue *broker.Queue
	end   uint64
	err   error // of the whole batch
}

// refusedBy takes an Overflow apart: which records were refused, how many are
// in the log all the same. Any other error stays what it is.
func refusedBy(err error, count int) (refused []int, inLog int, rest error) {
	if err == nil {
		return nil, count, nil
	}
	var full *broker.Overflow // on the heap, so not above
	if errors.As(err, &full) {
		return full.Refused, full.Appended, nil
	}
	return nil, 0, err
}

// confirmBatch notes what is to be confirmed of a batch of count publishes, the
// last of which has the number seq, when some of them were refused.
func (ch *channel) confirmBatch(seq uint64, count int, refused []int, persistent bool, to []appended) {
	first := seq - uint64(count) + 1
	for at := 0; at < count; {
		end := at + 1
		if len(refused) > 0 && refused[0] == at {
			for refused = refused[1:]; len(refused) > 0 && refused[0] == end; refused = refused[1:] {
				end++
			}
			ch.note(confirmation{seq: first + uint64(end) - 1, failed: true})
		} else {
			end = count
			if len(refused) > 0 {
				end = refused[0]
			}
			for i, a := range to {
				ch.confirmWhen(first+uint64(end)-1, a.queue, a.end, a.err, persistent, i == len(to)-1)
			}
		}
		at = end
	}
}
