package churn

import (
	"bytes"
	"testing"

	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
)

// A tool that allocates for every call measures its own collector.
func TestOperationsAllocateNothing(t *testing.T) {
	o := &Options{Prefix: "p", Exchange: "amq.direct", Unbind: true}
	row := &results.ChurnRow{Kind: durable}
	for name, operation := range map[string]client.Operation{
		"bind": bindOperation(o, row, 1), "queue": queueOperation(o, row, 1), "channel": channelOperation(), "consumer": consumerOperation("q", 1),
	} {
		buffer := make([]byte, 0, 4096)
		number := uint64(0)
		if got := testing.AllocsPerRun(100, func() {
			buffer = operation.Append(buffer[:0], 1, number, 0)
			buffer = operation.Append(buffer, 1, number, 1)
			number++
		}); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}

func TestNamesDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for connection := range 20 {
		names := newNames("p", transient, connection)
		for number := range uint64(300) {
			name := string(names.number(number))
			if seen[name] || !bytes.HasPrefix([]byte(name), []byte("p-transient-")) {
				t.Fatalf("%q", name)
			}
			seen[name] = true
		}
	}
}
