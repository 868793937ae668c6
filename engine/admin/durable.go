package admin

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
)

// commits wakes those who wait for the disk.
type commits struct {
	waiting atomic.Int64
	mu      sync.Mutex
	changed chan struct{} // closed when something became durable
}

// Committed must be called when definition records may have become durable. Any
// goroutine; it costs nothing while nobody waits.
func (h *Handler) Committed() {
	h.Broker.Committed()
	h.wake()
}

func (c *commits) wake() {
	if c.waiting.Load() == 0 {
		return
	}
	c.mu.Lock()
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
}

// durable waits until a definition record is durable.
func (h *Handler) durable(ctx context.Context, seq uint64) error {
	ctx, cancel := context.WithTimeout(ctx, durableTimeout)
	defer cancel()
	h.waiting.Add(1)
	defer h.waiting.Add(-1)
	defs := h.Broker.Definitions()
	for {
		h.mu.Lock()
		changed := h.changed
		h.mu.Unlock()
		if seq <= defs.Durable() {
			return nil
		}
		if err := defs.Err(); err != nil {
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("admin: the change is made, but the disk has not confirmed it: %w", ctx.Err())
		}
	}
}
