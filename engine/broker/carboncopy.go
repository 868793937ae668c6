package broker

import (
	"bytes"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// CarbonCopies returns the further routing keys that a message's headers name,
// and the headers as they are stored: BCC is taken out. Errors: 406 when one of
// them is not an array of strings.
func CarbonCopies(headers amqp.Table) (keys [][]byte, stored amqp.Table, err error) {
	stored = headers
	if !bytes.Contains(headers, []byte("CC")) {
		return nil, stored, nil
	}
	for _, name := range [...]string{"CC", "BCC"} {
		v, ok := headers.Lookup(name)
		if !ok {
			continue
		}
		list, ok := v.Array()
		if !ok {
			return nil, nil, amqp.Errorf(amqp.CodePreconditionFailed, 0, `invalid message: {unacceptable_type_in_header,"%s",%s}`, name, amqp.KindName(v.Kind()))
		}
		for item := range list.All() {
			if _, ok := item.Bytes(); !ok {
				return nil, nil, amqp.Errorf(amqp.CodePreconditionFailed, 0, `invalid message: {unacceptable_type_in_header,"%s",%s}`, name, amqp.KindName(item.Kind()))
			}
		}
		keys = append(keys, carbonCopies(headers, name)...)
		if name == "BCC" {
			b := amqp.NewTableBuilder(headers)
			b.Delete(name)
			stored = b.Table()
		}
	}
	return keys, stored, nil
}

// ForQueues returns the properties as a message is to be stored for its queues.
// A message that only waits somewhere (for an exchange that delays it) keeps all
// of its further routing keys, more, in the header BCC, which is taken out
// when it goes on.
func ForQueues(queues []*Queue, more [][]byte, properties []byte) []byte {
	if len(more) == 0 || len(queues) == 0 {
		return properties
	}
	for _, q := range queues {
		if !q.delayed() {
			return properties
		}
	}
	p, err := amqp.DecodeProperties(properties)
	if err != nil {
		return properties
	}
	b := amqp.NewTableBuilder(p.Headers)
	keys := make([]amqp.Value, len(more))
	for i, key := range more {
		keys[i] = amqp.StringBytes(key)
	}
	b.SetValue("BCC", amqp.ArrayValue(amqp.ArrayOf(keys...)))
	p.Headers = b.Table()
	return p.Append(nil)
}
