package loop

import (
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// TestTable_Model compares with a map.
func TestTable_Model(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var open table
		model := map[int32]*Conn{}
		number := rapid.Int32Range(0, 1500)
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				if fd := number.Draw(t, "fd"); model[fd] == nil {
					model[fd] = &Conn{desc: fd}
					open.add(model[fd])
				}
			},
			"remove": func(t *rapid.T) {
				if fd := number.Draw(t, "fd"); model[fd] != nil {
					open.remove(model[fd])
					delete(model, fd)
				}
			},
			"empty": func(*rapid.T) {
				for fd, c := range model {
					open.remove(c)
					delete(model, fd)
				}
			},
			"": func(t *rapid.T) {
				if open.count != len(model) {
					t.Fatalf("it counts %d, want %d", open.count, len(model))
				}
				if fd := number.Draw(t, "fd"); open.get(fd) != model[fd] {
					t.Fatalf("%d: %p, want %p", fd, open.get(fd), model[fd])
				}
				if len(model) == 0 && cap(open.slots) > 2*tableSlotsKept {
					t.Fatalf("an empty table keeps %d slots", cap(open.slots))
				}
			},
		})
		if open.get(-1) != nil || open.get(1<<30) != nil {
			rt.Fatal("it knows numbers that cannot be")
		}
	})
}

func TestAddress_KeepsWhatSocketsHave(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"127.0.0.1:5672", "[2001:db8::1]:1", "[::1]:65535"} {
		if a := netip.MustParseAddrPort(text); addressOf(a).addrPort() != a {
			t.Errorf("%s becomes %s", a, addressOf(a).addrPort())
		}
	}
	if addressOf(netip.AddrPort{}).addrPort().IsValid() {
		t.Error("no address becomes one")
	}
}
