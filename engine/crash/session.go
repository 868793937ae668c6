package crash

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Config of a Session.
type Config struct {
	Binary  string // the broker
	DataDir string
	Seed    uint64
	Args    []string // more flags of the broker
	Rules   Rules
	Power   bool // some lives end by an Outage
	// Logf tells what goes on; nil: nothing.
	Logf func(format string, args ...any)
}

// Outage takes away what the broker stands on; see Mount.
type Outage interface {
	// Cut stops the disk: nothing of what the process pid writes gets to it any
	// more.
	Cut(pid int) error
	// Restore makes the data directory usable again, as after a reboot. The
	// broker has ended.
	Restore() error
}

// Session is one data directory over many lives of the broker.
type Session struct {
	config    Config
	random    *rand.Rand
	ledger    *ledger
	churn     churner
	loaders   []loader
	transact  []*transactor
	sequences []uint64 // by publisher number
	life      int

	process *process

	cutting atomic.Bool // errors of workers are expected
	failing atomic.Bool // the disk is gone, nacks are expected
	broken  chan struct{}

	mu      sync.Mutex
	clients map[*client]bool
}

// loader is a worker of the load.
type loader interface {
	run(s *Session, r *rand.Rand) error
}

// The queues that carry messages.
var (
	directQueues   = []string{"direct.0", "direct.1", "direct.2", "direct.3"}
	fanoutQueues   = []string{"fanout.0", "fanout.1", "fanout.2"}
	transactQueues = [][]string{{"tx0.a", "tx0.b", "tx0.c"}, {"tx1.a", "tx1.b"}}
)

const (
	directExchange = "crash.direct"
	fanoutExchange = "crash.fanout"
)

// NewSession prepares a session on an empty data directory.
func NewSession(config Config) *Session {
	if config.Logf == nil {
		config.Logf = func(string, ...any) {}
	}
	s := &Session{config: config, random: rand.New(rand.NewPCG(config.Seed, 1)), ledger: newLedger(config.Rules)}
	s.churn = churner{answered: topology{}, tip: topology{}}
	direct := func(i, window int, large bool) *publisher {
		return &publisher{exchange: directExchange, key: directQueues[i], queues: directQueues[i : i+1], window: window, large: large}
	}
	publishers := []*publisher{
		direct(0, 1, false), direct(0, 500, false), direct(1, 10, false), direct(2, 100, false), direct(3, 4, true),
		{exchange: fanoutExchange, queues: fanoutQueues, window: 50},
		{exchange: fanoutExchange, queues: fanoutQueues, window: 1},
	}
	for i, p := range publishers {
		p.number = uint16(i)
		s.loaders = append(s.loaders, p)
	}
	for i, queues := range transactQueues {
		t := &transactor{number: uint16(len(publishers) + i), queues: queues}
		s.transact = append(s.transact, t)
		s.loaders = append(s.loaders, t)
	}
	s.loaders = append(s.loaders, &s.churn)
	s.sequences = make([]uint64, len(s.loaders))
	return s
}

// Counts returns what has been tried so far.
func (s *Session) Counts() Counts {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	return s.ledger.counts
}

// Err returns the broken promises found so far.
func (s *Session) Err() error {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if len(s.ledger.problems) == 0 {
		return nil
	}
	text := strings.Join(s.ledger.problems, "\n")
	if s.ledger.missed > 0 {
		text += fmt.Sprintf("\nand %d more", s.ledger.missed)
	}
	return errors.New(text)
}

// Ending is how a life ends.
type Ending struct {
	After  time.Duration // of load
	Outage Outage        // nil: the disk stays, the broker is killed
	Clean  bool          // SIGTERM instead
}

func (e Ending) kind() string {
	switch {
	case e.Clean:
		return "clean stop"
	case e.Outage != nil:
		return "power cut"
	}
	return "kill"
}

