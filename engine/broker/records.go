package broker

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/basaltmq/basaltmq/wire/amqp"
)

// Definition records: u8 kind, then a payload that is a series of fields:
// strings and tables as uvarint length and bytes, numbers as uvarint, flags as
// one byte.
const (
	recExchangeDeclare byte = 1 // vhost, name, type, flags, arguments; log ids: of its history, of delayed messages and their schedule, of values seen
	recExchangeDelete  byte = 2 // vhost, name
	recQueueDeclare    byte = 3 // vhost, name, log id, flags, arguments[, log id of delivery counts][, of values seen]; again when a flag comes
	recQueueDelete     byte = 4 // vhost, name, log id
	recBind            byte = 5 // vhost, source, flags, destination, key, arguments
	recUnbind          byte = 6 // likewise
	recNextLogID       byte = 7 // number: ids below it have been used
	recSnapshot        byte = 8 // sequence number, number of records; first in a file

	// Kinds from 32 on are in accessrecords.go.
)

const (
	flagAutoDelete byte = 1 << iota
	flagInternal
	flagToExchange
	flagExpirations // messages had expirations of their own
	flagCounts      // there is a log of delivery counts
	flagDedup       // there is a log of values seen
	flagDelayed     // the exchange keeps delayed messages
	flagLevels      // the ids behind the log's own are for its levels; see levels.go

	flagPaused = flagInternal // of queues
)

type fields []byte

func (f fields) str(s string) fields {
	return append(binary.AppendUvarint(f, uint64(len(s))), s...)
}

func (f fields) num(n uint64) fields { return binary.AppendUvarint(f, n) }

func flagIf(on bool, flag byte) byte {
	if on {
		return flag
	}
	return 0
}

func exchangeRecord(kind byte, vh *VHost, e *Exchange) []byte {
	f := fields{kind}.str(vh.Name).str(e.Name)
	if kind == recExchangeDelete {
		return f
	}
	deduplicates := e.dedup != nil && e.dedup.id != 0
	f = append(f.str(e.Type), flagIf(e.AutoDelete, flagAutoDelete)|flagIf(e.Internal, flagInternal)|
		flagIf(e.delayed != nil, flagDelayed)|flagIf(deduplicates, flagDedup))
	f = f.str(string(e.Arguments))
	if e.Type == typeRecentHistory {
		f = f.num(e.history.ID)
	}
	if e.delayed != nil {
		f = f.num(e.delayed.ID).num(e.delayed.hidden.scheduleID)
	}
	if deduplicates {
		f = f.num(e.dedup.id)
	}
	return f
}

func queueRecord(kind byte, vh *VHost, q *Queue) []byte {
	f := fields{kind}.str(vh.Name).str(q.Name).num(q.ID)
	if kind == recQueueDelete {
		return f
	}
	f = append(f, flagIf(q.AutoDelete, flagAutoDelete)|flagIf(q.sides().hadExpirations, flagExpirations)|
		flagIf(q.sides().countsID != 0, flagCounts)|flagIf(q.sides().dedupID != 0, flagDedup)|flagIf(q.Ranked(), flagLevels)|
		flagIf(q.Paused(), flagPaused))
	f = f.str(string(q.Arguments))
	if q.sides().countsID != 0 {
		f = f.num(q.sides().countsID)
	}
	if q.sides().dedupID != 0 {
		f = f.num(q.sides().dedupID)
	}
	return f
}

func bindingRecord(kind byte, vh *VHost, b *Binding) []byte {
	f := append(fields{kind}.str(vh.Name).str(b.Source), flagIf(b.ToExchange, flagToExchange))
	destination := b.Queue
	if b.ToExchange {
		destination = b.Exchange
	}
	return f.str(destination).str(b.RoutingKey).str(string(b.Arguments))
}

var errRecord = errors.New("broker: definition record is malformed")

// reader takes fields off a payload; the first error sticks.
type reader struct {
	rest []byte
	err  error
}

// more says whether there is anything left: a field that later versions added.
func (r *reader) more() bool { return r.err == nil && len(r.rest) > 0 }

func (r *reader) num() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.err, r.rest = errRecord, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

func (r *reader) str() string {
	n := r.num()
	if n > uint64(len(r.rest)) {
		r.err, r.rest = errRecord, nil
		return ""
	}
	s := string(r.rest[:n])
	r.rest = r.rest[n:]
	return s
}

func (r *reader) flags() byte {
	if len(r.rest) == 0 {
		r.err = errRecord
		return 0
	}
	b := r.rest[0]
	r.rest = r.rest[1:]
	return b
}

// numIf is a number that is there when a flag says so.
func (r *reader) numIf(flags, flag byte) uint64 {
	if flags&flag == 0 {
		return 0
	}
	return r.num()
}

func (r *reader) table() amqp.Table {
	t := amqp.Table(r.str())
	if err := amqp.ValidateTable(t); err != nil {
		r.err = errRecord
	}
	return t
}

