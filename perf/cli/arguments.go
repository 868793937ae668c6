package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// shortStringBytesMax is the length of a short string, in bytes.
const shortStringBytesMax = 255

// parseJSONObject reads one JSON object; empty text is an empty object.
func parseJSONObject(option, text string) (map[string]any, error) {
	if text == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var object map[string]any
	if err := decoder.Decode(&object); err != nil {
		return nil, Usagef("--%s is not a JSON object: %v", option, err)
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, Usagef("--%s has something behind its JSON object", option)
	}
	return object, nil
}

// ParseTable reads a JSON object as an AMQP field table: whole numbers become
// 32- or 64-bit integers, others doubles, null a void.
func ParseTable(option, text string) (amqp.Table, error) {
	object, err := parseJSONObject(option, text)
	if err != nil {
		return nil, err
	}
	table, err := tableFrom(object)
	if err != nil {
		return nil, Usagef("--%s: %v", option, err)
	}
	return table, nil
}

func tableFrom(object map[string]any) (amqp.Table, error) {
	var builder amqp.TableBuilder
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if len(name) > shortStringBytesMax {
			return nil, fmt.Errorf("a field name is longer than %d bytes", shortStringBytesMax)
		}
		value, err := valueFrom(object[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		builder.SetValue(name, value)
	}
	return builder.Table(), nil
}

func valueFrom(value any) (amqp.Value, error) {
	switch value := value.(type) {
	case nil:
		return amqp.VoidValue(), nil
	case bool:
		return amqp.BoolValue(value), nil
	case string:
		return amqp.String(value), nil
	case json.Number:
		if number, err := value.Int64(); err == nil {
			if number >= math.MinInt32 && number <= math.MaxInt32 {
				return amqp.Int32Value(int32(number)), nil
			}
			return amqp.Int64Value(number), nil
		}
		number, err := value.Float64()
		return amqp.Float64Value(number), err
	case []any:
		values := make([]amqp.Value, len(value))
		for i := range value {
			var err error
			if values[i], err = valueFrom(value[i]); err != nil {
				return amqp.Value{}, err
			}
		}
		return amqp.ArrayValue(amqp.ArrayOf(values...)), nil
	case map[string]any:
		table, err := tableFrom(value)
		return amqp.TableValue(table), err
	}
	return amqp.Value{}, fmt.Errorf("%T can't be a field value", value)
}

// ParseProperties encodes the properties of a message. Names are those of the
// specification, written content_type, content-type or contentType. The
// delivery mode is always present: 2 when persistent, else 1, unless given.
func ParseProperties(text string, persistent bool) ([]byte, error) {
	object, err := parseJSONObject("properties", text)
	if err != nil {
		return nil, err
	}
	properties := amqp.Properties{DeliveryMode: 1, Flags: amqp.FlagDeliveryMode}
	if persistent {
		properties.DeliveryMode = 2
	}
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if err := setProperty(&properties, name, object[name]); err != nil {
			return nil, Usagef("--properties: %s: %v", name, err)
		}
	}
	return properties.Append(nil), nil
}

func setProperty(p *amqp.Properties, name string, value any) error {
	text := func(target *[]byte, flag uint16) error {
		given, ok := value.(string)
		if !ok || len(given) > shortStringBytesMax {
			return fmt.Errorf("must be a string of at most %d bytes", shortStringBytesMax)
		}
		*target = []byte(given)
		p.Flags |= flag
		return nil
	}
	number := func(highest int64, flag uint16) (uint64, error) {
		given, _ := value.(json.Number)
		parsed, err := given.Int64()
		if err != nil || parsed < 0 || parsed > highest {
			return 0, fmt.Errorf("must be a whole number from 0 to %d", highest)
		}
		p.Flags |= flag
		return uint64(parsed), nil
	}
	var err error
	var parsed uint64
	switch strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name)) {
	case "contenttype":
		return text(&p.ContentType, amqp.FlagContentType)
	case "contentencoding":
		return text(&p.ContentEncoding, amqp.FlagContentEncoding)
	case "correlationid":
		return text(&p.CorrelationID, amqp.FlagCorrelationID)
	case "replyto":
		return text(&p.ReplyTo, amqp.FlagReplyTo)
	case "expiration":
		return text(&p.Expiration, amqp.FlagExpiration)
	case "messageid":
		return text(&p.MessageID, amqp.FlagMessageID)
	case "type":
		return text(&p.Type, amqp.FlagType)
	case "userid":
		return text(&p.UserID, amqp.FlagUserID)
	case "appid":
		return text(&p.AppID, amqp.FlagAppID)
	case "clusterid":
		return text(&p.ClusterID, amqp.FlagClusterID)
	case "timestamp":
		p.Timestamp, err = number(math.MaxInt64, amqp.FlagTimestamp)
		return err
	case "deliverymode":
		parsed, err = number(math.MaxUint8, amqp.FlagDeliveryMode)
		p.DeliveryMode = uint8(parsed)
		return err
	case "priority":
		parsed, err = number(math.MaxUint8, amqp.FlagPriority)
		p.Priority = uint8(parsed)
		return err
	case "headers":
		object, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("must be an object")
		}
		p.Headers, err = tableFrom(object)
		p.Flags |= amqp.FlagHeaders
		return err
	}
	return fmt.Errorf("unknown property")
}
