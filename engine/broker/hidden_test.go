package broker

import (
	"fmt"
	"strings"
	"testing"
)

// TestDeleteVHost_HiddenLogs: what exchanges keep goes with their virtual host, also
// when a crash cuts the deletion short, as when it is done in peace.
func TestDeleteVHost_HiddenLogs(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		t.Run(fmt.Sprint("crash ", crash), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e := openDir(t, dir)
			e.must(e.broker.AddVHost(VHostSpec{Name: "v"}))
			slash := e.vh
			e.vh = e.broker.VHost("v")
			e.exchange(recent("h", true, 5))
			e.exchange(delayedExchange("d", "fanout", true))
			e.exchange(recent("h too", false, 5))
			e.exchange(delayedExchange("d too", "fanout", false))
			for _, name := range []string{"h", "d", "h too", "d too"} {
				e.send(name, delayedBy(1<<42), numbers(0, 3)...) // the batches came at the beginning of time
			}
			e.vh = slash
			e.publish(e.queue(QueueDeclare{Name: "kept", Durable: true}, nil), "m")
			e.close()
			if e = openDir(t, dir); e.broker.VHost("v").exchanges["d"].delayed.log.Unsettled() != 3 {
				t.Error("the delayed messages are not there")
			}
			if crash {
				e.durable(e.broker.defs.Append(fields{recVHostDelete}.str("v")))
				e.crash()
			} else {
				e.durable(e.must(e.broker.DeleteVHost("v")))
				e.close()
			}
			e = openDir(t, dir)
			defer e.close()
			if text := e.log.String(); strings.Contains(text, "quarantine") {
				t.Error(text)
			}
			if got := e.broker.Recovered(); got != (Recovered{Queues: 1, Messages: 1}) {
				t.Errorf("%+v", got)
			}
			e.await("only the log that is needed", func() bool {
				ids, err := e.store.ListLogs()
				return err == nil && len(ids) == 1
			})
		})
	}
}
