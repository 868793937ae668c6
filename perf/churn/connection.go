package churn

import (
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/session"
)

const connectionName = "connection-churn"

// connectionWork opens connections and closes them.
func connectionWork() work {
	return work{
		name:    connectionName,
		summary: "open connections, a channel on each, and close them",
		details: "An operation connects, goes through the handshake, opens a channel, closes the\n" +
			"connection and waits for the broker's word; each step waits for the one before. The\n" +
			"window is how many connections do so at a time. Over the loopback interface they\n" +
			"come from several source addresses, so that ports do not run out.",
		unit: "connections opened and closed", kinds: []string{""}, windows: "1,16",
		connect: func(run *rowRun) error {
			var steps []session.Step
			if err := run.o.Control(nil, func(s *session.Session) error {
				steps = s.Steps(run.o.Address)
				return nil
			}); err != nil {
				return err
			}
			endpoint, err := run.o.Address.Resolve()
			if err != nil {
				return err
			}
			for number := range run.row.Window {
				if err := client.AddConnector(run.loop(number), endpoint, steps, number, run.quota(number, run.row.Window)); err != nil {
					return err
				}
			}
			return nil
		},
	}
}
