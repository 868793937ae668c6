package main

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/config"
)

// reloader reads the configuration anew and gives it to those whom it concerns.
type reloader struct {
	line   *config.CommandLine
	level  *slog.LevelVar
	logger *slog.Logger

	mu      sync.Mutex
	running config.Config // what is in force
	engine  *engine.Engine
}

// reload takes over what can be taken over. If anything is wrong, all stays as it
// was, and the error says what. It logs what it did. Any goroutine.
func (r *reloader) reload() (changed, restart []string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed, restart, err = r.takeOver()
	switch {
	case err != nil:
		for line := range strings.Lines(err.Error()) {
			r.logger.Error("the new configuration is refused, the old one stays", "problem", strings.TrimSuffix(line, "\n"))
		}
	case len(changed)+len(restart) == 0:
		r.logger.Info("the configuration is read: nothing has changed")
	case len(changed) > 0:
		r.logger.Info("the configuration is taken over", "keys", strings.Join(changed, " "))
	}
	if len(restart) > 0 {
		r.logger.Warn("changes of these keys need a restart", "keys", strings.Join(restart, " "))
	}
	return changed, restart, err
}

func (r *reloader) takeOver() (changed, restart []string, err error) {
	next, err := r.line.Load(os.Environ())
	if err != nil {
		return nil, nil, err
	}
	for _, warning := range next.Warnings {
		r.logger.Warn(warning)
	}
	running := r.running
	changed, restart = config.Apply(&running, &next.Config)
	settings := engineConfig(&running)
	settings.Logger = r.logger
	if err := r.engine.Reload(settings); err != nil {
		return nil, nil, fmt.Errorf("cannot be taken over: %w", err)
	}
	r.level.Set(levelOf(running.Log.Level))
	r.running = running
	return changed, restart, nil
}
