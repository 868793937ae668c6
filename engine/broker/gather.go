package broker

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/basaltmq/basaltmq/engine/broker/schedule"
	"github.com/basaltmq/basaltmq/segstore"
)

// Messages with different delays become due in another order than they are in
// the log in. Reading them so would read a block from the disk for each: so those
// that are due together are read in the order of the log, into memory, and
// released from there. (A million messages of 16 bytes with random delays, due in
// ten seconds: 3,000/s one by one.)

// gatherBytesMax bounds what is read ahead; what goes beyond is read one by one.
const gatherBytesMax = 2 << 20

// gather holds copies of the first messages that are taken.
type gather struct {
	order []schedule.Entry // in the order of the log; offsets from at on are to be read
	at    int
	from  map[uint64]int // where in buf the message at an offset is; alone: nowhere
	buf   []byte
}

// alone says of a message that it is to be read by itself.
const alone = -1

// scattered says whether entries are in another order than the log's.
func scattered(entries []schedule.Entry) bool {
	for i := 1; i < len(entries); i++ {
		if entries[i].Offset < entries[i-1].Offset {
			return true
		}
	}
	return false
}

// gatherTaken reads what is taken, if that is worth it. Anything but found means that
// it is not done.
func (k *keeper) gatherTaken(q *Queue, taken []schedule.Entry) sought {
	m := &q.upkeep.move
	g := &m.gather
	if len(g.order) == 0 {
		if _, have := g.from[taken[0].Offset]; have {
			return found
		}
		each := q.log.Bytes()/max(q.log.Unsettled(), 1) + 1
		taken = taken[:min(uint64(len(taken)), max(gatherBytesMax/each, 1))]
		if !scattered(taken) {
			return found
		}
		g.buf, g.at = g.buf[:0], 0
		g.from = make(map[uint64]int, len(taken))
		g.order = slices.Clone(taken)
		slices.SortFunc(g.order, func(a, b schedule.Entry) int {
			if a.Offset < b.Offset {
				return -1
			}
			return 1
		})
	}
	var rec segstore.Record
	for ; g.at < len(g.order); g.at++ {
		offset := g.order[g.at].Offset
		g.from[offset] = alone
		if len(g.buf) >= gatherBytesMax {
			continue
		}
		switch state := k.readTaken(q, offset, &rec); state {
		case reading, failed:
			return state
		case found:
			if len(rec.Body) > gatherBytesMax/64 {
				continue // large ones are worth a read of their own
			}
			g.from[offset] = len(g.buf)
			t := m.reader.Template(rec.Template)
			for _, part := range [...][]byte{t.Exchange, t.RoutingKey, t.Properties, rec.Body} {
				g.buf = append(binary.AppendUvarint(g.buf, uint64(len(part))), part...)
			}
		}
	}
	g.order = nil
	return found
}

// get returns a message that has been gathered.
func (g *gather) get(offset uint64) (t segstore.Template, body []byte, ok bool) {
	pos, ok := g.from[offset]
	if !ok || pos == alone {
		return t, nil, false
	}
	for _, part := range [...]*[]byte{&t.Exchange, &t.RoutingKey, &t.Properties, &body} {
		n, w := binary.Uvarint(g.buf[pos:])
		pos += w
		*part = g.buf[pos : pos+int(n) : pos+int(n)]
		pos += int(n)
	}
	return t, body, true
}

// same says whether a letter was made of this template.
func (l *letter) same(t segstore.Template) bool {
	return bytes.Equal(l.of.Properties, t.Properties) && bytes.Equal(l.of.RoutingKey, t.RoutingKey) && bytes.Equal(l.of.Exchange, t.Exchange)
}
