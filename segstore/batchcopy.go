package segstore

import "encoding/binary"

// Each calls visit for each record of the batch, in order. The bytes are views
// of the batch.
func (b *Batch) Each(visit func(i int, t Template, body []byte)) {
	pos := 0
	var t Template // of the record before: most have the same
	last := -1
	for i := range b.count {
		head, w := binary.Uvarint(b.data[pos:])
		pos += w
		if head&1 != 0 {
			_, w = binary.Uvarint(b.data[pos:])
			pos += w
		}
		n, w := binary.Uvarint(b.data[pos:])
		pos += w
		if number := int(head >> 1); number != last {
			t, last = decodeTemplate(b.templateData[b.starts[number]:]), number
		}
		visit(i, t, b.data[pos:pos+int(n)])
		pos += int(n)
	}
}

// Without returns a new batch with all records but those whose numbers are
// given in ascending order, at the time that Reset gave. The caller releases it.
func (b *Batch) Without(records []int) *Batch {
	rest := NewBatch(b.pool)
	rest.Reset(b.timestamp)
	b.Each(func(i int, t Template, body []byte) {
		if len(records) > 0 && records[0] == i {
			records = records[1:]
			return
		}
		rest.Add(rest.Template(t.Exchange, t.RoutingKey, t.Properties), body)
	})
	return rest
}