// Life runs one life of the broker with a backend of --io. It returns the
// first broken promises, or why the life could not take place.
func (s *Session) Life(backend string, ending Ending) error {
	s.life++
	loops := 1 + s.random.IntN(2)
	s.cutting.Store(false)
	s.failing.Store(false)
	s.broken = make(chan struct{})
	s.clients = map[*client]bool{}
	if s.life > 1 && s.random.IntN(6) == 0 {
		if err := s.killEarly(backend, loops); err != nil {
			return err
		}
	}
	if err := s.start(backend, loops); err != nil {
		return err
	}
	began := time.Now()
	if err := s.examine(); err != nil {
		s.report(err)
	}
	examined := time.Since(began)
	if err := s.Err(); err != nil {
		return errors.Join(err, s.process.kill())
	}
	if err := s.load(ending); err != nil {
		return err
	}
	s.config.Logf("life %d: %s, %d loops, examined in %s, %s after %s, at %.4f: %+v",
		s.life, backend, loops, examined.Round(time.Millisecond), ending.kind(), ending.After, s.ledger.lastCut.Sub(s.ledger.start).Seconds(), s.Counts())
	return s.Err()
}

// Verify starts the broker once more, audits every queue and stops it.
func (s *Session) Verify(backend string) error {
	s.life++
	s.cutting.Store(false)
	s.clients = map[*client]bool{}
	if err := s.start(backend, 1); err != nil {
		return err
	}
	if err := s.examine(); err != nil {
		s.report(err)
	}
	err := s.process.stop(os.Interrupt)
	s.ledger.cut(time.Now(), !s.config.Power)
	return errors.Join(s.Err(), err)
}

func (s *Session) start(backend string, loops int) (err error) {
	if s.process, err = launch(s.config.Binary, s.config.DataDir, backend, loops, s.config.Args...); err != nil {
		return err
	}
	if err := s.process.awaitReady(); err != nil {
		return errors.Join(err, s.process.kill())
	}
	return nil
}

// killEarly starts the broker and kills it while it recovers, or just after.
func (s *Session) killEarly(backend string, loops int) error {
	p, err := launch(s.config.Binary, s.config.DataDir, backend, loops, s.config.Args...)
	if err != nil {
		return err
	}
	timer := time.NewTimer(time.Duration(s.random.IntN(40_000)) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ended:
		return fmt.Errorf("crash: the broker ended while it started:\n%s", p.output())
	}
	return p.kill()
}

// report notes a problem with what the broker has said.
func (s *Session) report(err error) {
	s.ledger.problem("life %d: %v\nthe broker's last words:\n%s", s.life, err, s.process.output())
}

