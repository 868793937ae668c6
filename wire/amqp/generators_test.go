package amqp

import (
	"reflect"

	"pgregory.net/rapid"
)

// Generators shared by the property tests.

func drawBytes(t *rapid.T, label string, maxLen int) []byte {
	return rapid.SliceOfN(rapid.Byte(), 0, maxLen).Draw(t, label)
}

func drawValue(t *rapid.T, depth int) Value {
	kinds := "tbBsUuIilLfdDSxTV"
	if depth > 0 {
		kinds += "AFAF"
	}
	kind := kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]
	number := rapid.Uint64().Draw(t, "number")
	switch kind {
	case KindBool:
		return BoolValue(number&1 != 0)
	case KindInt8:
		return Int8Value(int8(number))
	case KindUint8:
		return Uint8Value(uint8(number))
	case KindInt16:
		return Int16Value(int16(number))
	case KindInt16Alt:
		return Value{kind: KindInt16Alt, number: uint64(int16(number))}
	case KindUint16:
		return Uint16Value(uint16(number))
	case KindInt32:
		return Int32Value(int32(number))
	case KindUint32:
		return Uint32Value(uint32(number))
	case KindInt64, KindInt64Alt:
		return Value{kind: kind, number: number}
	case KindFloat32:
		return Float32Value(rapid.Float32().Draw(t, "float32"))
	case KindFloat64:
		return Float64Value(rapid.Float64().Draw(t, "float64"))
	case KindDecimal:
		return DecimalValue(uint8(number>>32), int32(number))
	case KindString:
		return StringBytes(drawBytes(t, "string", 20))
	case KindBytes:
		return BytesValue(drawBytes(t, "bytes", 20))
	case KindTimestamp:
		return TimestampValue(number)
	case KindArray:
		a := Array{}
		for range rapid.IntRange(0, 4).Draw(t, "array length") {
			a = drawValue(t, depth-1).Append(a)
		}
		return ArrayValue(a)
	case KindTable:
		return TableValue(drawTable(t, depth-1))
	}
	return VoidValue()
}

type namedValue struct {
	name  string
	value Value
}

func drawFields(t *rapid.T, depth int) []namedValue {
	var list []namedValue
	for range rapid.IntRange(0, 5).Draw(t, "fields") {
		name := rapid.StringN(0, 8, ShortStringMax).Draw(t, "name")
		list = append(list, namedValue{name, drawValue(t, depth)})
	}
	return list
}

func encodeFields(list []namedValue) Table {
	table := Table{}
	for _, field := range list {
		table = field.value.Append(appendShortstr(table, field.name))
	}
	return table
}

func drawTable(t *rapid.T, depth int) Table { return encodeFields(drawFields(t, depth)) }

// drawMethod fills the fields of an empty method by their Go type. Field names
// tell short strings from long ones only to the encoder, so all stay short.
func drawMethod(t *rapid.T, m Method) {
	fields := reflect.ValueOf(m).Elem()
	for i := range fields.NumField() {
		field, name := fields.Field(i), fields.Type().Field(i).Name
		switch field.Interface().(type) {
		case bool:
			field.SetBool(rapid.Bool().Draw(t, name))
		case uint8:
			field.SetUint(uint64(rapid.Uint8().Draw(t, name)))
		case uint16:
			field.SetUint(uint64(rapid.Uint16().Draw(t, name)))
		case uint32:
			field.SetUint(uint64(rapid.Uint32().Draw(t, name)))
		case uint64:
			field.SetUint(rapid.Uint64().Draw(t, name))
		case []byte:
			field.SetBytes(drawBytes(t, name, ShortStringMax))
		case Table:
			field.Set(reflect.ValueOf(drawTable(t, 3)))
		default:
			t.Fatalf("%T.%s has a type this test doesn't know", m, name)
		}
	}
}

func drawProperties(t *rapid.T) Properties {
	p := Properties{Flags: rapid.Uint16().Draw(t, "flags") & flagsDefined}
	set := func(flag uint16, field *[]byte) {
		if p.Flags&flag != 0 {
			*field = drawBytes(t, "property", ShortStringMax)
		}
	}
	set(FlagContentType, &p.ContentType)
	set(FlagContentEncoding, &p.ContentEncoding)
	if p.Flags&FlagHeaders != 0 {
		p.Headers = drawTable(t, 2)
	}
	if p.Flags&FlagDeliveryMode != 0 {
		p.DeliveryMode = rapid.Uint8().Draw(t, "delivery mode")
	}
	if p.Flags&FlagPriority != 0 {
		p.Priority = rapid.Uint8().Draw(t, "priority")
	}
	set(FlagCorrelationID, &p.CorrelationID)
	set(FlagReplyTo, &p.ReplyTo)
	set(FlagExpiration, &p.Expiration)
	set(FlagMessageID, &p.MessageID)
	if p.Flags&FlagTimestamp != 0 {
		p.Timestamp = rapid.Uint64().Draw(t, "timestamp")
	}
	set(FlagType, &p.Type)
	set(FlagUserID, &p.UserID)
	set(FlagAppID, &p.AppID)
	set(FlagClusterID, &p.ClusterID)
	return p
}
