package routing

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Route allocates nothing, in every type and on every path: no match, one
// group, several groups, nested "#", few and many headers.
func TestRoute_AllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("sync.Pool drops items under the race detector")
	}
	manyHeaders := amqp.Table(nil)
	for i := range 100 {
		manyHeaders = append(manyHeaders, table(fmt.Sprint("many", i), i)...)
	}
	keys := []string{"#", "a.#", "*.b", "a.b", "#.b.#", "#.b.#.c.#", "c", ""}
	messages := []struct {
		key     string
		headers amqp.Table
	}{
		{"a.b", table("h1", 1, "h2", "x", "x-h", amqp.Float64Value(2.5))},
		{"a.b.b.c.d.c", table("h9", amqp.TableValue(table("deep", 1)), "h1", amqp.Int8Value(1))},
		{"unknown.key", nil},
		{"", append(table("h3", amqp.VoidValue()), manyHeaders...)},
	}
	for _, k := range append(kinds(), spreadKinds()...) {
		index := k.make()
		for i, key := range keys {
			for d := range 3 {
				index.Bind(Binding[int]{key, table("h1", 1), i*2 + d})
				index.Bind(Binding[int]{key, table("x-match", "any", "h1", 1, "h2", "x", "h3", amqp.VoidValue()), i*2 + d})
				index.Bind(Binding[int]{key, table("h9", amqp.TableValue(table("deep", amqp.Int8Value(1)))), i*2 + d})
			}
		}
		dst := make([]int, 0, 64)
		for _, m := range messages {
			key := []byte(m.key)
			index.Route(key, m.headers, dst) // the scratch grows once
			if count := testing.AllocsPerRun(200, func() { index.Route(key, m.headers, dst) }); count != 0 {
				t.Errorf("%s, key %q: %v allocations", k.name, m.key, count)
			}
		}
	}
}