// examine compares what a restarted broker has with what is owed.
func (s *Session) examine() error {
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.Abort()
	if s.life == 1 {
		return s.declare(c)
	}
	found, err := observe(c)
	if err != nil {
		return err
	}
	if err := s.churn.check(found); err != nil {
		s.report(err) // the queues may tell more
	}
	for _, t := range s.transact {
		for _, queue := range t.queues {
			if err := s.audit(queue, auditPeek); err != nil {
				return err
			}
		}
		s.ledger.checkTransaction(t.pending)
		t.pending = nil
	}
	for _, queue := range append(append([]string(nil), directQueues...), fanoutQueues...) {
		if mode := s.auditMode(); mode != auditNone {
			if err := s.audit(queue, mode); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *Session) auditMode() auditMode {
	switch n := s.random.IntN(10); {
	case n < 6:
		return auditPeek
	case n < 8:
		return auditDrain
	}
	return auditNone
}

// declare makes the topology that carries messages.
func (s *Session) declare(c *client) error {
	if _, err := c.Call(1, &amqp.ExchangeDeclare{Exchange: []byte(directExchange), Type: []byte("direct"), Durable: true}, amqp.ExchangeDeclareOkID); err != nil {
		return err
	}
	if _, err := c.Call(1, &amqp.ExchangeDeclare{Exchange: []byte(fanoutExchange), Type: []byte("fanout"), Durable: true}, amqp.ExchangeDeclareOkID); err != nil {
		return err
	}
	queue := func(name, exchange string) error {
		if _, err := c.Call(1, &amqp.QueueDeclare{Queue: []byte(name), Durable: true}, amqp.QueueDeclareOkID); err != nil || exchange == "" {
			return err
		}
		_, err := c.Call(1, &amqp.QueueBind{Queue: []byte(name), Exchange: []byte(exchange), RoutingKey: []byte(name)}, amqp.QueueBindOkID)
		return err
	}
	var err error
	for _, name := range directQueues {
		err = errors.Join(err, queue(name, directExchange))
	}
	for _, name := range fanoutQueues {
		err = errors.Join(err, queue(name, fanoutExchange))
	}
	for _, queues := range transactQueues {
		for _, name := range queues {
			err = errors.Join(err, queue(name, ""))
		}
	}
	return err
}

// consumers chooses who consumes in this life: a queue without consumers
// gathers a backlog, one with two shares it.
func (s *Session) consumers() (chosen []loader) {
	for _, queue := range append(append([]string(nil), directQueues...), fanoutQueues...) {
		for range s.random.IntN(3) {
			chosen = append(chosen, &consumer{queue: queue, prefetch: uint16(1 + s.random.IntN(200))})
		}
	}
	return chosen
}

// load runs the workers until the cut.
func (s *Session) load(ending Ending) error {
	var workers sync.WaitGroup
	var once sync.Once
	for i, w := range append(append([]loader(nil), s.loaders...), s.consumers()...) {
		r := rand.New(rand.NewPCG(s.config.Seed+uint64(s.life)<<32, uint64(i)))
		workers.Go(func() {
			if err := w.run(s, r); err != nil && !s.cutting.Load() {
				s.report(fmt.Errorf("invariant 9: %T: %w", w, err))
				once.Do(func() { close(s.broken) })
			}
		})
	}
	wait(ending.After, s.broken, s.process.ended)
	select {
	case <-s.process.ended:
		s.report(errors.New("invariant 9: the broker ended by itself"))
	default:
	}
	if lines := s.process.errorLines(); len(lines) > 0 {
		s.report(fmt.Errorf("invariant 9: errors were logged: %s", strings.Join(lines, "; ")))
	}
	at, err := s.cut(ending)
	s.abortClients()
	workers.Wait()
	s.ledger.cut(at, ending.Outage != nil || !s.config.Power)
	return err
}

// wait passes time until one of the channels is closed; nil ones never are.
func wait(d time.Duration, broken, ended <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-broken:
	case <-ended:
	}
}

// afterCut is how long the load goes on without a disk (invariant 10).
const afterCut = 100 * time.Millisecond

// cut takes the broker down, and the disk before it if the ending says so. It
// returns the moment from which on nothing counts as settled any more.
func (s *Session) cut(ending Ending) (at time.Time, err error) {
	if ending.Clean {
		s.cutting.Store(true)
		s.ledger.stop()
		if err := s.process.stop(os.Interrupt); err != nil {
			return time.Now(), err
		}
		if code := s.process.cmd.ProcessState.ExitCode(); code != 0 {
			s.report(fmt.Errorf("a clean stop ended with status %d", code))
		}
		// Everything that was answered is on disk.
		return time.Now().Add(s.config.Rules.AckGrace), nil
	}
	if ending.Outage == nil {
		s.cutting.Store(true)
		at = time.Now()
		return at, s.process.kill()
	}
	s.failing.Store(true)
	s.cutting.Store(true)
	s.ledger.outage(false)
	at = time.Now()
	if err := ending.Outage.Cut(s.process.cmd.Process.Pid); err != nil {
		return at, errors.Join(err, s.process.kill())
	}
	s.ledger.outage(true)
	wait(afterCut, nil, s.process.ended)
	if err := s.process.kill(); err != nil {
		return at, err
	}
	return at, ending.Outage.Restore()
}
