package broker

import (
	"bytes"
	"errors"
	"testing"
)

// everyDefinition is a file with one record of each kind.
func everyDefinition() []byte {
	vh := &VHost{Name: "/"}
	e, q := &Exchange{Name: "e", Type: "topic"}, &Queue{Name: "q", VHost: vh, ID: 7}
	b := &Binding{Source: "e", Queue: "q", RoutingKey: "k"}
	out := []byte(definitionsMagic)
	for _, rec := range [][]byte{
		fields{recNextLogID}.num(9),
		exchangeRecord(recExchangeDeclare, vh, e), queueRecord(recQueueDeclare, vh, q), bindingRecord(recBind, vh, b),
		bindingRecord(recUnbind, vh, b), queueRecord(recQueueDelete, vh, q), exchangeRecord(recExchangeDelete, vh, e),
	} {
		out = appendRecord(out, rec)
	}
	return out
}

func TestReadDefinitions_ListsEveryKind(t *testing.T) {
	want := []DefinitionInfo{
		{Kind: DefinitionNextLogID, LogID: 9},
		{Kind: DefinitionExchange, VHost: "/", Name: "e"},
		{Kind: DefinitionQueue, VHost: "/", Name: "q", LogID: 7},
		{Kind: DefinitionBinding, VHost: "/", Name: "e"},
		{Kind: DefinitionBinding, VHost: "/", Name: "e", Deleted: true},
		{Kind: DefinitionQueue, VHost: "/", Name: "q", LogID: 7, Deleted: true},
		{Kind: DefinitionExchange, VHost: "/", Name: "e", Deleted: true},
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
	cases := []struct {
		name string
		data []byte
		want error
	}{
		{"empty", nil, nil},
		{"only a header", sound[:len(definitionsMagic)], nil},
		{"header", flip(3), ErrDefinitionsHeader},
		{"in the middle", flip(len(definitionsMagic) + recordHeader), ErrDefinitionsDamaged},
		{"last byte flipped", flip(len(sound) - 1), ErrDefinitionsEnd},
		{"last byte missing", sound[:len(sound)-1], ErrDefinitionsTorn},
		{"zeros after it", append(bytes.Clone(sound), make([]byte, 100)...), ErrDefinitionsTorn},
	}
	for _, c := range cases {
		var found []error
		ReadDefinitions(c.data, func(i DefinitionInfo) {
			if i.Err != nil {
				found = append(found, i.Err)
			}
		})
		if err := errors.Join(found...); len(found) > 1 || !errors.Is(err, c.want) || c.want == nil && err != nil {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
}

func FuzzReadDefinitions(f *testing.F) {
	f.Add(everyDefinition())
	f.Add([]byte(definitionsMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		at := int64(0)
		ReadDefinitions(data, func(i DefinitionInfo) {
			if i.Pos < at || i.Bytes <= 0 || i.Pos+i.Bytes > int64(len(data)) {
				t.Fatalf("place [%d, +%d) of %d bytes, after %d", i.Pos, i.Bytes, len(data), at)
			}
			at = i.Pos + i.Bytes
		})
	})
}
