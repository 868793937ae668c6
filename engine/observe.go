package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/logs"
	"github.com/basaltmq/basaltmq/engine/metrics"
)

// observed is what the broker is watched by: metrics for Prometheus on a port of
// their own and on that of the API, and profiles on a port for those who ask.
type observed struct {
	metrics  *watchPort
	debug    *watchPort
	exporter *metrics.Exporter
	unfollow func()        // ends the log exchange; nil: there is none
	leaving  chan struct{} // closed when a stop begins
}

// watchPort is a listener without a password; it only reads.
type watchPort struct {
	listener net.Listener
	server   *http.Server
	done     chan struct{}
}

// Times for those who read slowly. A profile takes as long as it was asked for.
const (
	watchHeaderTimeout = 5 * time.Second
	watchWriteTimeout  = 2 * time.Minute
	watchIdleTimeout   = 2 * time.Minute
	watchHeaderBytes   = 16 << 10
)

// listenWatch opens the ports. Errors name what to do.
func (e *Engine) listenWatch() (err error) {
	open := func(at netip.AddrPort, what, remedy string) (*watchPort, error) {
		if !at.IsValid() {
			return nil, nil
		}
		l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
		switch {
		case errors.Is(err, unix.EADDRINUSE):
			return nil, fmt.Errorf("%s cannot listen: %w: another program has the port; %s", what, err, remedy)
		case err != nil:
			return nil, fmt.Errorf("%s cannot listen: %w", what, err)
		}
		return &watchPort{listener: l, done: make(chan struct{})}, nil
	}
	if e.observed.metrics, err = open(e.config.Metrics, "the metrics", "choose another with --metrics-http-port, or turn it off with --metrics-http-port -1"); err != nil {
		return err
	}
	if d := e.config.Debug; d.IsValid() && !d.Addr().IsLoopback() {
		return fmt.Errorf("profiles are only for this machine: %s is not a loopback address", d.Addr())
	}
	e.observed.debug, err = open(e.config.Debug, "the profiler", "choose another with --debug-port")
	return err
}

// serveWatch answers on the ports.
func (e *Engine) serveWatch() {
	e.observed.metrics.serve(e.observed.exporter, e.logger)
	e.observed.debug.serve(metrics.Profiles(), e.logger)
}

func (w *watchPort) serve(h http.Handler, logger *slog.Logger) {
	if w == nil {
		return
	}
	w.server = &http.Server{
		Handler: h, ReadHeaderTimeout: watchHeaderTimeout, ReadTimeout: watchHeaderTimeout, WriteTimeout: watchWriteTimeout,
		IdleTimeout: watchIdleTimeout, MaxHeaderBytes: watchHeaderBytes,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	go func() {
		defer close(w.done)
		_ = w.server.Serve(w.listener) // ends with close
	}()
}

func (w *watchPort) addr() netip.AddrPort {
	if w == nil {
		return netip.AddrPort{}
	}
	a := w.listener.Addr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

func (w *watchPort) close() {
	switch {
	case w == nil:
	case w.server == nil:
		_ = w.listener.Close()
	default:
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if w.server.Shutdown(ctx) != nil {
			_ = w.server.Close()
		}
		<-w.done
	}
}

func (e *Engine) closeWatch() {
	e.observed.metrics.close()
	e.observed.debug.close()
}

// MetricsAddr is where metrics are, without a password; invalid if they are not.
func (e *Engine) MetricsAddr() netip.AddrPort { return e.observed.metrics.addr() }

// DebugAddr is where profiles are; invalid if they are not.
func (e *Engine) DebugAddr() netip.AddrPort { return e.observed.debug.addr() }

// nodeName is what tools know this broker by.
func nodeName() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return "basaltmq@" + name
	}
	return "basaltmq@localhost"
}

// newExporter makes what answers Prometheus.
func (e *Engine) newExporter() {
	e.observed.exporter = metrics.NewExporter(metrics.Options{
		Broker: e.broker, AMQP: e.server.Load(), Loops: e.loops, Pool: &e.pool, Version: e.config.Version, Node: nodeName(), Attempts: &e.login.attempts,
		Space: func() (free, floor int64, alarm bool) {
			if s := e.space.Load(); s != nil {
				return s.free, s.floor, s.alarm != ""
			}
			return 0, 0, false
		},
	})
}

// watchRoutes are the same on the port of the API.
func (e *Engine) watchRoutes() (routes []admin.Route) {
	for _, path := range metrics.Paths {
		routes = append(routes, admin.Route{
			Pattern: "GET " + path, Role: admin.Monitoring, Summary: "Metrics for Prometheus",
			Query: []string{"prefix", "vhost", "family"}, Handler: e.observed.exporter.Handler(path),
		})
	}
	if t := e.config.Log; t != nil {
		routes = append(routes,
			admin.Route{Pattern: "GET /api/livelog", Role: admin.Administrator, Summary: "The log, as server-sent events: the last lines, then those that come", Handler: logs.Live(t, e.observed.leaving)},
			admin.Route{Pattern: "GET /api/logs", Role: admin.Administrator, Summary: "The last lines of the log, as text", Handler: logs.Kept(t)})
	}
	return routes
}
