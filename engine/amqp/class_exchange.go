package amqp

import (
	"strings"
	"unicode/utf8"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// exchange handles class exchange (40): declare, delete, bind, unbind.
// Codes: 403, 404, 406, 503 (see broker.VHost).
func (ch *channel) exchange(id uint32, args []byte) error {
	switch id {
	case amqp.ExchangeDeclareID:
		return ch.exchangeDeclare(args)
	case amqp.ExchangeDeleteID:
		return ch.exchangeDelete(args)
	case amqp.ExchangeBindID:
		var m amqp.ExchangeBind
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.bind(broker.Binding{
			Source: string(m.Source), Exchange: string(m.Destination), ToExchange: true,
			RoutingKey: string(m.RoutingKey), Arguments: m.Arguments,
		}, id, m.NoWait, &amqp.ExchangeBindOk{})
	case amqp.ExchangeUnbindID:
		var m amqp.ExchangeUnbind
		if err := m.Decode(args); err != nil {
			return err
		}
		return ch.unbind(broker.Binding{
			Source: string(m.Source), Exchange: string(m.Destination), ToExchange: true,
			RoutingKey: string(m.RoutingKey), Arguments: m.Arguments,
		}, m.NoWait, &amqp.ExchangeUnbindOk{})
	}
	return notImplemented(id)
}

// unbind answers queue.unbind and exchange.unbind, which need the permissions
// that binding does.
func (ch *channel) unbind(b broker.Binding, noWait bool, ok amqp.Method) error {
	if err := ch.conn.permitBinding(&b); err != nil {
		return err
	}
	seq, err := ch.conn.vhost.Unbind(b, ch.conn)
	return ch.answer(seq, err, noWait, ok)
}

// answer sends ok, unless the client does not want it, once the definition
// record seq is durable.
func (ch *channel) answer(seq uint64, err error, noWait bool, ok amqp.Method) error {
	if err != nil {
		return err
	}
	if err := ch.recorded(seq); err != nil {
		return err
	}
	if !noWait {
		ch.conn.emitMethod(ch.id, ok)
	}
	return nil
}

func (ch *channel) exchangeDeclare(args []byte) error {
	var m amqp.ExchangeDeclare
	if err := m.Decode(args); err != nil {
		return err
	}
	name, err := declaredName(m.Exchange)
	if err != nil {
		return err
	}
	seq, err := ch.conn.vhost.DeclareExchange(broker.ExchangeDeclare{
		Name: name, Type: string(m.Type), Passive: m.Passive, Durable: m.Durable,
		AutoDelete: m.AutoDelete, Internal: m.Internal, Arguments: m.Arguments, By: ch.conn,
	})
	return ch.answer(seq, err, m.NoWait, &amqp.ExchangeDeclareOk{})
}

func (ch *channel) exchangeDelete(args []byte) error {
	var m amqp.ExchangeDelete
	if err := m.Decode(args); err != nil {
		return err
	}
	if name := string(m.Exchange); name != "" && !strings.HasPrefix(name, "amq.") { // those are refused anyway
		if err := ch.conn.Permit(access.Configure, "exchange", name); err != nil {
			return err
		}
	}
	seq, err := ch.conn.vhost.DeleteExchange(string(m.Exchange), m.IfUnused)
	return ch.answer(seq, err, m.NoWait, &amqp.ExchangeDeleteOk{})
}

// declaredName checks a name being declared. Carriage returns and line feeds
// are removed, as RabbitMQ does: a name copied with its line end must not
// become another entity. Codes: 501 for what is not UTF-8.
func declaredName(name []byte) (string, error) {
	if !utf8.Valid(name) {
		return "", amqp.Errorf(amqp.CodeFrameError, 0, "malformed UTF-8 in a name")
	}
	return lineEnds.Replace(string(name)), nil
}

var lineEnds = strings.NewReplacer("\r", "", "\n", "")
