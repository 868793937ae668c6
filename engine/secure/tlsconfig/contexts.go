package tlsconfig

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// Settings name the files. Errors call them by the keys of the configuration.
type Settings struct {
	Host
	MinVersion string   // 1.2 (also "") or 1.3
	Ciphers    []string // of TLS 1.2; empty: those of crypto/tls
	SNI        []Host
}

// Host is what one name is served with.
type Host struct {
	Name       string // exact, or *.domain for one label; empty for the default
	Cert, Key  string // files; the key may be in the certificate's
	CA         string // file, or directory of files, of those who sign clients' certificates
	VerifyPeer string // none (also ""), optional, required
}

// Contexts are loaded settings.
type Contexts struct {
	current atomic.Pointer[loaded]
	public  *tls.Config
}

type loaded struct {
	base     *tls.Config
	exact    map[string]*tls.Config
	wildcard map[string]*tls.Config // by the domain behind "*."
	certs    []Certificate
	files    files
}

// files are digests of what was read, by the names of the files.
type files map[string][sha256.Size]byte

func (f files) read(name string) ([]byte, error) {
	data, err := os.ReadFile(name)
	if err == nil {
		f[name] = sha256.Sum256(data)
	}
	return data, err
}

// Certificate is one that is served, for operators.
type Certificate struct {
	Host     string // of SNI; empty for the default
	File     string
	Subject  string
	NotAfter time.Time
}

// Load reads all files. Errors name the key, the file and what is wrong with it.
func Load(s Settings) (*Contexts, error) {
	c := &Contexts{}
	if err := c.Reload(s); err != nil {
		return nil, err
	}
	c.public = &tls.Config{GetConfigForClient: c.choose}
	return c, nil
}

// Reload reads all files anew. On an error everything stays as it is.
func (c *Contexts) Reload(s Settings) error {
	l, err := load(s)
	if err == nil {
		c.current.Store(l)
	}
	return err
}

// Config is for servers; it follows reloads. Not to be changed.
func (c *Contexts) Config() *tls.Config { return c.public }

// Certificates are those served now, the default first.
func (c *Contexts) Certificates() []Certificate { return c.current.Load().certs }

// Files are the files that were read, with digests of their contents. Not to be
// changed.
func (c *Contexts) Files() map[string][sha256.Size]byte { return c.current.Load().files }

func (c *Contexts) choose(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	return c.current.Load().choose(hello.ServerName), nil
}

func (l *loaded) choose(name string) *tls.Config {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	if config := l.exact[name]; config != nil {
		return config
	}
	if _, domain, ok := strings.Cut(name, "."); ok {
		if config := l.wildcard[domain]; config != nil {
			return config
		}
	}
	return l.base
}

func load(s Settings) (*loaded, error) {
	minVersion, err := parseVersion(s.MinVersion)
	if err != nil {
		return nil, err
	}
	suites, err := parseCiphers(s.Ciphers)
	if err != nil {
		return nil, err
	}
	l := &loaded{exact: map[string]*tls.Config{}, wildcard: map[string]*tls.Config{}, files: files{}}
	add := func(key string, h Host) (*tls.Config, error) {
		config := &tls.Config{
			MinVersion: minVersion, CipherSuites: suites,
			// Records of a packet's size help browsers to show pages early; here
			// they would only be more work.
			DynamicRecordSizingDisabled: true,
		}
		cert, err := l.files.loadPair(key, h)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{cert}
		l.certs = append(l.certs, Certificate{h.Name, h.Cert, cert.Leaf.Subject.String(), cert.Leaf.NotAfter})
		if config.ClientAuth, err = parseVerify(key, h); err == nil && config.ClientAuth != tls.NoClientCert {
			config.ClientCAs, err = l.files.loadCA(key, h.CA)
		}
		return config, err
	}
	if l.base, err = add("tls", s.Host); err != nil {
		return nil, err
	}
	for i, h := range s.SNI {
		key := fmt.Sprintf("tls.sni[%d]", i)
		name := strings.ToLower(strings.TrimSuffix(h.Name, "."))
		domain, wild := strings.CutPrefix(name, "*.")
		if domain == "" || strings.Contains(domain, "*") {
			return nil, fmt.Errorf("%s.host '%s' is neither a name such as mq.example.org nor one such as *.example.org", key, h.Name)
		}
		into := l.exact
		if wild {
			into = l.wildcard
		}
		if into[domain] != nil {
			return nil, fmt.Errorf("%s.host '%s' is there twice", key, h.Name)
		}
		if into[domain], err = add(key, h); err != nil {
			return nil, err
		}
	}
	return l, nil
}

