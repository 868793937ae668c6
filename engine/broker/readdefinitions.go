package broker

import (
	"bytes"
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
	DefinitionSnapshot  DefinitionKind = "snapshot" // first in a file

	DefinitionGroup       DefinitionKind = "group" // of records that count together
	DefinitionAccess      DefinitionKind = "users" // version of the records of users
	DefinitionVHost       DefinitionKind = "vhost"
	DefinitionUser        DefinitionKind = "user"
	DefinitionPermissions DefinitionKind = "permissions"
	DefinitionTopic       DefinitionKind = "topic permissions"
	DefinitionPolicy      DefinitionKind = "policy"
	DefinitionParameter   DefinitionKind = "parameter"
)

// DefinitionInfo is one record of a definitions file, or (Err not nil) a place
// in it where there should be one.
type DefinitionInfo struct {
	Pos     int64 // byte position in the file
	Bytes   int64
	Kind    DefinitionKind
	Deleted bool   // the record ends what it names
	VHost   string // of exchanges, queues, bindings and permissions; a vhost's name
	Name    string // of the exchange, queue or user; the source of a binding
	LogID   uint64 // of a queue, or of what an exchange keeps; 0: none
	// CountsID is the log of a queue's delivery counts; 0: there is none.
	CountsID uint64
	// DedupID is the log of the values that a deduplicating queue has seen, or an
	// exchange that keeps messages as well; another's is its LogID.
	DedupID uint64
	// ScheduleID is the log of when the delayed messages of an exchange are due.
	ScheduleID uint64
	// Levels is how many ids behind LogID belong to the queue besides.
	Levels uint64
	Seq    uint64 // of a snapshot: the number of the last record it includes
	Err    error
}

// Errors of places in a definitions file. The broker refuses to start on each.
var (
	ErrDefinitionsHeader  = errors.New("not a definitions file of this version: the broker refuses to start on it")
	ErrDefinitionsDamaged = errors.New("bad bytes: the broker refuses to start on it; restore the file from a backup")
	ErrDefinitionsCount   = errors.New("the file has not as many records as it says: the broker refuses to start on it; restore it from a backup")
)

