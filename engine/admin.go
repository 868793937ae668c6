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
	"github.com/basaltmq/basaltmq/engine/secure/front"
	"github.com/basaltmq/basaltmq/engine/secure/proxyproto"
	"github.com/basaltmq/basaltmq/engine/secure/websocket"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// serveControl starts the administration's socket in the data directory.
func (e *Engine) serveControl() (err error) {
	began := time.Now()
	routes := append(e.watchRoutes(), e.login.sso.Routes()...)
	if e.config.OnReload != nil {
		routes = append(routes, e.reloadRoute())
	}
	routes = append(routes, e.environmentRoute())
	h := admin.NewHandler(admin.Options{
		Routes: routes, CertificateExpiry: e.certificateExpiry,
		Upgrade: &websocket.Handler{Accept: e.server.Load().AcceptTransport, Identify: e.identifyPeer, Logger: e.logger},
		Broker:  e.broker, AMQP: e.server.Load(), Stats: e.stats, Version: e.config.Version, Authenticator: e.login.authenticator, Attempts: &e.login.attempts,
		Session: e.login.sso.Token, SingleSignOn: e.login.sso.Settings(e.login.local),
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
			if a := e.MetricsAddr(); a.IsValid() {
				s.Listeners["http/prometheus"] = a.String()
			}
			e.space.Load().fill(&s)
			return s
		},
	})
	e.handler.Store(h)
	if e.control, err = admin.ServeSocket(e.config.DataDir, h, e.logger); disk.IsNoSpace(err) {
		e.control = nil // consumers have to make space: better no socket than no broker
		e.logger.Error("the disk is full: there is no control socket until the next start; basaltmqctl reaches the broker with --uri", "err", err)
	} else if err != nil {
		return err
	}
	if e.httpListener != nil {
		e.http = admin.Serve(admin.ServeOptions{Listener: e.behindProxies(e.httpListener), Handler: h, Logger: e.logger})
	}
	if e.httpsListener != nil {
		e.https = admin.Serve(admin.ServeOptions{Listener: e.behindProxies(e.httpsListener), TLS: e.fronts.contexts.Config(), Handler: h, Logger: e.logger})
	}
	return nil
}

func (e *Engine) closeControl() error {
	if e.control == nil {
		return nil
	}
	return e.control.Close()
}

// listenHTTP opens the ports of the management API.
func (e *Engine) listenHTTP() (err error) {
	if e.httpListener, err = e.listenAPI("http", e.config.HTTP); err != nil {
		return err
	}
	if e.fronts.contexts != nil {
		e.httpsListener, err = e.listenAPI("https", e.config.Secure.HTTPS)
	}
	return err
}

// listenAPI opens one of them; an address that is not valid is none.
func (e *Engine) listenAPI(name string, addr netip.AddrPort) (*net.TCPListener, error) {
	if !addr.IsValid() {
		return nil, nil
	}
	l, err := e.listenerFor(name, func() (net.Listener, error) {
		return net.ListenTCP("tcp", net.TCPAddrFromAddrPort(addr))
	})
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return nil, fmt.Errorf("the HTTP API cannot listen: %w: another program has the port; choose another with --%s-port, or turn the API off with --%s-port -1", err, name, name)
	case err != nil:
		return nil, fmt.Errorf("the HTTP API cannot listen: %w", err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		l.Close()
		return nil, errors.New("the HTTP API cannot listen: the socket that was passed is no TCP socket")
	}
	return tcp, nil
}

// behindProxies has trusted proxies say whom they connect.
func (e *Engine) behindProxies(l net.Listener) net.Listener {
	if len(e.config.Secure.HTTPProxies) == 0 {
		return l
	}
	timeout := e.config.Tuning.HandshakeTimeout
	if timeout <= 0 {
		timeout = front.HandshakeTimeoutDefault
	}
	return &front.ProxyListener{Listener: l, Proxies: proxyproto.NewSources(e.config.Secure.HTTPProxies), Timeout: timeout, Logger: e.logger}
}

// HTTPAddr is where the management API is; invalid if it is nowhere.
func (e *Engine) HTTPAddr() netip.AddrPort { return tcpAddr(e.httpListener) }

// HTTPSAddr is where it is over TLS; invalid if it is nowhere.
func (e *Engine) HTTPSAddr() netip.AddrPort { return tcpAddr(e.httpsListener) }

func tcpAddr(l *net.TCPListener) netip.AddrPort {
	if l == nil {
		return netip.AddrPort{}
	}
	a := l.Addr().(*net.TCPAddr).AddrPort()
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port())
}

// closeHTTP ends the management API.
func (e *Engine) closeHTTP() error {
	one := func(s *admin.Server, l *net.TCPListener) error {
		switch {
		case s != nil:
			return s.Close()
		case l != nil:
			return l.Close()
		}
		return nil
	}
	return errors.Join(one(e.http, e.httpListener), one(e.https, e.httpsListener))
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
