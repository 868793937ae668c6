package main

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// property is one decoded property; value is a string, uint8, time.Time or
// amqp.Table.
type property struct {
	name  string
	value any
}

// decodeProperties lists the properties that are set, in wire order.
func decodeProperties(raw []byte) ([]property, error) {
	p, err := amqp.DecodeProperties(raw)
	if err != nil {
		return nil, err
	}
	if p.Flags&amqp.FlagHeaders != 0 {
		if err := amqp.ValidateTable(p.Headers); err != nil {
			return nil, err
		}
	}
	all := []struct {
		flag  uint16
		name  string
		value any
	}{
		{amqp.FlagContentType, "content_type", string(p.ContentType)},
		{amqp.FlagContentEncoding, "content_encoding", string(p.ContentEncoding)},
		{amqp.FlagHeaders, "headers", p.Headers},
		{amqp.FlagDeliveryMode, "delivery_mode", p.DeliveryMode},
		{amqp.FlagPriority, "priority", p.Priority},
		{amqp.FlagCorrelationID, "correlation_id", string(p.CorrelationID)},
		{amqp.FlagReplyTo, "reply_to", string(p.ReplyTo)},
		{amqp.FlagExpiration, "expiration", string(p.Expiration)},
		{amqp.FlagMessageID, "message_id", string(p.MessageID)},
		{amqp.FlagTimestamp, "timestamp", timestamp(p.Timestamp)},
		{amqp.FlagType, "type", string(p.Type)},
		{amqp.FlagUserID, "user_id", string(p.UserID)},
		{amqp.FlagAppID, "app_id", string(p.AppID)},
		{amqp.FlagClusterID, "cluster_id", string(p.ClusterID)},
	}
	var out []property
	for _, one := range all {
		if p.Flags&one.flag != 0 {
			out = append(out, property{one.name, one.value})
		}
	}
	return out, nil
}

// timestamp shows AMQP's seconds since 1970; those beyond the year 9999 (people
// send milliseconds) stay a number.
func timestamp(seconds uint64) string {
	const secondsMax = 253402300799
	if seconds > secondsMax {
		return strconv.FormatUint(seconds, 10)
	}
	return time.Unix(int64(seconds), 0).UTC().Format(time.RFC3339)
}

// propertiesText shows encoded properties on one line.
func propertiesText(raw []byte) string {
	list, err := decodeProperties(raw)
	if err != nil {
		return fmt.Sprintf("not decodable: %s", hex.EncodeToString(raw))
	}
	if len(list) == 0 {
		return "none"
	}
	var parts []string
	for _, p := range list {
		text := ""
		switch v := p.value.(type) {
		case string:
			text = strconv.Quote(v)
		case amqp.Table:
			text = valueText(tableJSON(v))
		default:
			text = fmt.Sprint(v)
		}
		parts = append(parts, p.name+"="+text)
	}
	return strings.Join(parts, " ")
}

// propertiesJSON is encoded properties as a JSON object; those that cannot be
// decoded go as "undecodable" in hexadecimal digits.
func propertiesJSON(raw []byte) map[string]any {
	out := map[string]any{}
	list, err := decodeProperties(raw)
	if err != nil {
		out["undecodable"] = hex.EncodeToString(raw)
	}
	for _, p := range list {
		if t, ok := p.value.(amqp.Table); ok {
			out[p.name] = tableJSON(t)
		} else {
			out[p.name] = p.value
		}
	}
	return out
}

// tableJSON turns a valid field table into what JSON can say. Of names that
// repeat the first counts, as it does for the broker.
func tableJSON(t amqp.Table) map[string]any {
	out := map[string]any{}
	for name, v := range t.All() {
		if _, have := out[string(name)]; !have {
			out[string(name)] = valueJSON(v)
		}
	}
	return out
}

// valueJSON is a field value: numbers and booleans as such, floats, decimals
// and timestamps as text (JSON has no NaN, and no exact decimal), bytes that
// are no text as {"base64": ...}.
func valueJSON(v amqp.Value) any {
	if n, ok := v.Int64(); ok {
		return n
	}
	if b, ok := v.Bool(); ok {
		return b
	}
	if f, ok := v.Float64(); ok {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	if scale, n, ok := v.Decimal(); ok {
		return fmt.Sprintf("%de-%d", n, scale)
	}
	if seconds, ok := v.Timestamp(); ok {
		return timestamp(seconds)
	}
	if b, ok := v.Bytes(); ok {
		if v.Kind() == amqp.KindBytes || !utf8.Valid(b) {
			return map[string]any{"base64": base64.StdEncoding.EncodeToString(b)}
		}
		return string(b)
	}
	if t, ok := v.Table(); ok {
		return tableJSON(t)
	}
	if a, ok := v.Array(); ok {
		list := []any{}
		for one := range a.All() {
			list = append(list, valueJSON(one))
		}
		return list
	}
	return nil
}

// valueText shows what valueJSON made of a value.
func valueText(v any) string {
	switch v := v.(type) {
	case nil:
		return "void"
	case string:
		return strconv.Quote(v)
	case map[string]any:
		var parts []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, strconv.Quote(name)+": "+valueText(v[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, one := range v {
			parts = append(parts, valueText(one))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return fmt.Sprint(v)
}
