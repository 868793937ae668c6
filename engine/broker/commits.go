package broker

import (
	"context"
	"sync"
	"sync/atomic"
)

// commits lets goroutines that are no loops wait for the disk.
type commits struct {
	waiting atomic.Int64
	mu      sync.Mutex
	changed chan struct{} // closed by the next progress; nil: nobody waits
}

// Committed must be called when the store made progress. Any goroutine; it costs
// nothing while nobody waits.
func (b *Broker) Committed() {
	c := &b.commits
	if c.waiting.Load() == 0 {
		return
	}
	c.mu.Lock()
	if c.changed != nil {
		close(c.changed)
		c.changed = nil
	}
	c.mu.Unlock()
}

// await waits until done says so, or fails, asking again after each progress of
// the store. done must not wait. Errors: its own, the context's.
func (b *Broker) await(ctx context.Context, done func() (bool, error)) error {
	c := &b.commits
	c.waiting.Add(1)
	defer c.waiting.Add(-1)
	for {
		c.mu.Lock()
		if c.changed == nil {
			c.changed = make(chan struct{})
		}
		changed := c.changed
		c.mu.Unlock()
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// AwaitRoom waits while the store has more unwritten data than it likes:
// publishers are to wait then.
func (b *Broker) AwaitRoom(ctx context.Context) error {
	if !b.store.Pressured() {
		return nil
	}
	return b.await(ctx, func() (bool, error) { return !b.store.Pressured(), nil })
}

// AwaitMessages waits until the messages of a queue below end are as durable as
// it promises. Errors: the queue takes no messages any more.
func (b *Broker) AwaitMessages(ctx context.Context, q *Queue, end uint64) error {
	if !q.Durable || q.Exclusive() {
		return nil
	}
	q.log.WantDurable()
	return b.await(ctx, func() (bool, error) {
		if q.log.Durable() >= end {
			return true, nil
		}
		return false, q.log.Err()
	})
}

// awaitTx waits until a transaction of the store is durable.
func (b *Broker) awaitTx(ctx context.Context, ticket uint64) error {
	return b.await(ctx, func() (bool, error) {
		if b.store.TxDurable() >= ticket {
			return true, nil
		}
		return false, b.store.MetaErr()
	})
}
