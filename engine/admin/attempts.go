package admin

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// attempts counts logins to the API, by address for a bounded number of them.
type attempts struct {
	mu      sync.Mutex
	total   Attempts
	sources map[netip.Addr]*Attempts
}

// Attempts are logins that were tried.
type Attempts struct {
	Remote    string `json:"remote_address,omitempty"`
	Protocol  string `json:"protocol"`
	All       uint64 `json:"auth_attempts"`
	Failed    uint64 `json:"auth_attempts_failed"`
	Succeeded uint64 `json:"auth_attempts_succeeded"`
}

func (a *Attempts) add(ok bool) {
	a.All++
	if ok {
		a.Succeeded++
	} else {
		a.Failed++
	}
}

// attemptSourcesMax bounds the addresses that are counted; others are in the
// total only.
const attemptSourcesMax = 256

func (a *attempts) count(from netip.Addr, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total.add(ok)
	s := a.sources[from]
	if s == nil {
		if len(a.sources) >= attemptSourcesMax {
			return
		}
		if a.sources == nil {
			a.sources = map[netip.Addr]*Attempts{}
		}
		s = &Attempts{Remote: from.Unmap().String(), Protocol: "http"}
		a.sources[from] = s
	}
	s.add(ok)
}

func (a *attempts) list() []Attempts {
	a.mu.Lock()
	defer a.mu.Unlock()
	total := a.total
	total.Protocol = "http"
	return []Attempts{total}
}

func (a *attempts) bySource() []Attempts {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []Attempts{}
	for s := range maps.Values(a.sources) {
		list = append(list, *s)
	}
	slices.SortFunc(list, func(a, b Attempts) int { return cmp.Or(strings.Compare(a.Remote, b.Remote)) })
	return list
}

func (h *Handler) forgetAttempts(q *request) (uint64, error) {
	if err := h.checkNode(q); err != nil {
		return 0, err
	}
	h.attempts.mu.Lock()
	defer h.attempts.mu.Unlock()
	h.attempts.total, h.attempts.sources = Attempts{}, nil
	return 0, nil
}
