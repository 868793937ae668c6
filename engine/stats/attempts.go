package stats

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// Protocol is what clients log in over.
type Protocol uint8

const (
	AMQP091 Protocol = iota // over WebSockets, too
	HTTP
	protocols
)

// String is RabbitMQ's name.
func (p Protocol) String() string { return [...]string{"amqp091", "http"}[p] }

// Bounds of what is remembered by source; the totals have everything.
const (
	attemptSourcesMax = 256 // the one that was seen least lately makes room
	// attemptUsersMax is how many names of users one address has a row for: whoever
	// makes names up is to fill one row, not the table.
	attemptUsersMax = 16
	attemptNameMax  = 255 // bytes; longer names are cut
)

// Attempts counts logins, by protocol and by where they come from. The nil Attempts
// counts nothing. Any goroutine.
type Attempts struct {
	mu      sync.Mutex
	clock   uint64
	totals  [protocols]AttemptCounts
	sources map[attemptSource]*attemptRow
}

// AttemptCounts are logins that were tried.
type AttemptCounts struct {
	All       uint64 `json:"auth_attempts"`
	Failed    uint64 `json:"auth_attempts_failed"`
	Succeeded uint64 `json:"auth_attempts_succeeded"`
}

func (c *AttemptCounts) add(ok bool) {
	c.All++
	if ok {
		c.Succeeded++
	} else {
		c.Failed++
	}
}

// attemptSource is a row's key. The user is empty for those that are not told
// apart.
type attemptSource struct {
	remote   netip.Addr
	protocol Protocol
	user     string
}

type attemptRow struct {
	AttemptCounts
	seen uint64
}

// Count counts a login that was tried. remote is invalid for unix sockets; user is
// whom the client named, empty if nobody.
func (a *Attempts) Count(p Protocol, remote netip.Addr, user string, ok bool) {
	if a == nil {
		return
	}
	key := attemptSource{remote.Unmap(), p, user[:min(len(user), attemptNameMax)]}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.totals[p].add(ok)
	row := a.sources[key]
	if row == nil {
		row = a.newRow(key)
	}
	a.clock++
	row.seen = a.clock
	row.add(ok)
}

// newRow finds or makes the row of a source that has none of its own yet.
func (a *Attempts) newRow(key attemptSource) *attemptRow {
	if a.sources == nil {
		a.sources = map[attemptSource]*attemptRow{}
	}
	users := 0
	var oldest attemptSource
	var since uint64
	for k, row := range a.sources {
		if k.remote == key.remote && k.protocol == key.protocol && k.user != "" {
			users++
		}
		if since == 0 || row.seen < since {
			oldest, since = k, row.seen
		}
	}
	if users >= attemptUsersMax {
		key.user = ""
	}
	if row := a.sources[key]; row != nil {
		return row
	}
	if len(a.sources) >= attemptSourcesMax {
		delete(a.sources, oldest)
	}
	key.user = strings.Clone(key.user) // not the end of a longer text
	row := new(attemptRow)
	a.sources[key] = row
	return row
}

// Reset counts anew.
func (a *Attempts) Reset() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.totals, a.sources = [protocols]AttemptCounts{}, nil
}

// ProtocolAttempts are the logins over one protocol.
type ProtocolAttempts struct {
	Protocol string `json:"protocol"`
	AttemptCounts
}

// Totals lists the protocols that were used.
func (a *Attempts) Totals() []ProtocolAttempts {
	a.mu.Lock()
	defer a.mu.Unlock()
	list := []ProtocolAttempts{}
	for p, counts := range a.totals {
		if counts.All > 0 {
			list = append(list, ProtocolAttempts{Protocol(p).String(), counts})
		}
	}
	return list
}

// SourceAttempts are the logins of one user from one address. Without a user they
// are those that named none, or one name too many.
type SourceAttempts struct {
	Remote   string `json:"remote_address"`
	User     string `json:"username"`
	Protocol string `json:"protocol"`
	AttemptCounts
}

// BySource lists those that were seen last, by address, user and protocol.
func (a *Attempts) BySource() []SourceAttempts {
	a.mu.Lock()
	keys := slices.Collect(maps.Keys(a.sources))
	list := make([]SourceAttempts, len(keys))
	for i, k := range keys {
		list[i] = SourceAttempts{"", k.user, k.protocol.String(), a.sources[k].AttemptCounts}
		if k.remote.IsValid() {
			list[i].Remote = k.remote.String()
		}
	}
	a.mu.Unlock()
	slices.SortFunc(list, func(a, b SourceAttempts) int {
		return cmp.Or(strings.Compare(a.Remote, b.Remote), strings.Compare(a.User, b.User), strings.Compare(a.Protocol, b.Protocol))
	})
	return list
}
