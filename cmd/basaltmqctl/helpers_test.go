package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/inspect"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

var updateGolden = flag.Bool("update", false, "write testdata anew")

// result is how a command line ended.
type result struct {
	status         int
	stdout, stderr string
}

func ctl(arguments ...string) result {
	var stdout, stderr bytes.Buffer
	status := run(context.Background(), arguments, &stdout, &stderr)
	return result{status, stdout.String(), stderr.String()}
}

// golden compares text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *updateGolden {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s\nwant\n%s", name, got, want)
	}
}

// clock of the records: 2023-11-14T22:13:20Z.
const testTime = 1_700_000_000_000

// makeDir is a data directory with the queues "orders" (log 1, with messages),
// "empty" (log 2) and "gone" (deleted), as a broker that was killed leaves it.
func makeDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	posix, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	pool, committed := new(arena.Pool), make(chan struct{}, 1)
	open := func() *segstore.Store {
		s, err := segstore.Open(segstore.Options{Disk: posix, Arena: pool, SegmentBytes: 1024, OnCommit: func() {
			select {
			case committed <- struct{}{}:
			default:
			}
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	b, err := broker.Open(broker.Options{Store: s, Disk: posix, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	vh := b.VHost(broker.DefaultVHost)
	for _, name := range []string{"orders", "empty", "gone"} {
		if _, _, _, err := vh.DeclareQueue(broker.QueueDeclare{Name: name, Durable: true}, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := vh.DeleteQueue([]byte("gone"), false, false, nil); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	l, err := s.OpenLog(1, segstore.LogOptions{})
	if err != nil {
		t.Fatal(err)
	}
	fill(t, l, segstore.NewBatch(pool))
	l.WantDurable()
	for l.Durable() < l.Next() {
		<-committed
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open() // what is settled before it is in a segment never gets there
	if l, err = s.OpenLog(1, segstore.LogOptions{}); err != nil {
		t.Fatal(err)
	}
	l.Settle(1, 1)
	if err := errors.Join(s.Close(), posix.Close(), os.WriteFile(filepath.Join(dir, inspect.LockName), nil, 0o640)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// fill appends messages of all sorts.
func fill(t *testing.T, l *segstore.Log, b *segstore.Batch) {
	t.Helper()
	defer b.Release()
	var nested amqp.TableBuilder
	nested.SetValue("inner", amqp.Int64Value(-5))
	var headers amqp.TableBuilder
	for _, f := range []struct {
		name  string
		value amqp.Value
	}{
		{"bool", amqp.BoolValue(true)}, {"int", amqp.Int32Value(-7)}, {"float", amqp.Float64Value(1.5)},
		{"decimal", amqp.DecimalValue(2, 314)}, {"time", amqp.TimestampValue(1_600_000_000)}, {"text", amqp.String("v\x1b[1m")},
		{"bytes", amqp.BytesValue([]byte{0xFF, 0})}, {"void", amqp.VoidValue()}, {"table", amqp.TableValue(nested.Table())},
		{"array", amqp.ArrayValue(amqp.ArrayOf(amqp.Int8Value(1), amqp.String("two")))},
	} {
		headers.SetValue(f.name, f.value)
	}
	full := amqp.Properties{
		ContentType: []byte("text/plain"), Headers: headers.Table(), DeliveryMode: 2, Priority: 4, CorrelationID: []byte("c-1"),
		Expiration: []byte("60000"), Timestamp: 1_700_000_000, AppID: []byte("shop"),
		Flags: amqp.FlagContentType | amqp.FlagHeaders | amqp.FlagDeliveryMode | amqp.FlagPriority | amqp.FlagCorrelationID |
			amqp.FlagExpiration | amqp.FlagTimestamp | amqp.FlagAppID,
	}
	messages := []struct {
		exchange, key string
		properties    []byte
		body          string
	}{
		{"", "orders", []byte{0, 0}, "first"},
		{"", "orders", []byte{0, 0}, "settled"},
		{"shop", "order.new", full.Append(nil), "{\"id\": 1}\n"},
		{"shop", "bad \x00 properties", []byte{0xFF, 0xFF, 1}, ""},
		{"shop", "binary", []byte{0, 0}, "\x00\x01\xFE\xFF" + strings.Repeat("x", 1200)},
	}
	for i, m := range messages {
		b.Reset(testTime + int64(i)*1500)
		b.Add(b.Template([]byte(m.exchange), []byte(m.key), m.properties), []byte(m.body))
		if _, err := l.Append(b); err != nil {
			t.Fatal(err)
		}
	}
}

// segmentOf is a path in dir of a segment of log 1.
func segmentOf(t *testing.T, dir string) string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "logs", "*1", "*.seg"))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	return all[0]
}

// flip changes one bit of a file; pos counts from its end when negative.
func flip(t *testing.T, path string, pos int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if pos < 0 {
		pos += len(data)
	}
	data[pos] ^= 4
	if err := os.WriteFile(path, data, 0o640); err != nil {
		t.Fatal(err)
	}
}
