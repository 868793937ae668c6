package perf

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/perf/features"
	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/scenario"
	"github.com/basaltmq/basaltmq/perf/session"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// runFeatures measures all features in next to no time. A machine with other
// things to do may not get a message through in so little; then it gets more.
func runFeatures(t *testing.T, uri string) (result *results.Features) {
	t.Helper()
	address, err := session.ParseURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	scale := features.DefaultScale()
	scale.Warmup, scale.Calibrate = 10*time.Millisecond, 20*time.Millisecond
	scale.Delayed, scale.Stream, scale.Bindings, scale.Headers = 50, 1000, 2000, 1000
	for scale.Time = 50 * time.Millisecond; scale.Time < 10*time.Second; scale.Time *= 4 {
		runner := &features.Runner{Tool: mainTool{}, URI: uri, LimitedURI: uri, Scale: scale, Target: scenario.Target{Address: address}}
		if result, err = runner.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		tooSlow := slices.ContainsFunc(result.LeftOut, func(l results.LeftOut) bool {
			return strings.Contains(l.Reason, "nothing arrived") || strings.Contains(l.Reason, "the broker did nothing")
		})
		tooSlow = tooSlow || slices.ContainsFunc(result.Rows, func(row *results.FeatureRow) bool {
			return row.Relay == nil && (row.Unit == "messages" || row.Unit == "deliveries")
		})
		if !tooSlow {
			break
		}
		scale.Calibrate *= 4
	}
	return result
}

// Whatever the broker has is measured, and what it has not is named.
func TestFeatures(t *testing.T) {
	t.Parallel()
	uri, _ := startEngine(t)
	result := runFeatures(t, uri)
	if err := result.Check(); err != nil {
		t.Error(err)
	}
	rows := map[string]*results.FeatureRow{}
	for _, row := range result.Rows {
		if rows[row.Name] != nil {
			t.Errorf("two rows are called %s", row.Name)
		}
		rows[row.Name] = row
		if row.Base != "" && (row.OfBase == nil || *row.OfBase <= 0) {
			t.Errorf("%s is not set against %s", row.Name, row.Base)
		}
	}
	for _, name := range []string{
		"plain", "ttl", "expiration", "max-length", "max-length-bytes", "publish-only", "max-length-drop", "header", "dedup-new", "dedup-dropped",
		"permissions", "priority-unused", "topic-1", "topic-10000", "headers-1", "headers-1000", "fanout-1", "fanout-10", "fanout-50", "dlx-ttl", "dlx-max-length",
		"stream-1", "stream-10", "bindings-transient", "bindings-durable", "plain-after",
	} {
		if rows[name] == nil {
			t.Errorf("%s was not measured: %+v", name, result.LeftOut)
		}
	}
	for _, name := range []string{"plain", "topic-10000", "fanout-50", "dlx-ttl"} {
		if row := rows[name]; row != nil && (row.Relay == nil || row.Relay.Fraction <= 0) {
			t.Errorf("%s has no fraction of the relay", name)
		}
	}
	for _, left := range result.LeftOut {
		if left.Reason == "" {
			t.Errorf("%s was left out without a reason", left.Figure)
		}
	}
	// The broker is left without the queues and exchanges.
	address, err := session.ParseURI(uri)
	if err != nil {
		t.Fatal(err)
	}
	target := scenario.Target{Address: address}
	for _, queue := range []string{"perf-feature-queue", "perf-feature-queue-1", "perf-feature-queue-2"} {
		err := target.Control(nil, func(s *session.Session) error {
			return s.Call(session.ClientChannel, &amqp.QueueDeclare{Queue: []byte(queue), Passive: true}, &amqp.QueueDeclareOk{})
		})
		if err == nil || !strings.Contains(err.Error(), "404") {
			t.Errorf("%s: %v", queue, err)
		}
	}
}

// Messages that differ are as many as asked for, in turn.
func TestVaryPublishesDifferentMessages(t *testing.T) {
	t.Parallel()
	uri, _ := startEngine(t)
	code, stdout, stderr := runMain(t.Context(), "throughput", "--uri", uri, "-u", "varied", "-q", "-j", "-C", "500", "--vary", "20",
		"--properties", `{"headers":{"x-deduplication-header":"%"}}`, "--queue-args", `{"x-message-deduplication":true,"x-cache-size":1000}`)
	if code != exitOK || !strings.Contains(stdout, `"consumed_total": 20,`) || !strings.Contains(stdout, `"published_total": 500,`) {
		t.Errorf("exit status %d, %s%s", code, stdout, stderr)
	}
	code, _, stderr = runMain(t.Context(), "throughput", "--uri", uri, "-u", "varied", "-C", "5", "--vary", "20", "--properties", `{"priority":%}`)
	if code != exitUsage || !strings.Contains(stderr, "--properties") {
		t.Errorf("a number with leading zeros: exit status %d, %s", code, stderr)
	}
}
