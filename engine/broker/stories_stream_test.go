package broker

import (
	"fmt"
	"strings"
	"testing"
)

// A time may lie within a segment, between two, before all and behind all of
// them: reading begins with the first message that is not older, or a little
// before it, and never behind it; also when the segments come from an earlier
// run.
func TestStream_TimestampsBetweenSegments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	begin := int64(1_700_000_000_000)
	clock := begin + 24*3600_000
	now := func() int64 { return clock }
	arguments := []any{"x-stream-max-segment-size-bytes", 4096}
	e, q := openStream(t, dir, now, arguments...)
	const messages, minute = 24, int64(60_000)
	for i := range messages {
		publishAt(t, e, q, begin+int64(i)*minute, fmt.Sprint(i)+strings.Repeat(" ", 1500))
		e.stored(q)
	}
	for start := range 2 {
		for i := int64(-1); i <= messages; i++ {
			for _, delta := range []int64{-1, 0, 1, minute / 2} {
				since := begin + i*minute + delta
				want := uint64(0) // the first that is not older
				for want < messages && begin+int64(want)*minute < since {
					want++
				}
				cursor, got := offsetSpec{kind: offsetTime, n: since}.resolve(q.log, q.log.Next(), clock)
				if cursor > want || want < messages && got != since {
					t.Fatalf("start %d, %d ms after message %d: begins at %d, wanted %d; since %d", start, delta, i, cursor, want, got)
				}
				if cursor < messages {
					if body := e.body(q, cursor); !strings.HasPrefix(body, fmt.Sprint(cursor)+" ") {
						t.Fatalf("record %d is %.5q", cursor, body)
					}
				}
			}
		}
		if start == 0 {
			e.close()
			e, q = openStream(t, dir, now, arguments...)
		}
	}
	e.close()
}
