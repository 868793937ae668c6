package crash

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// TestFeatures uses every feature of the broker over a restart in the middle: with
// each I/O backend, once stopped in good order and once killed. Before the end each
// feature is set up and in use; the second half goes on with the same things and
// checks what came of both halves. What is documented to be lost in a crash's last
// moments (values of deduplication, counts, tracked offsets) may be lost by a kill,
// and by nothing else.
func TestFeatures(t *testing.T) {
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	for _, backend := range backends(t, binary) {
		for _, ending := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			t.Run(backend+" "+ending.String(), func(t *testing.T) {
				t.Parallel()
				playFeatures(t, binary, backend, ending)
			})
		}
	}
}

func playFeatures(t *testing.T, binary, backend string, ending syscall.Signal) {
	dir := t.TempDir()
	var all []feature
	for _, list := range [][]feature{exchangeFeatures, queueFeatures, streamFeatures, adminFeatures} {
		all = append(all, list...)
	}
	live := func(half func(f *feature) func(l *life), signal syscall.Signal) {
		p, err := launch(binary, dir, backend, 2)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = p.kill() }()
		if err := p.awaitReady(); err != nil {
			t.Fatal(err)
		}
		var conns []*amqptest.Conn
		defer func() {
			for _, c := range conns {
				c.Abort()
			}
		}()
		for i := range all {
			f := &all[i]
			t.Run(f.name, func(t *testing.T) {
				l := &life{t: t, dir: dir, addr: p, killed: ending == syscall.SIGKILL}
				defer func() { conns = append(conns, l.conns...) }()
				l.open(amqptest.Options{})
				half(f)(l)
			})
		}
		if err := p.stop(signal); err != nil {
			t.Fatal(err)
		}
		if lines := p.errorLines(); len(lines) > 0 {
			t.Errorf("the broker logged\n%s", strings.Join(lines, "\n"))
		}
	}
	live(func(f *feature) func(l *life) { return f.before }, ending)
	if t.Failed() {
		return
	}
	live(func(f *feature) func(l *life) { return f.after }, syscall.SIGTERM)
}

// feature is used in two halves.
type feature struct {
	name          string
	before, after func(l *life)
}

// life is one half of one feature: a client whose channel 1 has confirms.
type life struct {
	*amqptest.Client
	t         *testing.T
	dir       string
	addr      *process
	killed    bool // the restart in the middle is one after a kill
	published uint64
	conns     []*amqptest.Conn // closed when the broker has ended
}

func (l *life) open(o amqptest.Options) {
	l.t.Helper()
	c, err := amqptest.Open(l.addr.Addr, o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.Client = amqptest.NewClientOf(l.t, c)
	l.conns = append(l.conns, c)
	amqptest.Ask[*amqp.ConfirmSelectOk](l.Client, 1, &amqp.ConfirmSelect{})
	l.published = 0
}

// args makes a table of names and values.
func args(pairs ...any) amqp.Table {
	b := new(amqp.TableBuilder)
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case string:
			b.SetString(name, v)
		case int:
			b.SetInt64(name, int64(v))
		case bool:
			b.SetBool(name, v)
		}
	}
	return b.Table()
}

func (l *life) queue(name string, pairs ...any) {
	l.t.Helper()
	amqptest.Ask[*amqp.QueueDeclareOk](l.Client, 1, l.QueueDeclare(name, amqptest.Durable, args(pairs...)))
}

func (l *life) exchange(name, kind string, pairs ...any) {
	l.t.Helper()
	amqptest.Ask[*amqp.ExchangeDeclareOk](l.Client, 1, l.ExchangeDeclare(name, kind, amqptest.Durable, args(pairs...)))
}

func (l *life) bind(queue, exchange, key string, pairs ...any) {
	l.t.Helper()
	amqptest.Ask[*amqp.QueueBindOk](l.Client, 1, l.QueueBind(queue, exchange, key, args(pairs...)))
}

