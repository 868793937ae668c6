package main

import (
	"context"
	"sync"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/systemd"
)

// keepAlive gives the service manager its signs of life, if it wants any, as long
// as all loops turn. The function that it returns ends that.
func keepAlive(service *systemd.Notifier, e *engine.Engine) (stop func()) {
	every := service.Watchdog() / 3
	if every <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for e.Turn(ctx) == nil {
			service.Alive()
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}
