package identity

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
)

// source is a source of users: some it knows, at once or later.
type backend struct {
	known map[string]bool // by user; the value: later
	fail  error
	asked int
}

func (b *backend) Authenticate(user, password []byte, _ netip.Addr) (broker.Login, error) {
	b.asked++
	if b.fail != nil {
		return broker.Login{}, b.fail
	}
	name, secret := string(user), string(password)
	later, ok := b.known[name]
	decide := func() (broker.Login, error) {
		if !ok || secret != "good" {
			return broker.Login{}, fmt.Errorf("%w: not %s", broker.ErrRefused, name)
		}
		u, err := access.NewScopedUser(access.Spec{Name: name}, nil)
		return broker.Login{User: u}, err
	}
	if later {
		return broker.Login{Later: decide}, nil
	}
	return decide()
}

var somewhere = netip.MustParseAddr("203.0.113.7")

func logIn(a broker.Authenticator, user, password string) (broker.Login, error) {
	lent := []byte(password)
	login, err := a.Authenticate([]byte(user), lent, somewhere)
	clear(lent) // what was lent is gone when Later runs
	if err != nil {
		return login, err
	}
	return login.Finish()
}

func TestChain(t *testing.T) {
	first := &backend{known: map[string]bool{"a": false, "slow": true, "both": true}}
	second := &backend{known: map[string]bool{"b": false, "late": true, "both": false}}
	c := Chain{first, second}
	for _, user := range []string{"a", "slow", "both", "b", "late"} {
		if login, err := logIn(c, user, "good"); err != nil || login.User.Name != user || login.Later != nil {
			t.Errorf("%s: %+v, %v", user, login, err)
		}
		if _, err := logIn(c, user, "bad"); !errors.Is(err, broker.ErrRefused) {
			t.Errorf("%s with a bad password: %v", user, err)
		}
	}
	if _, err := logIn(c, "nobody", "good"); !errors.Is(err, broker.ErrRefused) || strings.Count(err.Error(), "not nobody") != 2 {
		t.Errorf("%v", err)
	}
	second.asked = 0
	if _, err := logIn(c, "a", "good"); err != nil || second.asked != 0 {
		t.Error("the second is asked for a user of the first")
	}
	first.fail = errors.New("broken")
	if _, err := logIn(c, "b", "good"); !errors.Is(err, first.fail) {
		t.Errorf("a broken one is passed over: %v", err)
	}
	if _, err := logIn(Chain{}, "a", "good"); !errors.Is(err, broker.ErrRefused) {
		t.Errorf("nobody: %v", err)
	}
}

// clocked is a Lockout with a clock of the test's own.
func clocked(failures int) (l *Lockout, now *time.Time) {
	now = new(time.Time)
	*now = time.Unix(1_000_000, 0)
	l = NewLockout(failures, time.Minute, slog.New(slog.DiscardHandler))
	l.now = func() time.Time { return *now }
	return l, now
}

func TestLockout(t *testing.T) {
	l, now := clocked(3)
	addr := somewhere
	guess := func(i int) { l.Failed(addr, []byte("joe"), fmt.Append(nil, i)) }
	for i := range 2 {
		guess(i)
	}
	for range 20 { // one client with a wrong password is no attack
		guess(1)
	}
	if l.Locked(addr) {
		t.Fatal("locked by repeating one guess")
	}
	guess(2)
	if !l.Locked(addr) || l.Locked(addr.Next()) || !l.Locked(netip.AddrFrom16(addr.As16())) {
		t.Fatal("not locked, or not it alone")
	}
	*now = now.Add(59 * time.Second)
	if !l.Locked(addr) {
		t.Error("free too early")
	}
	*now = now.Add(2 * time.Second)
	if l.Locked(addr) {
		t.Error("locked for ever")
	}
	for i := range 10 { // slowly enough
		guess(100 + i)
		*now = now.Add(40 * time.Second)
	}
	if l.Locked(addr) {
		t.Error("locked by failures that are old")
	}
	for i := range 3 {
		guess(200 + i)
	}
	if !l.Locked(addr) {
		t.Error("not locked again")
	}
}

