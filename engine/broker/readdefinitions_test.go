package broker

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/access"
)

// everyDefinition is a file with one record of each kind.
func everyDefinition() []byte {
	vh := &VHost{Name: "/"}
	e, q := &Exchange{Name: "e", Type: "topic"}, &Queue{Name: "q", VHost: vh, ID: 7}
	b := &Binding{Source: "e", Queue: "q", RoutingKey: "k"}
	return snapshotFile(300,
		fields{recNextLogID}.num(9),
		exchangeRecord(recExchangeDeclare, vh, e), queueRecord(recQueueDeclare, vh, q), bindingRecord(recBind, vh, b),
		bindingRecord(recUnbind, vh, b), queueRecord(recQueueDelete, vh, q), exchangeRecord(recExchangeDelete, vh, e),
		fields{recAccess}.num(accessVersion), vhostRecord(&VHostSpec{Name: "v", Limits: access.Limits{access.MaxQueues: 1}}),
		userRecord(access.Spec{Name: "u", Tags: []string{"t"}}),
		permissionsRecord(access.UserPermissions{User: "u", VHost: "v"}),
		topicRecord(access.UserTopicPermissions{User: "u", VHost: "v", Exchange: "e"}),
		groupRecord(fields{recUserDelete}.str("w"), fields{recUserDelete}.str("x")),
		fields{recTopicClear}.str("v").str("u").str(""), fields{recPermissionsClear}.str("v").str("u"),
		fields{recVHostDelete}.str("v"), fields{recUserDelete}.str("u"),
		exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "values", Type: "topic", dedup: &Deduplicator{id: 4}}),
		exchangeRecord(recExchangeDeclare, vh, &Exchange{Name: "both", Type: typeRecentHistory, history: &Queue{ID: 5}, dedup: &Deduplicator{id: 6}}),
	)
}

func TestReadDefinitions_ListsEveryKind(t *testing.T) {
	want := []DefinitionInfo{
		{Kind: DefinitionSnapshot, Seq: 300},
		{Kind: DefinitionNextLogID, LogID: 9},
		{Kind: DefinitionExchange, VHost: "/", Name: "e"},
		{Kind: DefinitionQueue, VHost: "/", Name: "q", LogID: 7},
		{Kind: DefinitionBinding, VHost: "/", Name: "e"},
		{Kind: DefinitionBinding, VHost: "/", Name: "e", Deleted: true},
		{Kind: DefinitionQueue, VHost: "/", Name: "q", LogID: 7, Deleted: true},
		{Kind: DefinitionExchange, VHost: "/", Name: "e", Deleted: true},
		{Kind: DefinitionAccess},
		{Kind: DefinitionVHost, VHost: "v"},
		{Kind: DefinitionUser, Name: "u"},
		{Kind: DefinitionPermissions, VHost: "v", Name: "u"},
		{Kind: DefinitionTopic, VHost: "v", Name: "u"},
		{Kind: DefinitionGroup},
		{Kind: DefinitionTopic, VHost: "v", Name: "u", Deleted: true},
		{Kind: DefinitionPermissions, VHost: "v", Name: "u", Deleted: true},
		{Kind: DefinitionVHost, VHost: "v", Deleted: true},
		{Kind: DefinitionUser, Name: "u", Deleted: true},
		{Kind: DefinitionExchange, VHost: "/", Name: "values", LogID: 4},
		{Kind: DefinitionExchange, VHost: "/", Name: "both", LogID: 5, DedupID: 6},
	}
	at := int64(len(definitionsMagic))
	i := 0
	ReadDefinitions(everyDefinition(), func(got DefinitionInfo) {
		if got.Pos != at {
			t.Errorf("record %d is at %d, want %d", i, got.Pos, at)
		}
		at += got.Bytes
		got.Pos, got.Bytes = 0, 0
		if i >= len(want) || got != want[i] {
			t.Errorf("record %d: %+v", i, got)
		}
		i++
	})
	if i != len(want) {
		t.Errorf("%d records, want %d", i, len(want))
	}
}

