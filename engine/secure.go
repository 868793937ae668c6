package engine

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"net/netip"
	"time"

	"github.com/basaltmq/basaltmq/engine/amqp"
	"github.com/basaltmq/basaltmq/engine/loop"
	"github.com/basaltmq/basaltmq/engine/secure/front"
	"github.com/basaltmq/basaltmq/engine/secure/proxyproto"
	"github.com/basaltmq/basaltmq/engine/secure/tlsconfig"
)

// Secure is what comes before and around plain AMQP. The zero value is none of it.
type Secure struct {
	// TLS are certificates; nil: no TLS. AMQPSPort is where AMQP over TLS is
	// served; 0: a free port, negative: none.
	TLS       *tlsconfig.Settings
	AMQPSPort int
	// HTTPS is where the management API is served over TLS; port 0: a free one; not
	// valid: nowhere.
	HTTPS netip.AddrPort
	// Proxies are addresses and networks of those that have to begin their
	// connections to the AMQP ports with a PROXY header. Empty: nobody may.
	Proxies []netip.Prefix
	// HTTPProxies are likewise those of the management API's ports.
	HTTPProxies []netip.Prefix
	// UnixPath is a unix socket for AMQP; empty: none.
	UnixPath string
	// Identify names the user whom a verified client certificate stands for.
	Identify func(c *x509.Certificate) string
}

// fronts are the listeners that do something before AMQP begins.
type fronts struct {
	contexts *tlsconfig.Contexts
	amqp     *front.Front // the plain port, if there are proxies
	amqps    *front.Front
	unix     *front.Front
}

func (f *fronts) all() (list []*front.Front) {
	for _, one := range []*front.Front{f.amqp, f.amqps, f.unix} {
		if one != nil {
			list = append(list, one)
		}
	}
	return list
}

func (f *fronts) serve(accept func(fd int, t amqp.Transport)) {
	for _, one := range f.all() {
		one.Serve(accept)
	}
}

// addrOf is a listener's address; invalid if there is none.
func addrOf(f *front.Front) netip.AddrPort {
	if f == nil {
		return netip.AddrPort{}
	}
	addr, _ := netip.ParseAddrPort(f.Addr().String())
	return addr
}

// openFronts opens what the configuration asks for.
func (e *Engine) openFronts() (err error) {
	c := &e.config.Secure
	e.identify.Store(&c.Identify)
	proxies := proxyproto.NewSources(c.Proxies)
	o := front.Options{Proxies: proxies, Logger: e.logger, HandshakeTimeout: e.config.Tuning.HandshakeTimeout, Identify: e.identifyPeer}
	if len(proxies) > 0 && e.config.AMQPPort >= 0 {
		if e.fronts.amqp, err = e.front("amqp", e.config.AMQPPort, o); err != nil {
			return err
		}
	}
	if c.TLS != nil {
		if e.fronts.contexts, err = tlsconfig.Load(*c.TLS); err != nil {
			return err
		}
		if c.AMQPSPort >= 0 {
			secured := o
			secured.TLS = e.fronts.contexts.Config()
			if e.fronts.amqps, err = e.front("amqps", c.AMQPSPort, secured); err != nil {
				return err
			}
		}
	}
	if c.UnixPath != "" {
		e.fronts.unix, err = front.ListenUnix(c.UnixPath, front.Options{Logger: e.logger})
	}
	return err
}

// identifyPeer names the user of a verified client certificate, once for each
// connection.
func (e *Engine) identifyPeer(c *x509.Certificate) string {
	f := *e.identify.Load()
	if f == nil {
		return ""
	}
	user := f(c)
	if user == "" {
		e.logger.Info("a client's certificate has no name where tls.user_from looks for it: EXTERNAL is not offered to the client",
			"subject", c.Subject.String(), "serial", c.SerialNumber.String())
	}
	return user
}

// listen opens the plain AMQP port, unless a front has.
func (e *Engine) listen() (*loop.Listener, error) {
	if e.fronts.amqp != nil || e.config.AMQPPort < 0 {
		return nil, nil
	}
	return e.loopListener("amqp", func() (*loop.Listener, error) {
		return listenPatiently(func() (*loop.Listener, error) {
			return loop.Listen(netip.AddrPortFrom(e.config.Bind, uint16(e.config.AMQPPort)))
		})
	})
}

func (e *Engine) closeListeners() {
	if e.listener != nil {
		e.listener.Close()
	}
	for _, f := range e.fronts.all() {
		f.Close()
	}
}

// AMQPSAddr is where AMQP over TLS is served; invalid if it is not.
func (e *Engine) AMQPSAddr() netip.AddrPort { return addrOf(e.fronts.amqps) }

// listeners are the addresses by protocol, as RabbitMQ calls them.
func (e *Engine) listeners() map[string]string {
	list := map[string]string{}
	for protocol, addr := range map[string]netip.AddrPort{"amqp": e.Addr(), "amqp/ssl": e.AMQPSAddr(), "http": e.HTTPAddr(), "https": e.HTTPSAddr()} {
		if addr.IsValid() {
			list[protocol] = addr.String()
		}
	}
	if e.fronts.unix != nil {
		list["amqp-unix"] = e.config.Secure.UnixPath
	}
	return list
}

// ReloadTLS reads certificates anew, for connections to come. An error changes
// nothing.
func (e *Engine) ReloadTLS(s tlsconfig.Settings) error {
	if e.fronts.contexts == nil {
		return errors.New("the broker was started without TLS: turning it on needs a restart")
	}
	return e.fronts.contexts.Reload(s)
}

// certificateExpiry is when the first of the certificates expires.
func (e *Engine) certificateExpiry() (first time.Time, ok bool) {
	for _, c := range e.Certificates() {
		if !ok || c.NotAfter.Before(first) {
			first, ok = c.NotAfter, true
		}
	}
	return first, ok
}

// TLSFiles are the files of certificates and keys in force, with digests of their
// contents; nil without TLS.
func (e *Engine) TLSFiles() map[string][sha256.Size]byte {
	if e.fronts.contexts == nil {
		return nil
	}
	return e.fronts.contexts.Files()
}

// Certificates are those that are served.
func (e *Engine) Certificates() []tlsconfig.Certificate {
	if e.fronts.contexts == nil {
		return nil
	}
	return e.fronts.contexts.Certificates()
}
