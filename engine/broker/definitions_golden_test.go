package broker

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// goldenDefinitions are definitions files as versions of the broker wrote them.
// A file is never changed: what was written must be read for ever. A new kind of
// record or field gets a file of its own.
var goldenDefinitions = map[string]func() []byte{
	"classic": func() []byte {
		vh := &VHost{Name: "/"}
		return snapshotFile(41,
			fields{recNextLogID}.num(300),
			exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "direct", Type: "direct", Arguments: stringArgument("alternate-exchange", "fanout")}),
			exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "fanout", Type: "fanout", AutoDelete: true}),
			exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "topic", Type: "topic", Internal: true}),
			exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "headers", Type: "headers"}),
			queueRecord(recQueueDeclare, vh, &Queue{Name: "orders", ID: 7, Arguments: intArgument("x-max-length", 5)}),
			queueRecord(recQueueDeclare, vh, &Queue{Name: "auto", ID: 200, AutoDelete: true}),
			bindingRecord(recBind, vh, &Binding{Source: "direct", Queue: "orders", RoutingKey: "k"}),
			bindingRecord(recBind, vh, &Binding{Source: "topic", Exchange: "fanout", ToExchange: true, RoutingKey: "a.#"}),
			bindingRecord(recBind, vh, &Binding{Source: "headers", Queue: "auto", Arguments: stringArgument("x-match", "any")}),
			bindingRecord(recBind, vh, &Binding{Source: "amq.topic", Queue: "auto", RoutingKey: "*"}),
			bindingRecord(recUnbind, vh, &Binding{Source: "amq.topic", Queue: "auto", RoutingKey: "*"}))
	},
	"exchanges": func() []byte {
		vh := &VHost{Name: "/"}
		return snapshotFile(17,
			fields{recNextLogID}.num(20),
			exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "ring", Type: "x-consistent-hash", Arguments: stringArgument("hash-header", "customer")}),
			exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "jump", Type: "x-consistent-hash", Arguments: table(func(b *amqp.TableBuilder) {
				b.SetString("x-algorithm", "jump")
				b.SetString("hash-property", "message_id")
			})}),
			exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "modulus", Type: "x-modulus-hash"}),
			exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "random", Type: "x-random"}),
			exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "history", Type: "x-recent-history", Arguments: intArgument("x-recent-history-length", 3), history: &Queue{ID: 12}}),
			queueRecord(recQueueDeclare, vh, &Queue{Name: "q", ID: 9}),
			bindingRecord(recBind, vh, &Binding{Source: "ring", Queue: "q", RoutingKey: "2"}),
			bindingRecord(recBind, vh, &Binding{Source: "history", Queue: "q"}))
	},
}

// describeDefinitions is dump with what arguments came to.
func describeDefinitions(vh *VHost) string {
	lines := dump(vh)
	for _, e := range vh.exchanges {
		if isPredeclared(e.Name) {
			continue
		}
		line := fmt.Sprintf("arguments of exchange %s: %x", e.Name, []byte(e.Arguments))
		if name, ok := e.alternate(); ok {
			line += " alternate=" + name
		}
		if e.spread != (spread{}) {
			line += fmt.Sprintf(" spread=%+v", e.spread)
		}
		if h := e.history; h != nil {
			line += fmt.Sprintf(" history=%d log=%d", h.keeps(), h.ID)
		}
		lines = append(lines, line)
	}
	for _, q := range vh.queues {
		lines = append(lines, fmt.Sprintf("arguments of queue %s: %x log=%d", q.Name, []byte(q.Arguments), q.ID))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// TestDefinitions_Golden reads what every version has written.
func TestDefinitions_Golden(t *testing.T) {
	t.Parallel()
	path := func(name, ext string) string { return filepath.Join("testdata", "definitions", name+ext) }
	for name, make := range goldenDefinitions {
		if _, err := os.Stat(path(name, ".bin")); err != nil && *updateGolden {
			if err := os.WriteFile(path(name, ".bin"), make(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	files, err := filepath.Glob(path("*", ".bin"))
	if err != nil || len(files) < len(goldenDefinitions) {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".bin")
		b := emptyBroker()
		if _, err := readSnapshot(data, b.apply); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ReadDefinitions(data, func(i DefinitionInfo) {
			if i.Err != nil {
				t.Errorf("%s: %+v", name, i)
			}
		})
		got := describeDefinitions(b.vhosts[DefaultVHost])
		if *updateGolden {
			if err := os.WriteFile(path(name, ".txt"), []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path(name, ".txt"))
		if err != nil || got != string(want) {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, want)
		}
	}
}
