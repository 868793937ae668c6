package identity

import (
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"github.com/basaltmq/basaltmq/engine/broker"
)

const (
	// sourcesMax bounds the addresses that are remembered. When they are more, the
	// oldest that is not locked is forgotten.
	sourcesMax = 4096
	// guessesKept is how many of an address's last wrong guesses are known again:
	// a client that is configured wrongly repeats one, and is no attack.
	guessesKept = 4
	// prefix6 is what counts as one source in IPv6: what one site is given.
	prefix6 = 64
)

var errLocked = errors.New("too many failed logins came from this address: it is locked for a while")

// Lockout locks addresses out from which passwords are guessed: after so many
// different wrong ones within a time, no login from there is looked at for that
// time. This machine's own addresses and unix sockets are never locked: that
// would lock out the operator, and who can connect from here has better means.
//
// The nil Lockout locks nobody. Any goroutine.
type Lockout struct {
	logger *slog.Logger
	now    func() time.Time
	seed   maphash.Seed

	mu      sync.Mutex
	max     int // 0: off
	window  time.Duration
	sources map[netip.Addr]*source
	order   []netip.Addr // by age; may hold addresses that are forgotten
}

// source is what is remembered of one address.
type source struct {
	failures int
	since    time.Time // of the first of them
	until    time.Time // locked; zero: not
	guesses  [guessesKept]uint64
}

// NewLockout makes one: failures within window lock an address for window; 0 is
// off.
func NewLockout(failures int, window time.Duration, logger *slog.Logger) *Lockout {
	l := &Lockout{logger: logger, now: time.Now, seed: maphash.MakeSeed(), sources: map[netip.Addr]*source{}}
	l.Configure(failures, window)
	return l
}

// Configure changes the limits; what is locked stays so until its time is over.
func (l *Lockout) Configure(failures int, window time.Duration) {
	l.mu.Lock()
	l.max, l.window = failures, window
	l.mu.Unlock()
}

// sourceOf is what an address counts as; ok is false for those never locked.
func sourceOf(remote netip.Addr) (netip.Addr, bool) {
	remote = remote.Unmap().WithZone("")
	if !remote.IsValid() || remote.IsLoopback() {
		return netip.Addr{}, false
	}
	if remote.Is6() {
		p, _ := remote.Prefix(prefix6)
		return p.Addr(), true
	}
	return remote, true
}

// Locked says whether logins from an address are not to be looked at.
func (l *Lockout) Locked(remote netip.Addr) bool {
	if l == nil {
		return false
	}
	addr, ok := sourceOf(remote)
	if !ok {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.sources[addr]
	return s != nil && l.now().Before(s.until)
}

// Failed counts a failed login, unless the same was tried just before.
func (l *Lockout) Failed(remote netip.Addr, user, password []byte) {
	if l == nil {
		return
	}
	addr, ok := sourceOf(remote)
	if !ok {
		return
	}
	var h maphash.Hash
	h.SetSeed(l.seed)
	_, _ = h.Write(user) // maphash does not fail
	_ = h.WriteByte(0)
	_, _ = h.Write(password)
	guess := h.Sum64() | 1 // 0 is none
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.max <= 0 {
		return
	}
	now := l.now()
	s := l.sources[addr]
	if s == nil {
		s = l.add(addr, now)
	}
	if now.Sub(s.since) > l.window {
		*s = source{since: now, until: s.until}
	}
	for _, g := range s.guesses {
		if g == guess {
			return
		}
	}
	s.guesses[s.failures%guessesKept] = guess
	if s.failures++; s.failures < l.max || now.Before(s.until) {
		return
	}
	s.until = now.Add(l.window)
	s.failures, s.since = 0, now
	l.logger.Warn("an address is locked: too many failed logins came from it", "addr", addr.String(), "failures", l.max, "for", l.window)
}

func (l *Lockout) add(addr netip.Addr, now time.Time) *source {
	for tries := 0; len(l.sources) >= sourcesMax; tries++ {
		oldest := l.order[0]
		l.order = l.order[1:]
		// One that is locked gets another round, but not for ever.
		if s := l.sources[oldest]; s != nil && now.Before(s.until) && tries < sourcesMax/4 {
			l.order = append(l.order, oldest)
			continue
		}
		delete(l.sources, oldest)
	}
	s := &source{since: now}
	l.sources[addr] = s
	l.order = append(l.order, addr)
	return s
}

// Guard is an Authenticator under a Lockout.
type Guard struct {
	Authenticator broker.Authenticator
	Lockout       *Lockout
}

// Authenticate implements broker.Authenticator.
func (g Guard) Authenticate(user, password []byte, remote netip.Addr) (broker.Login, error) {
	if g.Lockout.Locked(remote) {
		return broker.Login{}, fmt.Errorf("%w: %w", broker.ErrRefused, errLocked)
	}
	login, err := g.Authenticator.Authenticate(user, password, remote)
	switch {
	case errors.Is(err, broker.ErrRefused):
		g.Lockout.Failed(remote, user, password)
	case err == nil && login.Later != nil:
		later := login.Later
		user, password := append([]byte(nil), user...), append([]byte(nil), password...)
		login.Later = func() (broker.Login, error) {
			login, err := later()
			if errors.Is(err, broker.ErrRefused) {
				g.Lockout.Failed(remote, user, password)
			}
			return login, err
		}
	}
	return login, err
}