// apply replays one record. Records that make no sense any more (a binding
// whose queue is gone) are skipped: the record of a deletion implies them.
func (b *Broker) apply(rec []byte) error {
	kind, r := rec[0], &reader{rest: rec[1:]}
	if kind == recNextLogID {
		b.reserveLogID(r.num())
		return r.err
	}
	if kind >= recAccessFirst {
		return b.applyAccess(kind, r)
	}
	vh := b.recordedVHost(r.str())
	if vh == nil {
		return r.err // it is gone, and what is in it
	}
	switch kind {
	case recExchangeDeclare:
		d := ExchangeDeclare{Name: r.str(), Type: r.str(), Durable: true}
		flags := r.flags()
		d.AutoDelete, d.Internal, d.Arguments = flags&flagAutoDelete != 0, flags&flagInternal != 0, r.table()
		history := uint64(0)
		if d.Type == typeRecentHistory {
			history = r.num()
		}
		delayed, schedule := r.numIf(flags, flagDelayed), r.numIf(flags, flagDelayed)
		dedupID := r.numIf(flags, flagDedup)
		if r.err == nil && (!knownType(d.Type) || newIndex(exchangeKind(d.Type, d.Arguments), d.Arguments) == nil) {
			return fmt.Errorf("broker: exchange '%s' has the unknown type '%s'", d.Name, d.Type)
		}
		if r.err == nil && vh.exchanges[d.Name] == nil {
			e := vh.addExchange(d)
			if d.Type == typeRecentHistory {
				b.reserveLogID(history + 1)
				e.history = vh.newHistory(e, history) // opened later, as queues' logs
			}
			if flags&flagDelayed != 0 {
				b.reserveLogID(max(delayed, schedule) + 1)
				e.delayed = vh.newDelayed(e, delayed, schedule)
			}
			b.reserveLogID(dedupID + 1)
			if e.dedup != nil {
				e.dedup.id = dedupID
			}
		}
	case recExchangeDelete:
		if e := vh.exchanges[r.str()]; r.err == nil && e != nil {
			b.dropLogs(e)
			vh.dropExchange(e)
			vh.droppedValues = nil // they have no logs yet
		}
	case recQueueDeclare:
		d := QueueDeclare{Name: r.str(), Durable: true}
		id := r.num()
		flags := r.flags()
		d.AutoDelete, d.Arguments = flags&flagAutoDelete != 0, r.table()
		countsID, dedupID := r.numIf(flags, flagCounts), r.numIf(flags, flagDedup)
		if r.err != nil {
			return r.err
		}
		q := vh.queues[d.Name]
		if q == nil {
			// The log is opened when it is known that the queue still exists.
			q = newQueue(vh, &d, id)
			b.reserveLogID(id + 1 + levelIDs(d.Arguments))
			if flags&flagLevels == 0 {
				q.levels = nil // from before there were any: the ids are others'
			}
			vh.queues[d.Name] = q
		}
		if q.ID == id {
			q.paused = flags&flagPaused != 0
			b.reserveLogID(max(countsID, dedupID) + 1)
			if flags&(flagExpirations|flagCounts|flagDedup) != 0 {
				side := q.needSides()
				side.hadExpirations = side.hadExpirations || flags&flagExpirations != 0
				side.countsID, side.dedupID = max(side.countsID, countsID), max(side.dedupID, dedupID)
			}
		}
	case recQueueDelete:
		if q := vh.queues[r.str()]; r.err == nil && q != nil {
			delete(vh.queues, q.Name)
			b.drop(q)
			for source := range q.bound {
				vh.unbindAll(source, Dest{Queue: q})
			}
		}
	case recBind, recUnbind:
		bd := Binding{Source: r.str(), ToExchange: r.flags()&flagToExchange != 0}
		if destination := r.str(); bd.ToExchange {
			bd.Exchange = destination
		} else {
			bd.Queue = destination
		}
		bd.RoutingKey, bd.Arguments = r.str(), r.table()
		if r.err != nil {
			return r.err
		}
		source, d, err := vh.ends(&bd, nil)
		switch {
		case err != nil: // skipped, see above
		case kind == recBind:
			vh.bind(source, d, &bd)
		default:
			vh.unbind(source, d, &bd)
		}
	default:
		return fmt.Errorf("broker: definition record of unknown kind %d: written by a newer version?", kind)
	}
	return r.err
}

// snapshot is the shortest series of records that leads to the present state.
func (vh *VHost) snapshot(emit func(rec []byte)) {
	for _, e := range vh.exchanges {
		if e.Durable && !isPredeclared(e.Name) {
			emit(exchangeRecord(recExchangeDeclare, vh, e))
		}
	}
	for _, q := range vh.queues {
		if q.Durable && q.Owner == nil {
			emit(queueRecord(recQueueDeclare, vh, q))
		}
	}
	for _, e := range vh.exchanges {
		if !e.Durable {
			continue
		}
		for b := range e.index.All() {
			if !b.Destination.durable() {
				continue
			}
			bd := Binding{Source: e.Name, RoutingKey: b.RoutingKey, Arguments: b.Arguments}
			if q := b.Destination.Queue; q != nil {
				bd.Queue = q.Name
			} else {
				bd.Exchange, bd.ToExchange = b.Destination.Exchange.Name, true
			}
			emit(bindingRecord(recBind, vh, &bd))
		}
	}
}

// isPredeclared says whether an exchange is one of those every vhost has.
func isPredeclared(name string) bool {
	for _, p := range predeclared {
		if p.name == name {
			return true
		}
	}
	return name == LogExchange
}