// publish sends a persistent message and says whether it was confirmed.
func (l *life) publish(exchange, key, body string, change ...func(p *amqp.Properties)) bool {
	l.t.Helper()
	p := amqp.Properties{Flags: amqp.FlagDeliveryMode, DeliveryMode: 2}
	for _, f := range change {
		f(&p)
	}
	l.Publish(1, amqptest.Message{Exchange: exchange, Key: key, Body: body, Properties: &p})
	l.published++
	switch m := l.Read().Method.(type) {
	case *amqp.BasicAck:
		return m.DeliveryTag == l.published
	case *amqp.BasicNack:
		return false
	default:
		l.t.Fatalf("%T instead of a confirm", m)
		return false
	}
}

// send is publish that must be confirmed.
func (l *life) send(exchange, key string, bodies ...string) {
	l.t.Helper()
	for _, body := range bodies {
		if !l.publish(exchange, key, body) {
			l.t.Fatalf("%s was refused", body)
		}
	}
}

func header(pairs ...any) func(p *amqp.Properties) {
	return func(p *amqp.Properties) {
		p.Flags |= amqp.FlagHeaders
		p.Headers = args(pairs...)
	}
}

func rank(n uint8) func(p *amqp.Properties) {
	return func(p *amqp.Properties) { p.Flags, p.Priority = p.Flags|amqp.FlagPriority, n }
}

// drain gets everything there is: bodies, with "!" where redelivered is set.
func (l *life) drain(queue string) (bodies []string) {
	l.t.Helper()
	for {
		got := l.Get(1, queue, amqptest.NoAck)
		if !got.Content {
			return bodies
		}
		bodies = append(bodies, show(got))
	}
}

func show(got amqptest.Event) string {
	flag := ""
	switch m := got.Method.(type) {
	case *amqp.BasicGetOk:
		flag = strings.Repeat("!", map[bool]int{true: 1}[m.Redelivered])
	case *amqp.BasicDeliver:
		flag = strings.Repeat("!", map[bool]int{true: 1}[m.Redelivered])
	}
	return string(got.Body) + flag
}

// plain leaves the flags away: after a kill everything that is left is flagged.
func plain(bodies []string) (out []string) {
	for _, b := range bodies {
		out = append(out, strings.TrimSuffix(b, "!"))
	}
	return out
}

// want drains a queue and compares bodies.
func (l *life) want(queue string, bodies ...string) {
	l.t.Helper()
	if got := plain(l.drain(queue)); !slices.Equal(got, bodies) {
		l.t.Errorf("%s: got %q, want %q", queue, got, bodies)
	}
}

// ready is how many messages a queue has.
func (l *life) ready(queue string) int {
	l.t.Helper()
	return int(amqptest.Ask[*amqp.QueueDeclareOk](l.Client, 1, l.QueueDeclare(queue, amqptest.Passive, nil)).MessageCount)
}

// until waits for a condition.
func (l *life) until(what string, done func() bool) {
	l.t.Helper()
	for deadline := time.Now().Add(startPatience); !done(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			l.t.Fatalf("does not come true: %s", what)
		}
	}
}

// headerOf is a header's value in the first message of an event, as text.
func headerOf(t *testing.T, got amqptest.Event, name string) string {
	t.Helper()
	p, err := amqp.DecodeProperties(got.Properties)
	if err != nil {
		t.Fatal(err)
	}
	v, ok := p.Headers.Lookup(name)
	if !ok {
		return ""
	}
	if text, ok := v.Bytes(); ok {
		return string(text)
	}
	n, _ := v.Int64()
	return fmt.Sprint(n)
}

// administer sends a request to the broker's control socket.
func (l *life) administer(method, path, body string) (answer string) {
	l.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return admin.Dial(ctx, filepath.Join(l.dir, admin.SocketName))
	}}}
	request, err := http.NewRequest(method, "http://broker"+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode >= 300 {
		l.t.Fatalf("%s %s: %s %s, %v", method, path, response.Status, data, err)
	}
	return string(data)
}
