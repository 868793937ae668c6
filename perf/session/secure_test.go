package session

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestSecured carries bytes to a TLS server and back, through a descriptor.
func TestSecured(t *testing.T) {
	t.Parallel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	check(t, err)
	defer ln.Close()
	go func() {
		c, err := ln.Accept()
		if err == nil {
			_, _ = io.Copy(c, c)
			c.Close()
		}
	}()
	address, err := ParseURI("amqps://" + ln.Addr().String())
	check(t, err)
	fd, err := DialSocket(address)
	check(t, err)
	out := bytes.Repeat([]byte("0123456789abcdef"), 20_000)
	go func() {
		for rest := out; len(rest) > 0; {
			n, err := unix.Write(fd, rest)
			if err != nil {
				return
			}
			rest = rest[n:]
		}
	}()
	var in []byte
	buf := make([]byte, 64<<10)
	for len(in) < len(out) {
		n, err := unix.Read(fd, buf)
		if err != nil || n == 0 {
			t.Fatalf("%d bytes, %v", len(in), err)
		}
		in = append(in, buf[:n]...)
	}
	if !bytes.Equal(in, out) {
		t.Error("other bytes")
	}
	check(t, unix.Close(fd))
	endpoint, err := address.Resolve()
	check(t, err)
	if _, err := endpoint.StartConnect(0); err == nil || !strings.Contains(err.Error(), "without TLS") {
		t.Errorf("%v", err)
	}
	if other, err := ParseURI("amqps://host"); err != nil || other.HostPort != "host:5671" {
		t.Errorf("%+v, %v", other, err)
	}
}
