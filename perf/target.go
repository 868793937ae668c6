package perf

import (
	"runtime"

	"github.com/basaltmq/basaltmq/perf/cli"
	"github.com/basaltmq/basaltmq/perf/client"
	"github.com/basaltmq/basaltmq/perf/process"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

const (
	defaultURI      = "amqp://guest:guest@127.0.0.1:5672/"
	loopsMax        = 256
	loopsDefaultMax = 2
)

// targetOptions are the options of all scenarios that measure a broker: which
// one, what is known about it, and where the result goes.
type targetOptions struct {
	URI       string `json:"uri"` // without the password
	Loops     int    `json:"loops"`
	BrokerPID int    `json:"broker_pid,omitempty"`

	Output outputOptions `json:"-"`
	Record recordOptions `json:"-"`
	target session.Address
}

// declare adds the options. dataDirUsage says what the scenario does with the
// broker's data directory.
func (o *targetOptions) declare(flags *cli.FlagSet, dataDirUsage string) {
	o.URI = defaultURI
	flags.Text(&o.URI, "", "uri", "URI", "broker to connect to")
	flags.Count(&o.Loops, "", "loops", "N", "event loops of this tool (default: cores, at most 2)")
	flags.Count(&o.BrokerPID, "", "broker-pid", "PID", "report CPU, memory and writes of this process")
	o.Output.declare(flags)
	o.Record.declare(flags, dataDirUsage)
}

// finish checks the options and fills in what follows from them.
func (o *targetOptions) finish() error {
	address, err := session.ParseURI(o.URI)
	if err != nil {
		return cli.Usagef("%v", err)
	}
	address.Client, address.ClientVersion = program, toolVersion()
	o.target, o.URI = address, address.Redacted
	if o.Loops == 0 {
		o.Loops = min(loopsDefaultMax, runtime.NumCPU())
	}
	if o.Loops > loopsMax {
		return cli.Usagef("at most %d loops", loopsMax)
	}
	return nil
}

// prepare is what every run begins with: it finds out whether the result can
// be written and the broker's process be read, and reserves processors for the
// loops until release is called.
func (o *targetOptions) prepare() (release func(), err error) {
	if err := checkWritable(o.Output.JSONFile); err != nil {
		return nil, err
	}
	if o.BrokerPID != 0 {
		if _, err := process.CPU(o.BrokerPID); err != nil {
			return nil, cli.Usagef("--broker-pid: can't read the figures of process %d: %v", o.BrokerPID, err)
		}
	}
	return client.ReserveProcessors(o.Loops), nil
}

// control runs calls on a connection of their own, and notes who the broker is.
func (o *targetOptions) control(broker *versions, calls func(*session.Session) error) error {
	s, err := session.Dial(o.target)
	if err != nil {
		return err
	}
	defer s.Close()
	if broker != nil {
		broker.Tool, broker.BrokerProduct, broker.BrokerVersion = toolVersion(), s.Product, s.Version
	}
	if err := calls(s); err != nil {
		return err
	}
	return s.Call(0, &amqp.ConnectionClose{ReplyCode: amqp.CodeSuccess}, &amqp.ConnectionCloseOk{})
}

// newLoops makes event loops that report to owner.
func newLoops(count int, owner client.LoopOwner) (loops []*client.Loop, err error) {
	for range count {
		l, err := client.NewLoop(owner)
		if err != nil {
			closeLoops(loops)
			return nil, err
		}
		loops = append(loops, l)
	}
	return loops, nil
}

// stopLoops says goodbye on all connections and waits for the loops.
func stopLoops(loops []*client.Loop) {
	for _, l := range loops {
		l.Stop()
	}
	for _, l := range loops {
		<-l.Done
	}
}

func closeLoops(loops []*client.Loop) {
	for _, l := range loops {
		l.Close()
	}
}
