package gate

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/basaltmq/basaltmq/perf/suite"
)

// What administration costs in memory while nobody uses it: the difference between
// a broker that listens for AMQP only and one as it is by default (management API,
// WebSockets, metrics), and one with TLS for both besides. All three start in each
// turn of the candidate, one after the other, in one order and the next time in the
// other; the gate compares the medians of these differences with their ceilings.
// Brokers are looked at when what starting needed has been given back.

// restSpan is how long a broker has nothing to do before it is looked at.
const restSpan = 1500 * time.Millisecond

// Figures of this.
const (
	rssAdmin    = "rss-admin"
	rssAdminTLS = "rss-admin-tls"
)

// adminVariant is a way to start the broker.
type adminVariant struct {
	figure string // the difference to the first one
	env    []string
}

// adminCost measures the variants.
type adminCost struct {
	tool     suite.Tool
	rest     time.Duration
	variants []adminVariant
	turns    int
}

// newAdminCost makes a certificate in a directory for it.
func newAdminCost(tool suite.Tool, directory string) (*adminCost, error) {
	cert, key := filepath.Join(directory, "cert.pem"), filepath.Join(directory, "key.pem")
	if err := writeCertificate(cert, key); err != nil {
		return nil, fmt.Errorf("can't make a certificate: %w", err)
	}
	return &adminCost{tool: tool, rest: restSpan, variants: []adminVariant{
		{"", []string{"BASALTMQ_HTTP_PORT=-1", "BASALTMQ_METRICS_PORT=-1"}},
		{rssAdmin, nil},
		{rssAdminTLS, []string{
			"BASALTMQ_TLS_CERT=" + cert, "BASALTMQ_TLS_KEY=" + key,
			"BASALTMQ_AMQP_TLS_PORT=0", "BASALTMQ_HTTP_TLS_PORT=0",
		}},
	}}, nil
}

// measure adds the figures of one turn to values.
func (a *adminCost) measure(ctx context.Context, launcher *suite.Launcher, values map[string]float64) error {
	order := slices.Clone(a.variants)
	if a.turns++; a.turns%2 == 0 {
		slices.Reverse(order)
	}
	rss := map[string]float64{}
	for _, v := range order {
		bytes, err := a.look(ctx, launcher, v.env)
		if err != nil {
			return err
		}
		rss[v.figure] = bytes
	}
	for _, v := range a.variants[1:] {
		values[v.figure] = max(0, rss[v.figure]-rss[a.variants[0].figure])
	}
	return nil
}

// look returns the resident memory of a broker at rest.
func (a *adminCost) look(ctx context.Context, launcher *suite.Launcher, env []string) (bytes float64, err error) {
	l := *launcher
	l.Env = env
	broker, err := l.Start(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, broker.Stop()) }()
	timer := time.NewTimer(a.rest)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	memory, err := a.tool.Memory(broker.PID)
	if err != nil {
		return 0, fmt.Errorf("can't read the broker's memory: %w", err)
	}
	return float64(memory.RSS), nil
}

// writeCertificate makes one that nobody will ask for.
func writeCertificate(certFile, keyFile string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"localhost"}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return err
	}
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	write := func(file, kind string, bytes []byte) error {
		return os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: bytes}), 0o600)
	}
	return errors.Join(write(certFile, "CERTIFICATE", cert), write(keyFile, "PRIVATE KEY", encoded))
}
