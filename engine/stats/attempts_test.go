package stats

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
)

// TestAttempts: rows by address, user and protocol, and totals.
func TestAttempts(t *testing.T) {
	t.Parallel()
	var a Attempts
	home, away := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("2001:db8::7")
	a.Count(AMQP091, home, "ann", true)
	a.Count(AMQP091, netip.AddrFrom16(home.As16()), "ann", false) // the same in IPv6
	a.Count(HTTP, home, "ann", true)
	a.Count(AMQP091, away, "", false)
	a.Count(AMQP091, netip.Addr{}, "bob", true) // a unix socket
	if got, want := fmt.Sprint(a.Totals()), "[{amqp091 {4 2 2}} {http {1 0 1}}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got, want := fmt.Sprint(a.BySource()), "[{ bob amqp091 {1 0 1}} {127.0.0.1 ann amqp091 {2 1 1}} {127.0.0.1 ann http {1 0 1}} {2001:db8::7  amqp091 {1 1 0}}]"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	a.Reset()
	if len(a.Totals()) != 0 || len(a.BySource()) != 0 {
		t.Error("something is left")
	}
	var none *Attempts
	none.Count(HTTP, home, "ann", true)
}

// TestAttempts_Bounded: neither names that are made up nor many addresses take more
// than a bounded number of rows; those seen last stay.
func TestAttempts_Bounded(t *testing.T) {
	t.Parallel()
	var a Attempts
	addr := netip.MustParseAddr("192.0.2.1")
	long := strings.Repeat("x", 10*attemptNameMax)
	a.Count(AMQP091, addr, long, false)
	if got := a.BySource()[0].User; got != long[:attemptNameMax] {
		t.Errorf("a name of %d bytes is kept", len(got))
	}
	a.Reset()
	const guesses = 1000
	for i := range guesses {
		a.Count(AMQP091, addr, fmt.Sprint("user", i), false)
	}
	rows := a.BySource()
	if len(rows) != attemptUsersMax+1 || rows[0].User != "" || rows[0].All != guesses-attemptUsersMax {
		t.Errorf("%d rows, the first %+v", len(rows), rows[0])
	}
	a.Count(AMQP091, addr, "user0", true)
	for range 3 * attemptSourcesMax {
		addr = addr.Next()
		a.Count(HTTP, addr, "ann", false)
		a.Count(HTTP, netip.MustParseAddr("192.0.2.1"), "kept", true)
	}
	rows = a.BySource()
	if len(rows) != attemptSourcesMax {
		t.Errorf("%d rows", len(rows))
	}
	if rows[0].Remote != "192.0.2.1" || rows[0].User != "kept" || rows[0].All != 3*attemptSourcesMax {
		t.Errorf("the busiest is not kept: %+v", rows[0])
	}
	if got := a.Totals(); got[0].All != guesses+1 || got[1].All != 6*attemptSourcesMax {
		t.Errorf("totals: %+v", got)
	}
}
