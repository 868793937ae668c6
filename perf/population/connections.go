package population

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// connectionOptions are the options of connection-count.
type connectionOptions struct {
	common
	Channels  int    `json:"channels"`
	Consumers int    `json:"consumers"`
	Dialers   int    `json:"dialers"`
	Queue     string `json:"queue"`
}

// Limits of the options.
const (
	dialersMax     = 256
	spareFiles     = 64 // descriptors that this tool needs beside connections
	consumersMax   = 10000
	shortStringMax = 255
)

func connectionScenario() scenario.Scenario {
	const name = "connection-count"
	return scenario.Scenario{
		Name: name, Summary: "open many connections and see what an idle one costs the broker",
		Details: "Opens -n connections, each with -c channels, and on each channel --consumers\n" +
			"consumers of one empty queue, lets the broker rest and reads its memory\n" +
			"(--broker-pid). At the end it checks that the broker has closed none, and closes\n" +
			"all. Over the loopback interface connections come from several source addresses,\n" +
			"20,000 from each, so that ports do not run out.",
		Prepare: func(flags *cli.FlagSet) func(context.Context, scenario.Console) error {
			o := &connectionOptions{Channels: 1, Dialers: 16, Queue: "perf-connections"}
			o.common.declare(flags, "connections")
			flags.Count(&o.Channels, "c", "channels", "N", "channels on each connection")
			flags.Count(&o.Consumers, "", "consumers", "N", "consumers on each channel")
			flags.Count(&o.Dialers, "x", "dialers", "N", "connections being opened at a time")
			flags.Text(&o.Queue, "u", "queue", "NAME", "queue of the consumers; deleted at the end")
			o.Target.Declare(flags, "report the size of the broker's data directory")
			return func(ctx context.Context, out scenario.Console) error {
				if err := o.finish(); err != nil {
					return err
				}
				return o.common.run(ctx, newResult(name, "connections", o), o.run, out)
			}
		},
	}
}

func (o *connectionOptions) finish() error {
	if err := o.common.finish(); err != nil {
		return err
	}
	switch {
	case o.Channels > 1<<16-1:
		return cli.Usagef("--channels is at most %d", 1<<16-1)
	case o.Consumers > consumersMax:
		return cli.Usagef("--consumers is at most %d", consumersMax)
	case o.Consumers > 0 && o.Channels == 0:
		return cli.Usagef("--consumers need a channel: give --channels")
	case o.Dialers < 1 || o.Dialers > dialersMax:
		return cli.Usagef("--dialers is 1 to %d", dialersMax)
	case o.Queue == "" || len(o.Queue) > shortStringMax:
		return cli.Usagef("--queue is 1 to %d bytes", shortStringMax)
	}
	var limit unix.Rlimit // the runtime has raised it as far as it may
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && uint64(o.most()+spareFiles) > limit.Cur {
		return cli.Usagef("%d connections need as many open files, this process may have %d: raise it with ulimit -n", o.most(), limit.Cur)
	}
	return nil
}

func (o *connectionOptions) run(ctx context.Context, r *Result, out scenario.Console) error {
	if err := o.Control(&r.Versions, func(s *session.Session) error {
		if o.Consumers == 0 {
			return nil
		}
		return s.Call(session.ClientChannel, &amqp.QueueDeclare{Queue: []byte(o.Queue), Durable: true}, &amqp.QueueDeclareOk{})
	}); err != nil {
		return err
	}
	endpoint, err := o.Address.Resolve()
	if err != nil {
		return err
	}
	held := &heldConnections{o: o, endpoint: endpoint, open: make([]int, o.most())}
	for i := range held.open {
		held.open[i] = -1
	}
	return (&growth{
		unit: r.Unit, threads: min(o.Dialers, runtime.NumCPU()),
		add: held.add, check: held.check, remove: held.remove,
	}).run(ctx, &o.common, r, out)
}

// heldConnections are the open connections. Only their descriptors are kept:
// nobody talks any more.
type heldConnections struct {
	o        *connectionOptions
	endpoint session.Endpoint
	open     []int // descriptors by number; -1: none
}

// spread calls do for all numbers from … to-1, from a few goroutines, until one
// fails or ctx ends. It returns the first error.
func (h *heldConnections) spread(ctx context.Context, from, to int, do func(number int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	next.Store(int64(from))
	var wait sync.WaitGroup
	for range min(h.o.Dialers, to-from) {
		wait.Go(func() {
			for ctx.Err() == nil {
				number := int(next.Add(1) - 1)
				if number >= to {
					return
				}
				if err := do(number); err != nil {
					cancel(fmt.Errorf("connection %d: %w", number+1, err))
				}
			}
		})
	}
	wait.Wait()
	if cause := context.Cause(ctx); cause != context.Canceled {
		return cause
	}
	return nil
}

func (h *heldConnections) add(ctx context.Context, from, to int, made *atomic.Int64) error {
	return h.spread(ctx, from, to, func(number int) error {
		s, err := h.endpoint.Connect(h.o.Address, number)
		if err != nil {
			return err
		}
		if err := h.populate(s); err != nil {
			s.Close()
			return err
		}
		h.open[number] = s.FD
		made.Add(1)
		return nil
	})
}

// populate opens the channels and consumers of a connection.
func (h *heldConnections) populate(s *session.Session) error {
	if h.o.Channels > int(s.Channels) {
		return cli.Usagef("the broker allows %d channels on a connection, %d are wanted", s.Channels, h.o.Channels)
	}
	if err := s.CallAll(h.o.Channels, func(i int) (uint16, amqp.Method) {
		return uint16(i + 1), &amqp.ChannelOpen{}
	}, &amqp.ChannelOpenOk{}); err != nil {
		return err
	}
	return s.CallAll(h.o.Channels*h.o.Consumers, func(i int) (uint16, amqp.Method) {
		return uint16(i/h.o.Consumers + 1), &amqp.BasicConsume{Queue: []byte(h.o.Queue), NoAck: true}
	}, &amqp.BasicConsumeOk{})
}

// check looks for connections that the broker has closed meanwhile.
func (h *heldConnections) check(int) error {
	lost := 0
	for _, fd := range h.open {
		if fd < 0 {
			continue
		}
		var one [1]byte
		n, _, err := unix.Recvfrom(fd, one[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if n > 0 || err != unix.EAGAIN && err != unix.EINTR {
			lost++ // the end of the stream, or a farewell: nothing else is due
		}
	}
	if lost > 0 {
		return fmt.Errorf("the broker closed %d of the connections while they were held", lost)
	}
	return nil
}

// remove says goodbye on all connections.
func (h *heldConnections) remove(int) error {
	farewell := func(number int) error {
		fd := h.open[number]
		if fd < 0 {
			return nil
		}
		h.open[number] = -1
		s := &session.Session{FD: fd}
		defer s.Close()
		return s.Call(0, &amqp.ConnectionClose{ReplyCode: amqp.CodeSuccess}, &amqp.ConnectionCloseOk{})
	}
	// A connection that is gone already is what check reports.
	_ = h.spread(context.Background(), 0, len(h.open), func(number int) error {
		_ = farewell(number)
		return nil
	})
	if h.o.Consumers == 0 {
		return nil
	}
	return h.o.Control(nil, func(s *session.Session) error {
		return s.Call(session.ClientChannel, &amqp.QueueDelete{Queue: []byte(h.o.Queue)}, &amqp.QueueDeleteOk{})
	})
}
