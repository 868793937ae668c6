package churn

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
)

// rowRun is the run of one row; it owns the loops and hears from them.
type rowRun struct {
	o     *Options
	row   *results.ChurnRow
	loops []*client.Loop

	left   atomic.Int64  // clients that are not finished
	done   chan struct{} // closed when all are
	failed chan error    // the first failure
}

// Fail ends the run with an error; only the first one counts.
func (run *rowRun) Fail(err error) {
	select {
	case run.failed <- err:
	default:
	}
}

// ClientFinished ends the run when all operations of -C are done.
func (run *rowRun) ClientFinished() {
	if run.left.Add(-1) == 0 {
		close(run.done)
	}
}

// NoteConsumed hears of no messages: nobody publishes any.
func (run *rowRun) NoteConsumed(uint64) {}

// loop is the loop of a connection.
func (run *rowRun) loop(connection int) *client.Loop { return run.loops[connection%len(run.loops)] }

// quota is how many operations a connection does, of all of them together.
func (run *rowRun) quota(connection, connections int) uint64 {
	if run.o.Operations == 0 {
		return client.Unlimited
	}
	quota := run.o.Operations / uint64(connections)
	if uint64(connection) < run.o.Operations%uint64(connections) {
		quota++
	}
	return quota
}

// connectCallers opens the connections of a row; operation prepares one and
// says what it does again and again.
func connectCallers(run *rowRun, operation func(s *session.Session, connection int) (client.Operation, error)) error {
	for connection := range run.row.Connections {
		if err := run.connectCaller(connection, operation); err != nil {
			return fmt.Errorf("connection %d: %w", connection+1, err)
		}
	}
	return nil
}

func (run *rowRun) connectCaller(connection int, operation func(*session.Session, int) (client.Operation, error)) error {
	s, err := session.Dial(run.o.Address)
	if err != nil {
		return err
	}
	what, err := operation(s, connection)
	if err != nil {
		s.Close()
		return err
	}
	return client.AddCaller(run.loop(connection), s, what, run.row.Window, run.quota(connection, run.row.Connections))
}

// measureRow measures one row and cleans up after it. measured is false when
// there are no figures.
func (w work) measureRow(ctx context.Context, o *Options, row *results.ChurnRow, result *Result, out scenario.Console) (measured bool, err error) {
	clean := func(s *session.Session) error {
		if w.cleanUp == nil {
			return nil
		}
		return w.cleanUp(s, o, row)
	}
	if err := o.Control(&result.Versions, func(s *session.Session) error {
		if err := clean(s); err != nil || w.prepare == nil {
			return err
		}
		return w.prepare(s, o, row)
	}); err != nil {
		return false, err
	}
	measured, err = w.measureClients(ctx, o, row, out)
	if w.cleanUp != nil {
		if cleaning := o.Control(nil, clean); err == nil {
			err = cleaning
		}
	}
	return measured, err
}

func (w work) measureClients(ctx context.Context, o *Options, row *results.ChurnRow, out scenario.Console) (measured bool, err error) {
	run := &rowRun{o: o, row: row, done: make(chan struct{}), failed: make(chan error, 1)}
	clients := row.Connections
	if w.name == connectionName {
		clients = row.Window
	}
	run.left.Store(int64(clients))
	if run.loops, err = client.NewLoops(min(o.Loops, clients), run); err != nil {
		return false, err
	}
	defer client.CloseLoops(run.loops)
	if err := w.connect(run); err != nil {
		return false, err
	}
	m := newMeter(run, w.unit, out)
	if o.Warmup == 0 {
		m.begin()
	}
	for _, l := range run.loops {
		go l.Serve()
	}
	failure := run.wait(ctx, m)
	m.finish()
	client.StopLoops(run.loops)
	m.fill(row)
	row.Interrupted = ctx.Err() != nil
	return true, failure
}

// wait waits through warm-up and measurement, and returns the failure that
// ended the run early, if one did.
func (run *rowRun) wait(ctx context.Context, m *meter) error {
	var warm, end <-chan time.Time
	if run.o.Warmup > 0 {
		warm = time.After(run.o.Warmup)
	} else if run.o.Duration > 0 {
		end = time.After(run.o.Duration)
	}
	second := time.NewTicker(time.Second)
	defer second.Stop()
	for {
		select {
		case <-warm:
			m.begin()
			if run.o.Duration > 0 {
				end = time.After(run.o.Duration)
			}
		case <-end:
			return nil
		case <-ctx.Done():
			return nil
		case err := <-run.failed:
			return err
		case <-run.done:
			m.countEnded = true
			return nil
		case <-second.C:
			m.tick()
		}
	}
}
