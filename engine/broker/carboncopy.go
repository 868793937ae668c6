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
			return nil, nil, amqp.Errorf(amqp.CodePreconditionFailed, 0, `invalid message: {unacceptable_type_in_header,"%s",%s}`, name, kindName(v.Kind()))
		}
		for item := range list.All() {
			if _, ok := item.Bytes(); !ok {
				return nil, nil, amqp.Errorf(amqp.CodePreconditionFailed, 0, `invalid message: {unacceptable_type_in_header,"%s",%s}`, name, kindName(item.Kind()))
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
