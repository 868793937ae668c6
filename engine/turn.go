package engine

import (
	"context"

	"github.com/basaltmq/basaltmq/engine/loop"
)

// Turn waits until each loop has turned once: all of them are alive.
func (e *Engine) Turn(ctx context.Context) error {
	turned := make(chan struct{}, len(e.loops))
	for _, l := range e.loops {
		l.Post(loop.RunnerFunc(func() { turned <- struct{}{} }))
	}
	for range e.loops {
		select {
		case <-turned:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
