package broker

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/bodies"
)

// What operators do with messages (collect.go, peek.go, move.go) runs on
// goroutines that may wait for the disk, never on a loop or on the keeper's.

// Message is a copy of a message in a queue.
type Message struct {
	Offset      uint64
	Timestamp   int64 // when it came to the queue, Unix ms
	Exchange    string
	RoutingKey  string
	Properties  []byte // encoded, as a consumer gets them
	Body        []byte // the first bytes of it, all unless it was to be cut
	Size        uint64 // of the whole body
	Redelivered bool
	// Remaining is how many messages were ready behind it when it was taken.
	Remaining uint64

	external bool // the body is in a file
	bodyID   uint64
}

// External says that the body is in a file.
func (m *Message) External() bool { return m.external }

// messagesBytesMax bounds the bodies that one request collects in memory.
const messagesBytesMax = 8 << 20

// waitingReader reads messages of one queue after the other.
type waitingReader struct {
	ctx    context.Context
	of     *Queue
	reader *segstore.Reader
	woken  chan struct{} // capacity 1
}

func newWaitingReader(ctx context.Context) *waitingReader {
	return &waitingReader{ctx: ctx, woken: make(chan struct{}, 1)}
}

func (r *waitingReader) close() {
	if r.reader != nil {
		r.reader.Close()
	}
}

func (r *waitingReader) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

func (r *waitingReader) wait() error {
	select {
	case <-r.woken:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

// seek stands before the record at offset of a queue, or of a level of one. Errors
// besides those of Reader.Seek: the context's.
func (r *waitingReader) seek(q *Queue, offset uint64) error {
	if r.of != q {
		r.close()
		r.of, r.reader = q, q.log.NewReader()
	}
	for {
		err := r.reader.Seek(offset, r.wake)
		if !errors.Is(err, segstore.ErrNotResident) {
			return err
		}
		if err := r.wait(); err != nil {
			return err
		}
	}
}

// read copies the record at offset, with at most bytesMax bytes of its body.
func (r *waitingReader) read(q *Queue, offset, bytesMax uint64) (Message, error) {
	if err := r.seek(q, offset); err != nil {
		return Message{}, err
	}
	var rec segstore.Record
	if !r.reader.Next(&rec) {
		return Message{}, segstore.ErrMissing{Next: offset + 1}
	}
	t := r.reader.Template(rec.Template)
	m := Message{
		Offset: rec.Offset, Timestamp: rec.Timestamp, Exchange: string(t.Exchange), RoutingKey: string(t.RoutingKey),
		Properties: slices.Clone(clearMarks(t.Properties)), Size: uint64(len(rec.Body)),
	}
	if !IsExternal(t.Properties) {
		m.Body = slices.Clone(rec.Body[:min(m.Size, bytesMax)])
		return m, nil
	}
	ref, ok := bodies.DecodeRef(rec.Body)
	if !ok || q.VHost.broker.bodies == nil {
		return m, bodies.ErrDamaged
	}
	m.Size, m.external, m.bodyID = ref.Size, true, ref.ID
	var err error
	m.Body, err = r.readBody(q, ref, min(ref.Size, bytesMax))
	return m, err
}

// readBody reads the first bytes of a body that is in a file.
func (r *waitingReader) readBody(q *Queue, ref bodies.Ref, bytes uint64) ([]byte, error) {
	if bytes == 0 {
		return nil, nil
	}
	o := q.VHost.broker.bodies.Open(q.BodyDir(), ref, r.wake)
	defer o.Close()
	for {
		opened, err := o.Opened()
		if err != nil {
			return nil, err
		}
		if opened {
			break
		}
		if err := r.wait(); err != nil {
			return nil, err
		}
	}
	o.Start(0, r.wake)
	body := make([]byte, 0, bytes)
	for uint64(len(body)) < bytes {
		part, err := o.Next()
		if err == nil && len(part) == 0 {
			err = r.wait()
		}
		if err != nil {
			return nil, err
		}
		body = append(body, part[:min(uint64(len(part)), bytes-uint64(len(body)))]...)
	}
	return body, nil
}

// unreadable says which message it was.
func (q *Queue) unreadable(offset uint64, err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("broker: the message at offset %d of queue '%s' in vhost '%s' cannot be read: %w", offset, q.Name, q.VHost.Name, err)
}
