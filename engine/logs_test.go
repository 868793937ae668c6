package engine_test

import (
	"bufio"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/logs"
	"github.com/basaltmq/basaltmq/engine/stats"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// logged starts a broker whose log is followed, with an API.
func logged(t *testing.T, change ...func(*engine.Config)) (*engine.Engine, *slog.Logger) {
	tap := logs.NewTap(slog.NewTextHandler(io.Discard, nil))
	logger := slog.New(tap)
	change = append(change, func(c *engine.Config) {
		c.Log, c.Logger, c.LogExchange = tap, logger, true
		c.HTTP = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)
	})
	return start(t, change...), logger
}

// TestLogExchange: lines come to who binds, by severity; clients cannot publish
// to the exchange; lines that publishing leads to do not feed themselves.
func TestLogExchange(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(c *engine.Config) { c.DataDir = dir }
	e, logger := logged(t, at)
	c := open(t, e)
	c.Declare("warnings", amqptest.Durable)
	amqptest.Ask[*wire.QueueBindOk](c, 1, c.QueueBind("warnings", "amq.basaltmq.log", "warn", nil))
	logger.Info("not this")
	logger.Warn("this one", "n", 1)
	c.Subscribe(1, "warnings", "t", amqptest.NoAck)
	for {
		got := amqptest.Expect[*wire.BasicDeliver](c)
		m := got.Method.(*wire.BasicDeliver)
		if string(m.Exchange) != "amq.basaltmq.log" || string(m.RoutingKey) != "warn" || strings.Contains(string(got.Body), "not this") {
			t.Fatal(got)
		}
		if strings.HasSuffix(string(got.Body), `level=WARN msg="this one" n=1`) {
			break
		}
	}
	c.Publish(1, amqptest.Message{Exchange: "amq.basaltmq.log", Key: "warn", Body: "forged"})
	c.Want("1 channel.close 403 (60,40) ACCESS_REFUSED*")
	eventually(t, "the exchange counts its messages", func() bool { // after they are in their queues
		return exchangeCounts(e.Broker().VHost("/"), "amq.basaltmq.log")[stats.PublishIn] > 0
	})
}

// TestLogExchange_BindingStays: bindings to the log exchange survive a restart.
func TestLogExchange_BindingStays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	run := func(f func(e *engine.Engine, logger *slog.Logger)) {
		tap := logs.NewTap(slog.NewTextHandler(io.Discard, nil))
		e, err := engine.Start(engine.Config{DataDir: dir, Loops: 1, Logger: slog.New(tap), Log: tap, LogExchange: true})
		if err != nil {
			t.Fatal(err)
		}
		f(e, slog.New(tap))
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	run(func(e *engine.Engine, _ *slog.Logger) {
		c := open(t, e)
		c.Declare("all", amqptest.Durable)
		amqptest.Ask[*wire.QueueBindOk](c, 1, c.QueueBind("all", "amq.basaltmq.log", "#", nil))
		c.Abort()
	})
	run(func(e *engine.Engine, logger *slog.Logger) {
		q := e.Broker().VHost("/").FindQueue("all")
		before := q.Counts().Ready
		logger.Info("hello")
		eventually(t, "a line is in the queue", func() bool { return q.Counts().Ready > before })
	})
}

// TestLiveLog: administrators follow the log over the API; a stop of the broker
// does not wait for them.
func TestLiveLog(t *testing.T) {
	t.Parallel()
	e, logger := logged(t)
	get := func(path, user string) *http.Response {
		r, _ := http.NewRequest(http.MethodGet, "http://"+e.HTTPAddr().String()+path, nil)
		r.SetBasicAuth(user, user)
		answer, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { answer.Body.Close() })
		return answer
	}
	logger.Error("a line to be found")
	text, err := io.ReadAll(get("/api/logs", "guest").Body)
	if err != nil || !strings.Contains(string(text), `level=ERROR msg="a line to be found"`) {
		t.Errorf("%v: %s", err, text)
	}
	lines := bufio.NewScanner(get("/api/livelog", "guest").Body)
	found := func(what string) {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), what) {
				return
			}
		}
		t.Errorf("%q did not come: %v", what, lines.Err())
	}
	found("a line to be found")
	logger.Info("and one that comes")
	found("and one that comes")
	if status := get("/api/livelog", "nobody").StatusCode; status != http.StatusUnauthorized {
		t.Errorf("nobody gets %d", status)
	}
}
