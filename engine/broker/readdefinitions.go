package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// DefinitionKind says what a definition record is about.
type DefinitionKind string

const (
	DefinitionExchange  DefinitionKind = "exchange"
	DefinitionQueue     DefinitionKind = "queue"
	DefinitionBinding   DefinitionKind = "binding"
	DefinitionNextLogID DefinitionKind = "next log id"
)

// DefinitionInfo is one record of a definitions file, or (Err not nil) a place
// in it where there should be one.
type DefinitionInfo struct {
	Pos     int64 // byte position in the file
	Bytes   int64
	Kind    DefinitionKind
	Deleted bool   // the record ends what it names
	VHost   string // of exchanges, queues and bindings
	Name    string // of the exchange or queue; the source of a binding
	LogID   uint64 // of a queue
	Err     error
}

// Errors of places in a definitions file.
var (
	// ErrDefinitionsHeader: the file does not begin as it should. The broker
	// refuses to start.
	ErrDefinitionsHeader = errors.New("not a definitions file of this version: the broker refuses to start on it")
	// ErrDefinitionsTorn: the end of the file is no whole record, which a crash
	// can leave. The broker cuts it off.
	ErrDefinitionsTorn = errors.New("a record without its end: the next start cuts it off; it had not been answered")
	// ErrDefinitionsEnd: the last record is whole and its checksum wrong. The
	// broker cuts it off.
	ErrDefinitionsEnd = errors.New("the last record has a wrong checksum: the next start cuts it off, keeping a copy as .torn")
	// ErrDefinitionsDamaged: bad bytes with good records after them. The broker
	// refuses to start.
	ErrDefinitionsDamaged = errors.New("bad bytes before good records: the broker refuses to start on it; restore the file from a backup")
)

// ReadDefinitions calls visit for each record in the contents of a definitions
// file, in order, for tools: it applies nothing, changes nothing, and goes on
// after damage. An empty file holds nothing and is sound.
func ReadDefinitions(data []byte, visit func(DefinitionInfo)) {
	if len(data) == 0 {
		return
	}
	if !bytes.HasPrefix(data, []byte(definitionsMagic)) {
		visit(DefinitionInfo{Bytes: int64(min(len(data), len(definitionsMagic))), Err: ErrDefinitionsHeader})
		return
	}
	for pos := len(definitionsMagic); pos < len(data); {
		if rec, n := nextRecord(data[pos:]); n > 0 {
			info := readDefinition(rec)
			info.Pos, info.Bytes = int64(pos), int64(n)
			visit(info)
			pos += n
			continue
		}
		next := pos + 1
		for next < len(data) {
			if _, n := nextRecord(data[next:]); n > 0 {
				break
			}
			next++
		}
		info := DefinitionInfo{Pos: int64(pos), Bytes: int64(next - pos), Err: ErrDefinitionsDamaged}
		if next == len(data) {
			info.Err = tailError(data[pos:])
		}
		visit(info)
		pos = next
	}
}

// tailError judges the bytes after the last good record.
func tailError(tail []byte) error {
	if len(tail) < recordHeader || len(bytes.TrimLeft(tail, "\x00")) == 0 {
		return ErrDefinitionsTorn
	}
	if size := binary.LittleEndian.Uint32(tail); uint64(size) > uint64(len(tail)-recordHeader) && size <= recordBytesMax {
		return ErrDefinitionsTorn
	}
	return ErrDefinitionsEnd
}

// readDefinition decodes a framed record's contents.
func readDefinition(rec []byte) (info DefinitionInfo) {
	kind, r := rec[0], &reader{rest: rec[1:]}
	if kind == recNextLogID {
		info.Kind, info.LogID = DefinitionNextLogID, r.num()
	} else {
		info.VHost, info.Name = r.str(), r.str()
	}
	switch kind {
	case recNextLogID:
	case recExchangeDeclare:
		info.Kind = DefinitionExchange
		exchangeType := r.str()
		r.flags()
		r.table()
		if r.err == nil && newIndex(exchangeType) == nil {
			info.Err = fmt.Errorf("exchange %q has the unknown type %q: the broker refuses to start on it", info.Name, exchangeType)
		}
	case recExchangeDelete:
		info.Kind, info.Deleted = DefinitionExchange, true
	case recQueueDeclare:
		info.Kind, info.LogID = DefinitionQueue, r.num()
		r.flags()
		r.table()
	case recQueueDelete:
		info.Kind, info.Deleted, info.LogID = DefinitionQueue, true, r.num()
	case recBind, recUnbind:
		info.Kind, info.Deleted = DefinitionBinding, kind == recUnbind
		r.flags()
		r.str()
		r.str()
		r.table()
	default:
		info.Err = fmt.Errorf("a record of the unknown kind %d: written by a newer version?", kind)
	}
	if r.err != nil {
		info.Err = errors.New("the record is malformed: the broker refuses to start on it")
	}
	return info
}