func TestReadDefinitions_Damage(t *testing.T) {
	sound := everyDefinition()
	flip := func(pos int) []byte {
		out := bytes.Clone(sound)
		out[pos] ^= 4
		return out
	}
	first := len(definitionsMagic)
	cases := []struct {
		name string
		data []byte
		want []error
	}{
		{"sound", sound, nil},
		{"a snapshot of nothing", snapshotFile(0), nil},
		{"empty", nil, []error{ErrDefinitionsHeader}},
		{"only a header", sound[:first], []error{ErrDefinitionsCount}},
		{"header", flip(3), []error{ErrDefinitionsHeader}},
		{"the snapshot's record", flip(first + recordHeader), []error{ErrDefinitionsDamaged, ErrDefinitionsCount}},
		{"the snapshot's record is missing", slices.Concat(sound[:first], sound[first+recordHeader+4:]), []error{ErrDefinitionsCount}},
		{"in the middle", flip(first + recordHeader + 4 + recordHeader), []error{ErrDefinitionsDamaged, ErrDefinitionsCount}},
		{"last byte flipped", flip(len(sound) - 1), []error{ErrDefinitionsDamaged, ErrDefinitionsCount}},
		{"last byte missing", sound[:len(sound)-1], []error{ErrDefinitionsDamaged, ErrDefinitionsCount}},
		{"zeros after it", append(bytes.Clone(sound), make([]byte, 100)...), []error{ErrDefinitionsDamaged}},
		{"a record after it", appendRecord(bytes.Clone(sound), fields{recNextLogID}.num(10)), []error{ErrDefinitionsCount}},
	}
	for _, c := range cases {
		var found []error
		ReadDefinitions(c.data, func(i DefinitionInfo) {
			if i.Err != nil {
				found = append(found, i.Err)
			}
		})
		if !slices.EqualFunc(found, c.want, errors.Is) {
			t.Errorf("%s: %v, want %v", c.name, found, c.want)
		}
	}
}

// TestReadDefinition reads records as the journal has them, without a frame.
func TestReadDefinition(t *testing.T) {
	vh := &VHost{Name: "/"}
	q := &Queue{Name: "q", VHost: vh, ID: 7}
	rows := []struct {
		record []byte
		want   DefinitionInfo
		err    string
	}{
		{queueRecord(recQueueDeclare, vh, q), DefinitionInfo{Kind: DefinitionQueue, VHost: "/", Name: "q", LogID: 7}, ""},
		{queueRecord(recQueueDelete, vh, q), DefinitionInfo{Kind: DefinitionQueue, VHost: "/", Name: "q", LogID: 7, Deleted: true}, ""},
		{nil, DefinitionInfo{}, "malformed"},
		{[]byte{}, DefinitionInfo{}, "malformed"},
		{fields{recSnapshot}.num(1).num(1), DefinitionInfo{}, "unknown kind 8"},
		{[]byte{99, 1, '/', 0}, DefinitionInfo{}, "unknown kind 99"},
		{[]byte{recQueueDelete}, DefinitionInfo{}, "malformed"},
		{[]byte{recUser, 1, 'u'}, DefinitionInfo{}, "malformed"},
		{fields{recAccess}.num(2), DefinitionInfo{}, "unknown version 2"},
		{groupRecord([]byte{99, 1, '/', 0}), DefinitionInfo{}, "unknown kind 99"},
		{groupRecord(groupRecord()), DefinitionInfo{}, "malformed"},
	}
	for _, row := range rows {
		got := ReadDefinition(row.record)
		if row.err != "" {
			if got.Err == nil || !strings.Contains(got.Err.Error(), row.err) {
				t.Errorf("%q: %v, want %q", row.record, got.Err, row.err)
			}
		} else if got.Bytes = 0; got != row.want {
			t.Errorf("%q: %+v, want %+v", row.record, got, row.want)
		}
	}
}

func FuzzReadDefinitions(f *testing.F) {
	f.Add(everyDefinition())
	f.Add([]byte(definitionsMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		at := int64(0)
		ReadDefinitions(data, func(i DefinitionInfo) {
			// An empty file has a place of no bytes, and so has a wrong count.
			if i.Pos < at || i.Bytes < 0 || i.Bytes == 0 && i.Err == nil || i.Pos+i.Bytes > int64(len(data)) {
				t.Fatalf("place [%d, +%d) of %d bytes, after %d", i.Pos, i.Bytes, len(data), at)
			}
			at = i.Pos + i.Bytes
		})
	})
}
