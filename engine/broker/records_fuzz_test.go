package broker

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// FuzzRecords replays arbitrary definition records (each behind its length in
// one byte). Whatever they say, replaying ends in a state whose snapshot leads
// to the same state, or in an error.
func FuzzRecords(f *testing.F) {
	vh := &VHost{Name: "/"}
	records := [][]byte{
		exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "e", Type: "topic", AutoDelete: true}),
		exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "f", Type: "headers", Internal: true}),
		queueRecord(recQueueDeclare, vh, &Queue{Name: "q", ID: 300, Arguments: intArgument("n", 1)}),
		bindingRecord(recBind, vh, &Binding{Source: "e", Queue: "q", RoutingKey: "k.#"}),
		bindingRecord(recBind, vh, &Binding{Source: "e", Exchange: "f", ToExchange: true, RoutingKey: "k"}),
		bindingRecord(recBind, vh, &Binding{Source: "f", Queue: "q", Arguments: stringArgument("x-match", "any")}),
		fields{recNextLogID}.num(1000),
		queueRecord(recQueueDeclare, vh, &Queue{Name: "q", ID: 301}),
		bindingRecord(recUnbind, vh, &Binding{Source: "e", Queue: "q", RoutingKey: "k.#"}),
		exchangeRecord(recExchangeDelete, vh, &Exchange{Name: "f"}),
		queueRecord(recQueueDelete, vh, &Queue{Name: "q", ID: 300}),
		groupRecord(fields{recAccess}.num(accessVersion), vhostRecord(&VHostSpec{Name: "/", Tags: []string{"t"}})),
		vhostRecord(&VHostSpec{Name: "v", Description: "d", DefaultQueueType: "stream", Limits: access.Limits{access.MaxQueues: 3}}),
		userRecord(access.Spec{Name: "joe", Password: access.Hash{Algorithm: access.SHA256, Text: "x"}, Tags: []string{"a", "b"}, Limits: access.Limits{access.MaxChannels: 1}}),
		permissionsRecord(access.UserPermissions{User: "joe", VHost: "v", Permissions: access.Permissions{Configure: "c", Write: "w", Read: "r"}}),
		topicRecord(access.UserTopicPermissions{User: "joe", VHost: "v", Exchange: "e", TopicPermissions: access.TopicPermissions{Write: "^{username}"}}),
		queueRecord(recQueueDeclare, &VHost{Name: "v"}, &Queue{Name: "q", ID: 302}),
		fields{recTopicClear}.str("v").str("joe").str("e"),
		fields{recPermissionsClear}.str("v").str("joe"),
		fields{recVHostDelete}.str("v"),
		fields{recUserDelete}.str("joe"),
		exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "h", Type: typeRecentHistory, history: &Queue{ID: 302}}),
		exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "c", Type: typeConsistentHash, Arguments: stringArgument("hash-header", "h")}),
	}
	var all []byte
	for _, rec := range records {
		one := append([]byte{byte(len(rec))}, rec...)
		f.Add(one)
		all = append(all, one...)
		f.Add(slices.Clone(all))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b := emptyBroker()
		for len(data) > 1 {
			n := min(1+int(data[0]), len(data))
			if rec := data[1:n]; len(rec) > 0 {
				if err := b.apply(rec); err != nil {
					return
				}
			}
			data = data[n:]
		}
		b.forgetUnrecorded()
		again := emptyBroker()
		for name, vh := range b.vhosts {
			checkBookkeeping(t, vh)
			if !b.seeded {
				again.vhost(name) // one without contents leaves no record
			}
		}
		b.snapshot(slices.Collect(maps.Values(b.vhosts)), func(rec []byte) {
			if err := again.apply(rec); err != nil {
				t.Fatalf("the snapshot is not readable: %v", err)
			}
		})
		again.forgetUnrecorded()
		if got, want := dumpAccess(again), dumpAccess(b); !slices.Equal(got, want) {
			t.Fatalf("the snapshot leads to\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
		}
		for name, vh := range b.vhosts {
			got, want := dump(again.vhosts[name]), dump(vh)
			if !slices.Equal(got, want) {
				t.Fatalf("the snapshot leads to\n  %s\nwant\n  %s", strings.Join(got, "\n  "), strings.Join(want, "\n  "))
			}
		}
	})
}

