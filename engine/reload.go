package engine

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/config"
)

// Reloaded tells what a new configuration has changed.
type Reloaded struct {
	Changed []string `json:"changed"`       // keys whose values were taken over
	Files   []string `json:"files"`         // certificates and keys whose contents were taken over
	Restart []string `json:"needs_restart"` // keys that differ and need a restart
}

// reloadRoute lets operators ask for what SIGHUP does.
func (e *Engine) reloadRoute() admin.Route {
	return admin.Route{
		Pattern: "POST /api/basaltmq/reload", Role: admin.Administrator, Summary: "Read the configuration anew, as SIGHUP does", Answer: Reloaded{},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			var answer any
			reloaded, err := e.config.OnReload()
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				answer = map[string]any{
					"error": "bad_request", "reason": "the new configuration is refused, the old one stays",
					"problems": strings.Split(err.Error(), "\n"),
				}
			} else {
				answer = reloaded
			}
			_ = json.NewEncoder(w).Encode(answer) // the client is gone
		}),
	}
}

// environmentRoute shows operators the configuration in force.
func (e *Engine) environmentRoute() admin.Route {
	return admin.Route{
		Pattern: "GET /api/basaltmq/environment", Role: admin.Administrator, Summary: "The configuration in force, and where each value comes from; secrets are masked", Answer: []config.Setting{},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			settings := []config.Setting{}
			if e.config.Environment != nil {
				settings = e.config.Environment()
			}
			admin.Answer(w, settings)
		}),
	}
}

// Reload takes over what of c may change while the broker runs; the rest of c is
// not looked at. An error leaves everything as it was. Not for several goroutines
// at once.
func (e *Engine) Reload(c Config) error {
	if (e.fronts.contexts == nil) != (c.Secure.TLS == nil) {
		e.logger.Warn("turning TLS on or off needs a restart: listeners stay as they are")
	}
	if e.fronts.contexts != nil && c.Secure.TLS != nil {
		if err := e.ReloadTLS(*c.Secure.TLS); err != nil {
			return err
		}
	}
	e.identify.Store(&c.Secure.Identify)
	e.login.lockout.Configure(c.Auth.LockoutFailures, c.Auth.LockoutTime)
	e.server.Load().Tune(c.Tuning)
	e.adopt(c)
	return nil
}

// adopt sets what is looked at anew each time.
func (e *Engine) adopt(c Config) {
	drain := c.DrainTimeout
	if drain == 0 {
		drain = drainTimeoutDefault
	}
	e.drainTimeout.Store(int64(drain))
	floor := c.DiskFreeMin
	if floor == 0 {
		floor = DiskFreeMinDefault
	}
	e.diskFreeMin.Store(floor)
}
