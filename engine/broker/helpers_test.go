package broker

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

func TestMain(m *testing.M) {
	// Longer histories than rapid's default of 30 steps; the command line may
	// say otherwise.
	if err := flag.Set("rapid.steps", "80"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// patience bounds waits for a condition; reaching it is a failure.
const patience = time.Minute

// tb is what *testing.T, *testing.F and *rapid.T share.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// testDisk is a Disk that a test can watch and hinder.
type testDisk struct {
	disk.Disk
	// lazy makes syncs do nothing: tests that end processes, not machines, find
	// again what was written.
	lazy bool

	mu     sync.Mutex
	writes map[string]int // by file name
	syncs  map[string]int
	// hinder is asked for each write and sync, from the submitting goroutine;
	// the operation waits for the channel (if any) and then fails with the
	// error (if any).
	hinder func(op *disk.Op) (wait <-chan struct{}, err error)
}

// syncs says whether an operation syncs its file.
func syncs(op *disk.Op) bool { return op.Kind == disk.Sync || op.Kind == disk.Write && op.SyncAfter }

func (d *testDisk) Submit(ops []*disk.Op) {
	for _, op := range ops {
		d.mu.Lock()
		if op.Kind == disk.Write {
			d.writes[op.File.Name()]++
		}
		if syncs(op) {
			d.syncs[op.File.Name()]++
		}
		hinder := d.hinder
		d.mu.Unlock()
		var wait <-chan struct{}
		var err error
		if hinder != nil {
			wait, err = hinder(op)
		}
		op.SyncAfter = op.SyncAfter && !d.lazy
		pass := err == nil && !(d.lazy && op.Kind == disk.Sync)
		if wait == nil && pass {
			d.Disk.Submit([]*disk.Op{op})
			continue
		}
		go func() {
			if wait != nil {
				<-wait
			}
			if pass {
				d.Disk.Submit([]*disk.Op{op})
				return
			}
			op.Err = err
			op.Done(op)
		}()
	}
}

func (d *testDisk) SyncDir(path string) error {
	if d.lazy {
		return nil
	}
	return d.Disk.SyncDir(path)
}

func (d *testDisk) setHinder(f func(op *disk.Op) (<-chan struct{}, error)) {
	d.mu.Lock()
	d.hinder = f
	d.mu.Unlock()
}

func (d *testDisk) syncsOf(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.syncs[name]
}

func (d *testDisk) writesOf(name string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.writes[name]
}

// env is an open broker on a directory.
type env struct {
	t        tb
	disk     *testDisk
	pool     *arena.Pool
	store    *segstore.Store
	broker   *Broker
	vh       *VHost
	progress chan struct{} // capacity 1: something may have become durable
	log      *logBuffer

	journaled []MetaRecord // that the start found
	opened    atomic.Pointer[Broker]
}

// cleanMark is a file that a stop in good order leaves.
const cleanMark = "clean"

// logBuffer collects what the broker logs.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// openDir opens a broker on dir; the caller closes or crashes it.
func openDir(t tb, dir string) *env {
	t.Helper()
	e, err := tryOpenDir(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func tryOpenDir(t tb, dir string) (*env, error) {
	t.Helper()
	posix, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tryOpen(t, &testDisk{Disk: posix, lazy: true}, segstore.Options{})
}

// openSim opens a broker on a simulated disk, whose syncs count.
func openSim(t tb, d *sim.Disk, change ...func(*Options)) *env {
	t.Helper()
	e, err := tryOpen(t, &testDisk{Disk: d}, segstore.Options{}, change...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// tryOpen opens a broker as engine.Engine does.
func tryOpen(t tb, d *testDisk, o segstore.Options, change ...func(*Options)) (*env, error) {
	t.Helper()
	d.writes, d.syncs = map[string]int{}, map[string]int{}
	e := &env{t: t, pool: new(arena.Pool), progress: make(chan struct{}, 1), log: &logBuffer{}, disk: d}
	logger := slog.New(slog.NewTextHandler(e.log, nil))
	o.Disk, o.Arena, o.Logger = d, e.pool, logger
	o.OnCommit = func() {
		select {
		case e.progress <- struct{}{}:
		default:
		}
		if b := e.opened.Load(); b != nil {
			b.Committed()
		}
	}
	o.OnMeta = func(seq uint64, rec []byte) error {
		e.journaled = append(e.journaled, MetaRecord{Seq: seq, Data: bytes.Clone(rec)})
		return nil
	}
	var err error
	if e.store, err = segstore.Open(o); err != nil {
		t.Fatal(err)
	}
	clean := d.Remove(cleanMark) == nil
	if err := d.SyncDir("."); err != nil {
		t.Fatal(err)
	}
	options := Options{Store: e.store, Disk: d, Logger: logger, Journaled: e.journaled, CleanStop: clean}
	for _, f := range change {
		f(&options)
	}
	e.broker, err = Open(options)
	if err != nil {
		_ = errors.Join(e.store.Close(), d.Close())
		return nil, err
	}
	e.opened.Store(e.broker)
	e.vh = e.broker.VHost(DefaultVHost)
	return e, nil
}

// tryOpenAt opens a broker whose clock is the test's; the test calls keeper.step.
func tryOpenAt(t tb, d *testDisk, o segstore.Options, now func() int64) (*env, error) {
	t.Helper()
	return tryOpen(t, d, o, func(o *Options) { o.now, o.manual = now, true })
}

// close stops in good order.
func (e *env) close() {
	e.t.Helper()
	e.broker.Close()
	e.closeBodies()
	err := e.store.Close()
	if err == nil {
		err = writeWhole(e.disk, cleanMark, []byte("in good order"))
	}
	if err == nil {
		err = e.disk.SyncDir(".")
	}
	if err = errors.Join(err, e.disk.Close()); err != nil {
		e.t.Errorf("close: %v", err)
	}
}

// crash stops as kill -9 would: what was not written is lost.
func (e *env) crash() {
	e.store.Crash()
	e.broker.Close()
	e.closeBodies()
	_ = e.disk.Close()
}

func (e *env) closeBodies() {
	if e.broker.bodies != nil {
		_ = e.broker.bodies.Close() // it has no errors
	}
}

// await waits until done, looking again after each commit and every millisecond.
func (e *env) await(what string, done func() bool) {
	e.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-e.progress:
		case <-tick.C:
		case <-deadline.C:
			e.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// durable waits for a definition record.
func (e *env) durable(seq uint64) {
	e.t.Helper()
	e.await(fmt.Sprintf("definition %d durable", seq), func() bool {
		if err := e.broker.defs.Err(); err != nil {
			e.t.Fatal(err)
		}
		return e.broker.defs.Durable() >= seq
	})
}

func (e *env) exchange(d ExchangeDeclare) {
	e.t.Helper()
	if _, err := e.vh.DeclareExchange(d); err != nil {
		e.t.Fatal(err)
	}
}

func (e *env) queue(d QueueDeclare, owner any) *Queue {
	e.t.Helper()
	q, _, _, err := e.vh.DeclareQueue(d, owner)
	if err != nil {
		e.t.Fatal(err)
	}
	return q
}

func (e *env) bind(b Binding) {
	e.t.Helper()
	if _, err := e.vh.Bind(b, nil); err != nil {
		e.t.Fatal(err)
	}
}

// publish appends one batch with the bodies given.
func (e *env) publish(q *Queue, bodies ...string) {
	e.t.Helper()
	b := segstore.NewBatch(e.pool)
	defer b.Release()
	b.Reset(0)
	template := b.Template(nil, []byte(q.Name), []byte{0, 0})
	for _, body := range bodies {
		b.Add(template, []byte(body))
	}
	if _, _, err := q.Publish(b, 0); err != nil {
		e.t.Fatal(err)
	}
}

// body reads one record of a queue's log.
func (e *env) body(q *Queue, offset uint64) string {
	e.t.Helper()
	body, _ := e.record(q, offset)
	return body
}

// record is body, and the properties.
func (e *env) record(q *Queue, offset uint64) (body string, properties []byte) {
	e.t.Helper()
	r := q.log.NewReader()
	defer r.Close()
	for {
		woken := make(chan struct{})
		err := r.Seek(offset, func() { close(woken) })
		if errors.Is(err, segstore.ErrNotResident) {
			select {
			case <-woken:
				continue
			case <-time.After(patience):
				e.t.Fatalf("offset %d: the read never came back", offset)
			}
		}
		if err != nil {
			e.t.Fatalf("offset %d: %v", offset, err)
		}
		var rec segstore.Record
		if !r.Next(&rec) || rec.Offset != offset {
			e.t.Fatalf("offset %d: the reader gives %d", offset, rec.Offset)
		}
		return string(rec.Body), bytes.Clone(r.Template(rec.Template).Properties)
	}
}

// wantError checks an error's reply code and text; code 0 wants none.
func wantError(t tb, err error, code uint16, text string) {
	t.Helper()
	if code == 0 {
		if err != nil {
			t.Errorf("unexpected error %v", err)
		}
		return
	}
	var e *amqp.Error
	if !errors.As(err, &e) {
		t.Errorf("got %v, want %d %s", err, code, text)
		return
	}
	if e.Code != code || e.Text != text {
		t.Errorf("got  %d %q\nwant %d %q", e.Code, e.Text, code, text)
	}
}