// emptyBroker is one that can replay records, and nothing else.
func emptyBroker() *Broker {
	b := &Broker{logger: slog.New(slog.DiscardHandler), vhosts: map[string]*VHost{}, users: access.NewRegistry(), dropped: map[uint64]bool{}, parameters: map[parameterKey][]byte{}}
	b.vhost(DefaultVHost)
	return b
}

// FuzzDefinitionsFile reads arbitrary bytes as a definitions file: it is refused,
// or what was read can be written and read again. ReadDefinitions sees the same.
func FuzzDefinitionsFile(f *testing.F) {
	vh := &VHost{Name: "/"}
	f.Add(snapshotFile(0))
	f.Add(everyDefinition())
	file := snapshotFile(1<<40,
		exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "e", Type: "topic"}),
		queueRecord(recQueueDeclare, vh, &Queue{Name: "q", ID: 3}),
		bindingRecord(recBind, vh, &Binding{Source: "e", Queue: "q"}))
	f.Add(slices.Clone(file))
	f.Add(file[:len(file)-3])
	f.Add(append(slices.Clone(file), make([]byte, 30)...))
	f.Add(append(slices.Clone(file), file[len(definitionsMagic):]...))
	f.Fuzz(func(t *testing.T, data []byte) {
		var records [][]byte
		seq, err := readSnapshot(data, func(rec []byte) error {
			records = append(records, rec)
			return nil
		})
		infos, bad := 0, false
		ReadDefinitions(data, func(info DefinitionInfo) {
			infos++
			bad = bad || errors.Is(info.Err, ErrDefinitionsHeader) || errors.Is(info.Err, ErrDefinitionsDamaged) || errors.Is(info.Err, ErrDefinitionsCount)
		})
		if (err != nil) != bad {
			t.Fatalf("readSnapshot says %v, ReadDefinitions damaged: %v", err, bad)
		}
		if err != nil {
			return
		}
		if infos != len(records)+1 {
			t.Fatalf("ReadDefinitions has %d records, want %d", infos, len(records)+1)
		}
		d := &memoryDisk{files: map[string][]byte{}}
		if err := (&Definitions{disk: d}).save(seq, records); err != nil {
			t.Fatal(err)
		}
		var again [][]byte
		defs, err := loadDefinitions(d, nil, nil, func(rec []byte) error {
			again = append(again, rec)
			return nil
		})
		if err != nil || defs.Last() != seq || !slices.EqualFunc(records, again, bytes.Equal) {
			t.Fatalf("written with %d records up to %d, read %d (%v)", len(records), seq, len(again), err)
		}
	})
}

// memoryDisk is as much of a Disk as the definitions file needs.
type memoryDisk struct {
	disk.Disk
	files map[string][]byte
}

type memoryFile struct {
	d    *memoryDisk
	name string
}

func (f memoryFile) Name() string         { return f.name }
func (f memoryFile) Size() (int64, error) { return int64(len(f.d.files[f.name])), nil }
func (f memoryFile) Close() error         { return nil }

func (d *memoryDisk) Open(path string, flag disk.Flag) (disk.File, error) {
	data, exists := d.files[path]
	if !exists && flag == disk.ReadOnly {
		return nil, fs.ErrNotExist
	}
	d.files[path] = append([]byte(nil), data...)
	return memoryFile{d, path}, nil
}

func (d *memoryDisk) Rename(from, to string) error {
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

func (d *memoryDisk) Remove(path string) error {
	delete(d.files, path)
	return nil
}

func (d *memoryDisk) SyncDir(string) error { return nil }

func (d *memoryDisk) Submit(ops []*disk.Op) {
	for _, op := range ops {
		name := op.File.Name()
		data := d.files[name]
		switch op.Kind {
		case disk.Write:
			if end := int(op.Pos) + len(op.Buf); end > len(data) {
				data = append(data, make([]byte, end-len(data))...)
			}
			copy(data[op.Pos:], op.Buf)
			d.files[name] = data
		case disk.Read:
			op.N = copy(op.Buf, data[op.Pos:])
		case disk.Sync:
		default:
			op.Err = errors.ErrUnsupported
		}
		op.Done(op)
	}
}
