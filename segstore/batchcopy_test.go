package segstore

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/basaltmq/basaltmq/segstore/arena"
)

// TestBatch_EachAndWithout: what was added is seen, and what is left out is not.
func TestBatch_EachAndWithout(t *testing.T) {
	t.Parallel()
	var pool arena.Pool
	show := func(b *Batch) (list []string) {
		b.Each(func(i int, t Template, body []byte) {
			if i != len(list) {
				panic("numbers are not in order")
			}
			list = append(list, fmt.Sprintf("%s %s %s %s", t.Exchange, t.RoutingKey, t.Properties, body))
		})
		return list
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := NewBatch(&pool)
		defer b.Release()
		b.Reset(1000)
		var want, left []string
		var out []int
		for i := range rapid.IntRange(0, 200).Draw(rt, "records") {
			if rapid.IntRange(0, 9).Draw(rt, "later") == 0 {
				b.SetTime(1000 + int64(i))
			}
			key := fmt.Sprint("k", rapid.IntRange(0, 90).Draw(rt, "template"))
			body := make([]byte, rapid.IntRange(0, 200).Draw(rt, "size"))
			b.Add(b.Template([]byte("e"), []byte(key), []byte("p")), body)
			line := fmt.Sprintf("e %s p %s", key, body)
			want = append(want, line)
			if rapid.Bool().Draw(rt, "out") {
				out = append(out, i)
			} else {
				left = append(left, line)
			}
		}
		rest := b.Without(out)
		defer rest.Release()
		if got := show(b); !slices.Equal(got, want) {
			rt.Fatalf("%q, want %q", got, want)
		}
		if got := show(rest); !slices.Equal(got, left) || rest.Count() != len(left) {
			rt.Fatalf("%q, want %q", got, left)
		}
	})
}