// ReadDefinitions calls visit for each record in the contents of a definitions
// file, in order, for tools: it applies nothing, changes nothing, and goes on
// after damage. What the journal has beyond it is not in the file.
func ReadDefinitions(data []byte, visit func(DefinitionInfo)) {
	if !bytes.HasPrefix(data, []byte(definitionsMagic)) {
		visit(DefinitionInfo{Bytes: int64(min(len(data), len(definitionsMagic))), Err: ErrDefinitionsHeader})
		return
	}
	count, want := uint64(0), uint64(0)
	for pos := len(definitionsMagic); pos < len(data); {
		if rec, n := nextRecord(data[pos:]); n > 0 {
			if count++; count == 1 {
				_, want, _ = parseSnapshotRecord(rec)
			}
			info := readDefinition(rec, count == 1)
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
		visit(DefinitionInfo{Pos: int64(pos), Bytes: int64(next - pos), Err: ErrDefinitionsDamaged})
		pos = next
	}
	if count != want || count == 0 {
		visit(DefinitionInfo{Pos: int64(len(data)), Err: ErrDefinitionsCount})
	}
}

// ReadDefinition decodes one record as the journal has it. Pos and Bytes stay 0.
func ReadDefinition(rec []byte) DefinitionInfo {
	if len(rec) == 0 {
		return DefinitionInfo{Err: errMalformed}
	}
	return readDefinition(rec, false)
}

// EachDefinition decodes one record as the journal has it, like ReadDefinition,
// and then, if it is a sound group, each record in it.
func EachDefinition(rec []byte, visit func(DefinitionInfo)) {
	info := ReadDefinition(rec)
	visit(info)
	if info.Err != nil || info.Kind != DefinitionGroup {
		return
	}
	r := &reader{rest: rec[1:]}
	for n := r.num(); n > 0; n-- {
		visit(readDefinition([]byte(r.str()), false))
	}
}

var errMalformed = errors.New("the record is malformed: the broker refuses to start on it")

// readDefinition decodes a record; first says that it is the first of a file,
// where the snapshot's own belongs.
func readDefinition(rec []byte, first bool) (info DefinitionInfo) {
	kind, r := rec[0], &reader{rest: rec[1:]}
	if kind == recSnapshot && !first {
		info.Err = unknownKind(kind)
		return info
	}
	if kind >= recPolicyFirst && kind <= recPolicyLast {
		return readPolicyDefinition(kind, r)
	}
	if kind >= recAccessFirst {
		return readAccessDefinition(kind, r)
	}
	switch kind {
	case recNextLogID:
		info.Kind, info.LogID = DefinitionNextLogID, r.num()
	case recSnapshot:
		info.Kind = DefinitionSnapshot
		info.Seq = r.num()
		r.num()
	default:
		info.VHost, info.Name = r.str(), r.str()
	}
	switch kind {
	case recNextLogID, recSnapshot:
	case recExchangeDeclare:
		info.Kind = DefinitionExchange
		exchangeType := r.str()
		flags := r.flags()
		r.table()
		if exchangeType == typeRecentHistory {
			info.LogID = r.num()
		}
		if flags&flagDelayed != 0 {
			info.LogID, info.ScheduleID = r.num(), r.num()
		}
		if values := r.numIf(flags, flagDedup); info.LogID == 0 {
			info.LogID = values
		} else {
			info.DedupID = values
		}
		if r.err == nil && !knownType(exchangeType) {
			info.Err = fmt.Errorf("exchange %q has the unknown type %q: the broker refuses to start on it", info.Name, exchangeType)
		}
	case recExchangeDelete:
		info.Kind, info.Deleted = DefinitionExchange, true
	case recQueueDeclare:
		info.Kind, info.LogID = DefinitionQueue, r.num()
		flags := r.flags()
		if arguments := r.table(); flags&flagLevels != 0 && r.err == nil {
			info.Levels = levelIDs(arguments)
		}
		info.CountsID, info.DedupID = r.numIf(flags, flagCounts), r.numIf(flags, flagDedup)
	case recQueueDelete:
		info.Kind, info.Deleted, info.LogID = DefinitionQueue, true, r.num()
	case recBind, recUnbind:
		info.Kind, info.Deleted = DefinitionBinding, kind == recUnbind
		r.flags()
		r.str()
		r.str()
		r.table()
	default:
		info.Err = unknownKind(kind)
		return info
	}
	if r.err != nil {
		info.Err = errMalformed
	}
	return info
}

func unknownKind(kind byte) error {
	return fmt.Errorf("a record of the unknown kind %d: written by a newer version?", kind)
}

// readAccessDefinition decodes a record of users, permissions or a vhost.
func readAccessDefinition(kind byte, r *reader) (info DefinitionInfo) {
	switch kind {
	case recGroup:
		info.Kind = DefinitionGroup
		for n := r.num(); n > 0 && r.err == nil; n-- {
			rec := r.str()
			if r.err != nil || rec == "" || rec[0] == recGroup {
				r.err = errRecord
			} else if inner := readDefinition([]byte(rec), false); inner.Err != nil {
				info.Err = inner.Err
				return info
			}
		}
	case recAccess:
		info.Kind = DefinitionAccess
		if v := r.num(); r.err == nil && v != accessVersion {
			info.Err = fmt.Errorf("records of users of the unknown version %d: written by a newer version?", v)
			return info
		}
	case recVHost, recVHostDelete:
		info.Kind, info.Deleted, info.VHost = DefinitionVHost, kind == recVHostDelete, r.str()
		if kind == recVHost {
			r.str()
			r.str()
			r.list()
			r.limits()
		}
	case recUser, recUserDelete:
		info.Kind, info.Deleted, info.Name = DefinitionUser, kind == recUserDelete, r.str()
		if kind == recUser {
			r.str()
			r.str()
			r.list()
			r.limits()
		}
	case recPermissions, recPermissionsClear:
		info.Kind, info.Deleted, info.VHost, info.Name = DefinitionPermissions, kind == recPermissionsClear, r.str(), r.str()
		if kind == recPermissions {
			r.str()
			r.str()
			r.str()
		}
	case recTopic, recTopicClear:
		info.Kind, info.Deleted, info.VHost, info.Name = DefinitionTopic, kind == recTopicClear, r.str(), r.str()
		r.str()
		if kind == recTopic {
			r.str()
			r.str()
		}
	default:
		info.Err = unknownKind(kind)
		return info
	}
	if r.err != nil {
		info.Err = errMalformed
	}
	return info
}
