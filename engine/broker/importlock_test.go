package broker

import (
	"fmt"
	"testing"
	"time"
)

// manyToImport are queues that are each bound so many times to a topic exchange.
func manyToImport(queues, bindings int) *Import {
	in := &Import{}
	x := ExchangeImport{VHost: "/"}
	x.Name, x.Type, x.Durable = "x", "topic", true
	in.Exchanges = append(in.Exchanges, Imported[ExchangeImport]{At: "x", Value: x})
	for i := range queues {
		q := QueueImport{VHost: "/"}
		q.Name, q.Durable = fmt.Sprint("q", i), true
		in.Queues = append(in.Queues, Imported[QueueImport]{At: q.Name, Value: q})
		for j := range bindings {
			b := BindingImport{VHost: "/"}
			b.Source, b.Queue, b.RoutingKey = "x", q.Name, fmt.Sprint("key.", i, ".", j, ".*")
			in.Bindings = append(in.Bindings, Imported[BindingImport]{At: b.RoutingKey, Value: b})
		}
	}
	return in
}

// BenchmarkImport_Bindings: 100,000 bindings in one import, and for how long they
// keep a virtual host from routing.
func BenchmarkImport_Bindings(b *testing.B) {
	in := manyToImport(1000, 100)
	var longest, total time.Duration
	for b.Loop() {
		b.StopTimer()
		e := openDir(b, b.TempDir())
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				at := time.Now()
				e.vh.FindExchange("amq.topic")
				longest = max(longest, time.Since(at))
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
				}
			}
		}()
		b.StartTimer()
		at := time.Now()
		if _, refused, err := e.broker.Import(in); err != nil || len(refused) > 0 {
			b.Fatal(refused, err)
		}
		total += time.Since(at)
		b.StopTimer()
		close(stop)
		<-stopped
		e.close()
		b.StartTimer()
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "longest-ms")
	b.ReportMetric(float64(total.Microseconds())/1000/float64(b.N), "import-ms")
}