func (f files) loadPair(key string, h Host) (cert tls.Certificate, err error) {
	if h.Cert == "" {
		return cert, fmt.Errorf("%s.cert is not set: name a PEM file with the certificate and its chain", key)
	}
	chain, err := f.read(h.Cert)
	if err != nil {
		return cert, fmt.Errorf("%s.cert cannot be read: %w", key, err)
	}
	private, keyFile := chain, h.Key
	if keyFile == "" {
		keyFile = h.Cert
	} else if private, err = f.read(keyFile); err != nil {
		return cert, fmt.Errorf("%s.key cannot be read: %w", key, err)
	}
	if cert, err = tls.X509KeyPair(chain, private); err != nil {
		return cert, fmt.Errorf("%s: certificate %s and key %s cannot be used: %w", key, h.Cert, keyFile, err)
	}
	if cert.Leaf == nil {
		cert.Leaf, err = x509.ParseCertificate(cert.Certificate[0])
	}
	return cert, err
}

func parseVersion(s string) (uint16, error) {
	switch s {
	case "", "1.2":
		return tls.VersionTLS12, nil
	case "1.3":
		return tls.VersionTLS13, nil
	}
	return 0, fmt.Errorf("tls.min_version '%s' is neither 1.2 nor 1.3: older versions are broken and not offered", s)
}

func parseVerify(key string, h Host) (tls.ClientAuthType, error) {
	switch h.VerifyPeer {
	case "", "none":
		return tls.NoClientCert, nil
	case "optional", "required":
		if h.CA == "" {
			return 0, fmt.Errorf("%s.verify_peer is %s, but %s.ca does not say who signs clients' certificates", key, h.VerifyPeer, key)
		}
		if h.VerifyPeer == "optional" {
			return tls.VerifyClientCertIfGiven, nil
		}
		return tls.RequireAndVerifyClientCert, nil
	}
	return 0, fmt.Errorf("%s.verify_peer '%s' is none of none, optional, required", key, h.VerifyPeer)
}

func (f files) loadCA(key, path string) (*x509.CertPool, error) {
	names := []string{path}
	info, err := os.Stat(path)
	if err == nil && info.IsDir() {
		names = nil
		entries, readErr := os.ReadDir(path)
		err = readErr
		for _, e := range entries {
			if !e.IsDir() {
				names = append(names, filepath.Join(path, e.Name()))
			}
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s.ca cannot be read: %w", key, err)
	}
	pool, found := x509.NewCertPool(), false
	for _, name := range names {
		data, err := f.read(name)
		if errors.Is(err, os.ErrNotExist) {
			continue // a link in a directory that leads nowhere
		}
		if err != nil {
			return nil, fmt.Errorf("%s.ca cannot be read: %w", key, err)
		}
		found = pool.AppendCertsFromPEM(data) || found
	}
	if !found {
		return nil, fmt.Errorf("%s.ca: there is no certificate in %s", key, path)
	}
	return pool, nil
}

// parseCiphers takes the names of the TLS registry.
func parseCiphers(names []string) (ids []uint16, err error) {
	known := map[string]*tls.CipherSuite{}
	for _, s := range tls.CipherSuites() {
		known[s.Name] = s
	}
	var usable []string
	for _, s := range tls.CipherSuites() {
		if s.SupportedVersions[0] < tls.VersionTLS13 {
			usable = append(usable, s.Name)
		}
	}
	for _, name := range names {
		s := known[name]
		if s == nil {
			return nil, fmt.Errorf("tls.ciphers: '%s' is not offered, be it unknown or weak: choose among %s", name, strings.Join(usable, ", "))
		}
		if s.SupportedVersions[0] >= tls.VersionTLS13 {
			return nil, fmt.Errorf("tls.ciphers: '%s' is of TLS 1.3, whose ciphers are all good and not chosen: leave it out", name)
		}
		ids = append(ids, s.ID)
	}
	return ids, nil
}
