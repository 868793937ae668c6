package broker

import (
	"fmt"
	"testing"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// values builds a table of Go values.
func values(pairs ...any) amqp.Table {
	b := new(amqp.TableBuilder)
	for i := 0; i < len(pairs); i += 2 {
		name := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case int:
			b.SetInt64(name, int64(v))
		case string:
			b.SetString(name, v)
		case bool:
			b.SetBool(name, v)
		case amqp.Value:
			b.SetValue(name, v)
		default:
			panic(fmt.Sprintf("no field value: %T", v))
		}
	}
	return b.Table()
}

func TestQueueArguments_Refused(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	plain := QueueDeclare{Name: "q"}
	for i, row := range []struct {
		d         QueueDeclare
		arguments amqp.Table
		code      uint16
		text      string
	}{
		{plain, values("x-message-ttl", "abc"), 406, `invalid arg 'x-message-ttl' for queue '$' in vhost '/': "expected integer, got longstr"`},
		{plain, values("x-message-ttl", -1), 406, `invalid arg 'x-message-ttl' for queue '$' in vhost '/': {value_negative,-1}`},
		{plain, values("x-message-ttl", amqp.Float64Value(1)), 406, `invalid arg 'x-message-ttl' for queue '$' in vhost '/': "expected integer, got double"`},
		{plain, values("x-max-length", -1), 406, `invalid arg 'x-max-length' for queue '$' in vhost '/': {value_negative,-1}`},
		{plain, values("x-max-length", "a"), 406, `invalid arg 'x-max-length' for queue '$' in vhost '/': "expected integer, got longstr"`},
		{plain, values("x-max-length-bytes", -5), 406, `invalid arg 'x-max-length-bytes' for queue '$' in vhost '/': {value_negative,-5}`},
		{plain, values("x-expires", 0), 406, `invalid arg 'x-expires' for queue '$' in vhost '/': {value_zero,0}`},
		{plain, values("x-expires", -1), 406, `invalid arg 'x-expires' for queue '$' in vhost '/': {value_negative,-1}`},
		{plain, values("x-max-priority", 300), 406, `invalid arg 'x-max-priority' for queue '$' in vhost '/': {max_value_exceeded,300}`},
		{plain, values("x-max-priority", -1), 406, `invalid arg 'x-max-priority' for queue '$' in vhost '/': {value_negative,-1}`},
		{plain, values("x-dead-letter-exchange", amqp.Int32Value(5)), 406, `invalid type 'signedint' for arg 'x-dead-letter-exchange' in queue '$' in vhost '/'`},
		{plain, values("x-dead-letter-routing-key", "k"), 406, `invalid arg 'x-dead-letter-routing-key' for queue '$' in vhost '/': routing_key_but_no_dlx_defined`},
		{plain, values("x-dead-letter-exchange", "", "x-dead-letter-routing-key", true), 406, `invalid arg 'x-dead-letter-routing-key' for queue '$' in vhost '/': {unacceptable_type,bool}`},
		{plain, values("x-dead-letter-strategy", "x"), 406, `invalid arg 'x-dead-letter-strategy' for queue '$' in vhost '/': invalid_dlx_strategy`},
		{plain, values("x-overflow", "nope"), 406, `invalid arg 'x-overflow' for queue '$' in vhost '/': invalid_overflow`},
		{plain, values("x-overflow", amqp.Int32Value(1)), 406, `invalid arg 'x-overflow' for queue '$' in vhost '/': {unacceptable_type,signedint}`},
		{plain, values("x-queue-type", "nope"), 406, `invalid arg 'x-queue-type' for queue '$' in vhost '/': "unsupported queue type 'nope'"`},
		{plain, values("x-queue-mode", "nope"), 406, `invalid arg 'x-queue-mode' for queue '$' in vhost '/': "unsupported queue mode 'nope'"`},
		{plain, values("x-single-active-consumer", "yes"), 406, `invalid arg 'x-single-active-consumer' for queue '$' in vhost '/': {unacceptable_type,longstr}`},
		{plain, values("x-delivery-limit", -2), 406, `invalid arg 'x-delivery-limit' for queue '$' in vhost '/': {value_negative,-2}`},
		{plain, values("x-consumer-timeout", "1"), 406, `invalid arg 'x-consumer-timeout' for queue '$' in vhost '/': "expected integer, got longstr"`},
		{QueueDeclare{Exclusive: true}, values("x-queue-type", "quorum"), 406, "invalid property 'exclusive-owner' for queue '$' in vhost '/'"},
		{QueueDeclare{Exclusive: true}, values("x-queue-type", "stream"), 406, "invalid property 'exclusive-owner' for queue '$' in vhost '/'"},
		{plain, values("x-queue-type", "quorum"), 406, "invalid property 'non-durable' for queue '$' in vhost '/'"},
		{QueueDeclare{Durable: true, AutoDelete: true}, values("x-queue-type", "quorum"), 406, "invalid property 'auto-delete' for queue '$' in vhost '/'"},
		// Allowed, however odd.
		{QueueDeclare{Durable: true}, values("x-queue-type", "quorum"), 0, ""},
		{plain, values("x-message-ttl", 0, "x-max-length", 0, "x-max-length-bytes", 0, "x-delivery-limit", 0, "x-max-priority", 255), 0, ""},
		{plain, values("x-message-ttl", amqp.VoidValue(), "x-overflow", amqp.VoidValue(), "x-queue-type", amqp.VoidValue()), 0, ""},
		{plain, values("x-queue-mode", "lazy", "x-foo", "bar"), 0, ""},
		{plain, values("x-expires", amqp.Uint8Value(1), "x-dead-letter-exchange", "", "x-dead-letter-routing-key", ""), 0, ""},
	} {
		row.d.Name = fmt.Sprint("q", i)
		row.d.Arguments = row.arguments
		_, _, _, err := e.vh.DeclareQueue(row.d, "owner")
		text := row.text
		if row.code != 0 {
			text = prefixOf(row.code) + replaceName(text, row.d.Name)
		}
		wantError(t, err, row.code, text)
		if q, _ := e.vh.Queue([]byte(row.d.Name), "owner"); (q != nil) != (row.code == 0) {
			t.Errorf("row %d: exists: %v", i, q != nil)
		}
	}
}

