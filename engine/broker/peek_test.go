package broker

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPeek_ChangesNothing: Peek shows what would be taken, in that order and with
// these flags, and all is as if it had not been.
func TestPeek_ChangesNothing(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	number := 0
	rapid.Check(t, func(t *rapid.T) {
		number++
		name := fmt.Sprint("q", number)
		q := e.queue(QueueDeclare{Name: name, Arguments: intArgument("x-max-priority", int32(rapid.IntRange(0, 3).Draw(t, "levels")))}, nil)
		for i := range rapid.IntRange(1, 6).Draw(t, "batches") {
			to := q
			if q.Ranked() {
				to = q.level(uint8(rapid.IntRange(0, 3).Draw(t, "priority")))
			}
			e.publish(to, fmt.Sprint(i, "a"), fmt.Sprint(i, "b"), fmt.Sprint(i, "c"))
			if run, _ := q.Pull(uint64(rapid.IntRange(1, 3).Draw(t, "take"))); rapid.Bool().Draw(t, "back") {
				run.Queue.Requeue(Run{First: run.First + run.Count - 1, Count: 1})
			}
		}
		skip := uint64(rapid.IntRange(0, 5).Draw(t, "skip"))
		count := uint64(rapid.IntRange(0, 20).Draw(t, "count"))
		before := q.Counts()
		list, err := q.Peek(context.Background(), skip, count, 100)
		if err != nil || q.Counts() != before {
			t.Fatal(err, q.Counts(), before)
		}
		var want []string
		for i := uint64(0); ; i++ {
			run, _ := q.Pull(1)
			if run.Count == 0 {
				break
			}
			if i >= skip && i < skip+count {
				text := e.body(run.Queue, run.First)
				if run.Redelivered {
					text += "!"
				}
				want = append(want, text)
			}
		}
		if got := texts(list); !slices.Equal(got, want) {
			t.Fatalf("skip %d, count %d: %q, want %q", skip, count, got, want)
		}
	})
}
