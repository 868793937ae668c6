package engine

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/engine/definitions"
)

// serveControl starts the administration's socket in the data directory.
func (e *Engine) serveControl() (err error) {
	began := time.Now()
	routes := e.watchRoutes()
	if e.config.OnReload != nil {
		routes = append(routes, e.reloadRoute())
	}
	h := admin.NewHandler(admin.Options{
		Routes: routes, CertificateExpiry: e.certificateExpiry,
		Broker: e.broker, AMQP: e.server.Load(), Stats: e.stats, Version: e.config.Version, Authenticator: e.login.authenticator,
		Status: func() admin.Status {
			sockets, files := e.Backends()
			durability := "fsync"
			if e.config.DurabilityOS {
				durability = "os"
			}
			s := admin.Status{
				PID: os.Getpid(), UptimeSeconds: int64(time.Since(began).Seconds()), DataDir: e.config.DataDir,
				Listeners: e.listeners(), Loops: e.Loops(),
				Sockets: sockets, Files: files, Durability: durability,
			}
			if a := e.HTTPAddr(); a.IsValid() {
				s.Listeners["http"] = a.String()
			}
			if a := e.MetricsAddr(); a.IsValid() {
				s.Listeners["http/prometheus"] = a.String()
			}
			e.space.Load().fill(&s)
			return s
		},
	})
	e.handler.Store(h)
	if e.control, err = admin.ServeSocket(e.config.DataDir, h, e.logger); err != nil {
		return err
	}
	if e.httpListener != nil {
		e.http = admin.Serve(admin.ServeOptions{Listener: e.httpListener, Handler: h, Logger: e.logger})
	}
	return nil
}

// listenHTTP opens the port of the management API.
func (e *Engine) listenHTTP() (err error) {
	if !e.config.HTTP.IsValid() {
		return nil
	}
	l, err := e.listenerFor("http", func() (net.Listener, error) {
		return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(e.config.HTTP))
	})
	if err == nil {
		var ok bool
		if e.httpListener, ok = l.(*net.TCPListener); !ok {
			l.Close()
			return errors.New("the HTTP API cannot listen: the socket that was passed is no TCP socket")
		}
		return nil
	}
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("the HTTP API cannot listen: %w: another program has the port; choose another with --http-port, or turn the API off with --http-port -1", err)
	}
	return fmt.Errorf("the HTTP API cannot listen: %w", err)
}

// HTTPAddr is where the management API is; invalid if it is nowhere.
func (e *Engine) HTTPAddr() netip.AddrPort {
	if e.httpListener == nil {
		return netip.AddrPort{}
	}
	a := e.httpListener.Addr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// closeHTTP ends the management API.
func (e *Engine) closeHTTP() error {
	switch {
	case e.http != nil:
		return e.http.Close()
	case e.httpListener != nil:
		return e.httpListener.Close()
	}
	return nil
}

// readDefinitions reads the file that this start is to import; nil if there is
// none. It comes before anything is written.
func (e *Engine) readDefinitions() ([]byte, error) {
	if e.config.Definitions == "" {
		return nil, nil
	}
	data, err := os.ReadFile(e.config.Definitions)
	if err != nil {
		return nil, fmt.Errorf("the definitions cannot be read: %w", err)
	}
	return data, nil
}

// defaultUserFor is the user that a first start makes. Who brings users along
// does not want another that everybody knows the password of.
func (e *Engine) defaultUserFor(file []byte) *broker.DefaultUser {
	if !e.askedForUser && file != nil && definitions.HasUsers(file) {
		return nil
	}
	return &broker.DefaultUser{Name: e.config.DefaultUser, Password: e.config.DefaultPassword, Hash: e.defaultHash}
}

// importDefinitions makes what the file asks for, before anybody can connect.
func (e *Engine) importDefinitions(file []byte) error {
	if file == nil {
		return nil
	}
	report, err := definitions.Import(e.broker, file, "")
	if err != nil {
		return fmt.Errorf("%s: %w", e.config.Definitions, err)
	}
	e.logger.Info("definitions are imported", "file", e.config.Definitions, "changes", report.Changes)
	for _, name := range report.Ignored {
		e.logger.Warn("the definitions have a section that means nothing here", "file", e.config.Definitions, "section", name)
	}
	return nil
}
