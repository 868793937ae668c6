package admin

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/basaltmq/basaltmq/engine/stats"
)

// schemas are the named types of the document.
type schemas map[string]any

// of describes how a value's type is encoded. Named structs become references.
func (s schemas) of(v any) object {
	if v == nil {
		return object{}
	}
	return s.ofType(reflect.TypeOf(v))
}

// opaque are the types whose encoding says more than their fields do.
var opaque = map[reflect.Type]object{
	reflect.TypeFor[json.RawMessage]():    {},
	reflect.TypeFor[tableOf]():            {"type": "object", "additionalProperties": true},
	reflect.TypeFor[looseBool]():          {"type": "boolean"},
	reflect.TypeFor[looseText]():          {"type": "string"},
	reflect.TypeFor[Number]():             {"type": "integer"},
	reflect.TypeFor[TagList]():            {"type": "array", "items": object{"type": "string"}},
	reflect.TypeFor[stats.MessageStats](): {"type": "object", "additionalProperties": true},
}

func (s schemas) ofType(t reflect.Type) object {
	if known, ok := opaque[t]; ok {
		return known
	}
	switch t.Kind() {
	case reflect.Pointer:
		schema := s.ofType(t.Elem())
		if schema["$ref"] != nil || len(schema) == 0 {
			return schema
		}
		nullable := object{"nullable": true}
		for name, v := range schema {
			nullable[name] = v
		}
		return nullable
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return object{"type": "integer"}
	case reflect.Slice, reflect.Array:
		return object{"type": "array", "items": s.ofType(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.ofType(t.Elem())}
	case reflect.Struct:
		if t.Implements(reflect.TypeFor[json.Marshaler]()) || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
			return object{}
		}
		if t.Name() == "" {
			return s.fields(t)
		}
		name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
		if _, known := s[name]; !known {
			s[name] = object{} // types may hold themselves
			s[name] = s.fields(t)
		}
		return object{"$ref": "#/components/schemas/" + name}
	}
	return object{}
}

// fields describes a struct's members as they are encoded, those of structs in it
// without a name included.
func (s schemas) fields(t reflect.Type) object {
	properties := object{}
	s.addFields(properties, t)
	return object{"type": "object", "properties": properties}
}

// addFields adds those of embedded structs first: what has their names further
// out counts.
func (s schemas) addFields(properties object, t reflect.Type) {
	for _, embedded := range []bool{true, false} {
		for i := range t.NumField() {
			f := t.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			isEmbedded := f.Anonymous && name == ""
			switch {
			case isEmbedded != embedded || name == "-" || !isEmbedded && !f.IsExported():
			case isEmbedded && f.Type.Kind() == reflect.Pointer:
				s.addFields(properties, f.Type.Elem())
			case isEmbedded:
				s.addFields(properties, f.Type)
			case name == "":
				properties[f.Name] = s.ofType(f.Type)
			default:
				properties[name] = s.ofType(f.Type)
			}
		}
	}
}
