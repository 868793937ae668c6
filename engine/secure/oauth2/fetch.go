package oauth2

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	fetchTimeout  = 10 * time.Second
	fetchBytesMax = 1 << 20
	retryFirst    = 5 * time.Second
	retryMax      = 5 * time.Minute
	ttlMin        = time.Minute // whatever the issuer says
	ttlMax        = 24 * time.Hour
	// unknownPause is how long an unknown key id is not asked about again: tokens
	// that name keys at will must not make us ask all the time.
	unknownPause = 30 * time.Second
)

// fetcher keeps the issuer's keys.
type fetcher struct {
	Options
	client  *http.Client
	retry   time.Duration // the first pause
	unknown time.Duration

	stop context.CancelFunc
	done chan struct{}
	wake chan struct{} // one place: fetch now

	mu      sync.Mutex
	keys    *keySet       // nil before the first success
	err     error         // of the last fetch
	fetched chan struct{} // closed after each fetch
	asked   time.Time     // when an unknown key last led to a fetch
	last    time.Time     // when the last fetch ended
}

func newFetcher(o Options) *fetcher {
	f := &fetcher{
		Options: o, client: &http.Client{Timeout: fetchTimeout, Transport: o.transport()}, retry: retryFirst, unknown: unknownPause,
		done: make(chan struct{}), wake: make(chan struct{}, 1), fetched: make(chan struct{}),
	}
	if o.retry > 0 {
		f.retry, f.unknown = o.retry, o.retry
	}
	return f
}

// transport is one of its own, so that Close can end its connections.
func (o *Options) transport() *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: o.TLS, MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second,
		TLSHandshakeTimeout: fetchTimeout, ResponseHeaderTimeout: fetchTimeout,
	}
}

func (f *fetcher) start() {
	ctx, cancel := context.WithCancel(context.Background())
	f.stop = cancel
	go f.run(ctx)
}

func (f *fetcher) close() {
	f.stop()
	<-f.done
	f.client.CloseIdleConnections()
}

// run fetches again and again.
func (f *fetcher) run(ctx context.Context) {
	defer close(f.done)
	pause := f.retry
	for {
		keys, ttl, err := f.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		changed := f.have(keys, err)
		wait := ttl
		switch {
		case err != nil:
			wait = pause
			pause = min(2*pause, retryMax)
			f.Logger.Warn("the keys of OAuth2 tokens cannot be fetched, trying again", "issuer", f.Issuer, "in", wait, "err", err)
		case changed:
			pause = f.retry
			f.Logger.Info("the keys of OAuth2 tokens are fetched", "issuer", f.Issuer, "keys", len(keys.keys), "ttl", ttl)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-f.wake:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// have takes a fetch's outcome; it says whether there were no keys before, or an
// error.
func (f *fetcher) have(keys *keySet, err error) (changed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed = f.keys == nil || f.err != nil
	if err == nil {
		f.keys = keys
	}
	f.err, f.last = err, time.Now()
	close(f.fetched)
	f.fetched = make(chan struct{})
	return changed
}

// current returns the keys; nil if there have never been any.
func (f *fetcher) current() *keySet {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.keys
}

// refresh has the keys fetched because one is not known of those that were seen,
// and waits for it. It says whether it is worth looking again.
func (f *fetcher) refresh(ctx context.Context, seen *keySet) bool {
	f.mu.Lock()
	if f.keys != seen {
		f.mu.Unlock()
		return true
	}
	fetched := f.fetched
	recent := time.Since(f.asked) < f.unknown
	if recent && f.keys != nil && !f.asked.After(f.last) {
		f.mu.Unlock()
		return false
	}
	ask := !recent && !f.last.IsZero() // the very first is under way
	if ask {
		f.asked = time.Now()
	}
	f.mu.Unlock()
	if ask {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	select {
	case <-fetched:
		return true
	case <-ctx.Done():
		return false
	}
}

// fetch gets the keys, by discovery unless their address is known.
func (f *fetcher) fetch(ctx context.Context) (*keySet, time.Duration, error) {
	address := f.JWKSURI
	if address == "" {
		found, _, err := f.discover(ctx)
		if err != nil {
			return nil, 0, err
		}
		if address = found.JWKS; address == "" {
			return nil, 0, errors.New("the issuer's configuration has no jwks_uri: set oauth2.jwks_uri")
		}
		if err := CheckURL("jwks_uri of the issuer", address); err != nil {
			return nil, 0, err
		}
	}
	data, header, err := f.get(ctx, address)
	if err != nil {
		return nil, 0, err
	}
	keys, err := parseKeys(data)
	return keys, f.ttl(header), err
}

func (f *fetcher) get(ctx context.Context, address string) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", "application/json")
	response, err := f.client.Do(request)
	if err != nil {
		return nil, nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s answers %s", address, response.Status)
	}
	data, err := readAll(response.Body, address)
	return data, response.Header, err
}

// ttl is how long keys are good: what the issuer says (Cache-Control: max-age),
// else what is configured.
func (f *fetcher) ttl(h http.Header) time.Duration {
	ttl := f.CacheTTL
	for directive := range strings.SplitSeq(h.Get("Cache-Control"), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(strings.ToLower(directive)), "=")
		if name != "max-age" {
			continue
		}
		if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 31); err == nil {
			ttl = time.Duration(n) * time.Second
		}
	}
	return min(max(ttl, ttlMin), ttlMax)
}

// SameIssuer compares two names of issuers; a slash at the end says nothing.
func SameIssuer(a, b string) bool {
	return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/")
}
