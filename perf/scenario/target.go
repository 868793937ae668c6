package scenario

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

const (
	defaultURI      = "amqp://guest:guest@127.0.0.1:5672/"
	loopsMax        = 256
	loopsDefaultMax = 2
)

// Target holds the options of all scenarios that measure a broker: which one,
// what is known about it, and where the result goes.
type Target struct {
	URI       string `json:"uri"` // without the password
	Loops     int    `json:"loops"`
	BrokerPID int    `json:"broker_pid,omitempty"`

	Output  Output          `json:"-"`
	Record  Record          `json:"-"`
	Address session.Address `json:"-"`
}

// Declare adds the options. dataDirUsage says what the scenario does with the
// broker's data directory.
func (o *Target) Declare(flags *cli.FlagSet, dataDirUsage string) {
	o.URI = defaultURI
	flags.Text(&o.URI, "", "uri", "URI", "broker to connect to")
	flags.Count(&o.Loops, "", "loops", "N", "event loops of this tool (default: cores, at most 2)")
	flags.Count(&o.BrokerPID, "", "broker-pid", "PID", "report CPU, memory and writes of this process")
	o.Output.Declare(flags)
	o.Record.Declare(flags, dataDirUsage)
}

// Finish checks the options and fills in what follows from them.
func (o *Target) Finish() error {
	address, err := session.ParseURI(o.URI)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	address.Client, address.ClientVersion = Program, ToolVersion()
	o.Address, o.URI = address, address.Redacted
	if o.Loops == 0 {
		o.Loops = min(loopsDefaultMax, runtime.NumCPU())
	}
	if o.Loops > loopsMax {
		return cli.Usagef("at most %d loops", loopsMax)
	}
	return nil
}

// End fills in what concerns a whole result: whether it is one, and where it was
// measured.
func (o *Target) End(ctx context.Context, head *results.Head, failure error) {
	head.Interrupted = ctx.Err() != nil
	if failure != nil {
		head.Error = failure.Error()
	}
	head.Environment = ReadEnvironment(o.Record)
}

// Begin is what every run begins with: it finds out whether the result can
// be written and the broker's process be read, and reserves processors for the
// loops until release is called.
func (o *Target) Begin() (release func(), err error) {
	if err := CheckWritable(o.Output.JSONFile); err != nil {
		return nil, err
	}
	if o.BrokerPID != 0 {
		if _, err := process.CPU(o.BrokerPID); err != nil {
			return nil, cli.Usagef("--broker-pid: can't read the figures of process %d: %v", o.BrokerPID, err)
		}
	}
	return client.ReserveProcessors(o.Loops), nil
}

// Control runs calls on a connection of their own, and notes who the broker is.
func (o *Target) Control(broker *results.Versions, calls func(*session.Session) error) error {
	s, err := session.Dial(o.Address)
	if err != nil {
		return err
	}
	defer s.Close()
	if broker != nil {
		broker.Tool, broker.BrokerProduct, broker.BrokerVersion = ToolVersion(), s.Product, s.Version
	}
	if err := calls(s); err != nil {
		return err
	}
	return s.Call(0, &amqp.ConnectionClose{ReplyCode: amqp.CodeSuccess}, &amqp.ConnectionCloseOk{})
}

// ReadUsage reads what the broker and the threads of these loops have used.
func ReadUsage(brokerPID int, loops []*client.Loop) process.Usage {
	threads := make([]int, len(loops))
	for i, l := range loops {
		threads[i] = int(l.ThreadID.Load())
	}
	return process.ReadUsage(brokerPID, threads)
}

// Look reads what the options allow to read of the broker's memory and disk.
func (o *Target) Look() (*results.BrokerLook, error) {
	result := &results.BrokerLook{}
	if o.BrokerPID > 0 {
		memory, err := process.Memory(o.BrokerPID)
		if err != nil {
			return nil, fmt.Errorf("can't read the broker's memory: %w", err)
		}
		result.Memory = &memory
	}
	if o.Record.DataDir != "" {
		disk, err := process.ReadDiskUsage(o.Record.DataDir)
		if err != nil {
			return nil, fmt.Errorf("can't read the size of the data directory: %w", err)
		}
		result.Disk = &disk
	}
	return result, nil
}

// Pause waits for a while, or until ctx ends.
func Pause(ctx context.Context, span time.Duration) {
	timer := time.NewTimer(span)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