func prefixOf(code uint16) string { return amqp.CodeName(code) + " - " }

func replaceName(text, name string) string {
	out := ""
	for _, r := range text {
		if r == '$' {
			out += name
		} else {
			out += string(r)
		}
	}
	return out
}

// Saying "classic" and saying nothing is the same.
func TestQueueArguments_ClassicSaidOrNot(t *testing.T) {
	t.Parallel()
	e := openDir(t, t.TempDir())
	defer e.close()
	e.queue(QueueDeclare{Name: "q", Durable: true}, nil)
	e.queue(QueueDeclare{Name: "q", Durable: true, Arguments: values("x-queue-type", "classic")}, nil)
	_, _, _, err := e.vh.DeclareQueue(QueueDeclare{Name: "q", Durable: true, Arguments: values("x-queue-type", "quorum")}, nil)
	wantError(t, err, 406, "PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue 'q' in vhost '/': received the value 'quorum' of type 'longstr' but current is none")
}

func TestEffective(t *testing.T) {
	t.Parallel()
	with := func(change func(*settings)) *settings {
		s := plainSettings
		change(&s)
		return &s
	}
	for _, row := range []struct {
		name                        string
		arguments, policy, operator amqp.Table
		want                        *settings
	}{
		{"plain", nil, nil, nil, nil},
		{"what says nothing", values("x-queue-type", "classic", "x-overflow", "reject-publish", "x-foo", 1), nil, nil, nil},
		{"of wrong types", values("x-message-ttl", "1", "x-dead-letter-exchange", 1, "x-max-length", -1), nil, nil, nil},
		{"the lowest number counts", values("x-message-ttl", 5, "x-max-length", 9), values("message-ttl", 7, "max-length", 3), values("message-ttl", 4, "expires", 60),
			with(func(s *settings) { s.messageTTL, s.maxLength, s.expires = 4, 3, 60 })},
		{"of others the argument", values("x-dead-letter-exchange", "a", "x-max-length", 1, "x-overflow", "reject-publish"),
			values("dead-letter-exchange", "b", "dead-letter-routing-key", "k", "overflow", "drop-head"), nil,
			with(func(s *settings) {
				s.deadLetters, s.deadLetterExchange, s.deadLetterRoutingKey, s.hasDeadLetterKey = true, "a", "k", true
				s.maxLength, s.overflow = 1, rejectPublish
			})},
		{"operators set no strings", nil, nil, values("dead-letter-exchange", "b"), nil},
		{"the default exchange for dead letters", values("x-dead-letter-exchange", "", "x-dead-letter-strategy", "at-least-once"), nil, nil,
			with(func(s *settings) { s.deadLetters, s.atLeastOnce = true, true })},
		{"a quorum queue", values("x-queue-type", "quorum"), nil, nil, with(func(s *settings) { s.deliveryLimit = 20 })},
		{"a quorum queue without limit", values("x-queue-type", "quorum", "x-delivery-limit", -1), nil, nil, nil},
		{"a limit of deliveries", values("x-delivery-limit", 3), nil, nil, with(func(s *settings) { s.deliveryLimit = 3 })},
	} {
		got := effective(row.arguments, row.policy, row.operator)
		if (got == nil) != (row.want == nil) || got != nil && *got != *row.want {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}
