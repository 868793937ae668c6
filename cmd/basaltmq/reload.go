package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/config"
	"github.com/basaltmq/basaltmq/engine/systemd"
)

// reloader reads the configuration anew and gives it to those whom it concerns.
type reloader struct {
	line    *config.CommandLine
	level   *slog.LevelVar
	logger  *slog.Logger
	service *systemd.Notifier
	reopen  func() error // of the log's file

	mu      sync.Mutex
	running config.Config            // what is in force
	place   func(name string) string // where a key of it was set
	engine  *engine.Engine           // nil before it has started
	ready   string                   // status of the service
}

// reload takes over what can be taken over. If anything is wrong, all stays as it
// was, and the error says what. It logs what it did. Any goroutine.
func (r *reloader) reload() (done engine.Reloaded, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.engine == nil {
		return done, errors.New("the broker is still starting")
	}
	r.service.Reloading()
	defer r.service.Ready(r.ready)
	if err := r.reopen(); err != nil {
		r.logger.Error("the log goes on in the old file", "err", err)
	}
	done, err = r.takeOver()
	switch {
	case err != nil:
		for line := range strings.Lines(err.Error()) {
			r.logger.Error("the new configuration is refused, the old one stays", "problem", strings.TrimSuffix(line, "\n"))
		}
	case len(done.Changed)+len(done.Files)+len(done.Restart) == 0:
		r.logger.Info("the configuration is read: nothing has changed")
	case len(done.Changed) > 0:
		r.logger.Info("the configuration is taken over", "keys", strings.Join(done.Changed, " "))
	}
	if len(done.Files) > 0 {
		r.logger.Info("new certificates are taken over, for connections to come", "files", strings.Join(done.Files, " "))
	}
	if len(done.Restart) > 0 {
		r.logger.Warn("changes of these keys need a restart", "keys", strings.Join(done.Restart, " "))
	}
	return done, err
}

// environment is the configuration in force. Any goroutine.
func (r *reloader) environment() []config.Setting {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running.Effective(r.place)
}

// started says that the engine runs.
func (r *reloader) started(e *engine.Engine, ready string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.engine, r.ready = e, ready
	r.service.Ready(ready)
}

func (r *reloader) takeOver() (done engine.Reloaded, err error) {
	next, err := r.line.Load(os.Environ())
	if err != nil {
		return done, err
	}
	for _, warning := range next.Warnings {
		r.logger.Warn(warning)
	}
	running := r.running
	changed, restart := config.Apply(&running, &next.Config)
	settings := engineConfig(&running)
	settings.Logger = r.logger
	files := r.engine.TLSFiles()
	if err := r.engine.Reload(settings); err != nil {
		return done, fmt.Errorf("cannot be taken over: %w", err)
	}
	r.level.Set(levelOf(running.Log.Level))
	r.running = running
	old := r.place
	r.place = func(name string) string {
		if slices.Contains(restart, name) {
			return old(name)
		}
		return next.Place(name)
	}
	return engine.Reloaded{Changed: changed, Files: differing(files, r.engine.TLSFiles()), Restart: restart}, nil
}

// differing are the names of what is new, gone or not the same.
func differing[V comparable](before, after map[string]V) []string {
	names := []string{}
	for name, v := range after {
		if old, ok := before[name]; !ok || old != v {
			names = append(names, name)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