func TestLockout_Sources(t *testing.T) {
	l, _ := clocked(1)
	for text, want := range map[string]bool{"127.0.0.1": false, "127.9.9.9": false, "::1": false, "::ffff:127.0.0.1": false, "192.0.2.1": true, "2001:db8::1": true, "fe80::1%eth0": true} {
		addr := netip.MustParseAddr(text)
		l.Failed(addr, nil, []byte("x"))
		if got := l.Locked(addr); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	l.Failed(netip.Addr{}, nil, []byte("x"))
	if l.Locked(netip.Addr{}) {
		t.Error("a unix socket")
	}
	if !l.Locked(netip.MustParseAddr("2001:db8::ffff")) || l.Locked(netip.MustParseAddr("2001:db8:0:1::1")) {
		t.Error("IPv6 is not counted by /64")
	}
	var none *Lockout
	none.Failed(somewhere, nil, nil)
	if none.Locked(somewhere) {
		t.Error("nil locks")
	}
	off, _ := clocked(0)
	off.Failed(somewhere, nil, []byte("x"))
	if off.Locked(somewhere) || len(off.sources) != 0 {
		t.Error("off, and yet")
	}
	off.Configure(1, time.Minute)
	off.Failed(somewhere, nil, []byte("x"))
	if !off.Locked(somewhere) {
		t.Error("turned on, and nothing")
	}
}

// TestLockout_Bounded: many addresses do not take more memory, and push out those
// that are not locked first.
func TestLockout_Bounded(t *testing.T) {
	l, _ := clocked(2)
	l.Failed(somewhere, nil, []byte("1"))
	l.Failed(somewhere, nil, []byte("2"))
	addr := netip.MustParseAddr("10.0.0.1")
	for range 2 * sourcesMax {
		l.Failed(addr, nil, []byte("x"))
		addr = addr.Next()
	}
	if len(l.sources) > sourcesMax || len(l.order) > 2*sourcesMax {
		t.Errorf("%d sources, order of %d", len(l.sources), len(l.order))
	}
	if !l.Locked(somewhere) {
		t.Error("a locked address was forgotten for others")
	}
}

func TestGuard(t *testing.T) {
	b := &backend{known: map[string]bool{"joe": false, "slow": true}}
	l, now := clocked(2)
	g := Guard{b, l}
	for i := range 2 {
		if _, err := logIn(g, []string{"joe", "slow"}[i], "bad"); !errors.Is(err, broker.ErrRefused) {
			t.Fatal(err)
		}
	}
	b.asked = 0
	if _, err := logIn(g, "joe", "good"); !errors.Is(err, broker.ErrRefused) || !errors.Is(err, errLocked) || b.asked != 0 {
		t.Errorf("locked: %v, asked %d", err, b.asked)
	}
	*now = now.Add(time.Hour)
	for _, user := range []string{"joe", "slow"} {
		if login, err := logIn(g, user, "good"); err != nil || login.User.Name != user {
			t.Errorf("%s: %v", user, err)
		}
	}
}

func TestUserFrom(t *testing.T) {
	uri, err := url.Parse("spiffe://example.org/joe")
	if err != nil {
		t.Fatal(err)
	}
	full := &x509.Certificate{Subject: pkix.Name{CommonName: "joe"}, DNSNames: []string{"a.example.org", "b"}, EmailAddresses: []string{"joe@example.org"}, URIs: []*url.URL{uri}}
	for where, want := range map[string]string{"": "joe", "cn": "joe", "san_dns": "a.example.org", "san_email": "joe@example.org", "san_uri": "spiffe://example.org/joe"} {
		f, err := UserFrom(where)
		if err != nil {
			t.Fatal(err)
		}
		if got := f(full); got != want {
			t.Errorf("%s: %q", where, got)
		}
		if got := f(&x509.Certificate{}); got != "" {
			t.Errorf("%s of an empty one: %q", where, got)
		}
	}
	if _, err := UserFrom("serial"); err == nil {
		t.Error("serial")
	}
}
