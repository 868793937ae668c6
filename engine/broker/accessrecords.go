package broker

import (
	"fmt"
	"maps"
	"slices"

	"github.com/basaltmq/basaltmq/engine/access"
)

// Definition records of virtual hosts, users and permissions. Strings, numbers
// and flags as in records.go; a list is its length and its elements, limits are
// a list of names and values.
//
// Data directories from before there were users have no such record: each
// virtual host that a record names exists there. From the first of them on,
// recAccess, only those with a record of their own do.
const (
	recAccessFirst byte = 32

	recGroup            byte = 32 // list of records that count together
	recAccess           byte = 33 // number: version of what follows, 1
	recVHost            byte = 34 // name, description, default queue type, tags, limits
	recVHostDelete      byte = 35 // name
	recUser             byte = 36 // name, hash algorithm, hash, tags, limits; then SCRAM credential, if there is one
	recUserDelete       byte = 37 // name
	recPermissions      byte = 38 // vhost, user, configure, write, read
	recPermissionsClear byte = 39 // vhost, user
	recTopic            byte = 40 // vhost, user, exchange, write, read
	recTopicClear       byte = 41 // vhost, user, exchange; empty: all
)

// accessVersion is the version of these records.
const accessVersion = 1

func (f fields) list(items []string) fields {
	f = f.num(uint64(len(items)))
	for _, s := range items {
		f = f.str(s)
	}
	return f
}

func (f fields) limits(l access.Limits) fields {
	f = f.num(uint64(len(l)))
	for _, name := range slices.Sorted(maps.Keys(l)) {
		f = f.str(name).num(uint64(l[name]))
	}
	return f
}

func (r *reader) list() (items []string) {
	for n := r.num(); n > 0 && r.err == nil; n-- {
		items = append(items, r.str())
	}
	return items
}

func (r *reader) limits() (l access.Limits) {
	for n := r.num(); n > 0 && r.err == nil; n-- {
		if l == nil {
			l = access.Limits{}
		}
		name := r.str()
		l[name] = int64(r.num())
	}
	return l
}

func vhostRecord(s *VHostSpec) []byte {
	return fields{recVHost}.str(s.Name).str(s.Description).str(s.DefaultQueueType).list(s.Tags).limits(s.Limits)
}

func userRecord(s access.Spec) []byte {
	f := fields{recUser}.str(s.Name).str(string(s.Password.Algorithm)).str(s.Password.Text).list(s.Tags).limits(s.Limits)
	if s.Password.Scram != "" {
		f = f.str(s.Password.Scram)
	}
	return f
}

func permissionsRecord(p access.UserPermissions) []byte {
	return fields{recPermissions}.str(p.VHost).str(p.User).str(p.Configure).str(p.Write).str(p.Read)
}

func topicRecord(p access.UserTopicPermissions) []byte {
	return fields{recTopic}.str(p.VHost).str(p.User).str(p.Exchange).str(p.Write).str(p.Read)
}

// groupRecord makes one record of several: after a crash all of them count, or
// none.
func groupRecord(records ...[]byte) []byte {
	f := fields{recGroup}.num(uint64(len(records)))
	for _, rec := range records {
		f = f.str(string(rec))
	}
	return f
}

// recordedVHost finds the virtual host that a record names; nil if it is gone.
func (b *Broker) recordedVHost(name string) *VHost {
	if b.seeded {
		return b.vhosts[name]
	}
	return b.vhost(name)
}

// applyAccess replays one record of this file.
func (b *Broker) applyAccess(kind byte, r *reader) error {
	b.seeded = b.seeded || kind != recGroup
	switch kind {
	case recGroup:
		for n := r.num(); n > 0 && r.err == nil; n-- {
			rec := r.str()
			if r.err != nil || rec == "" || rec[0] == recGroup {
				return errRecord
			}
			if err := b.apply([]byte(rec)); err != nil {
				return err
			}
		}
	case recAccess:
		if v := r.num(); r.err == nil && v != accessVersion {
			return fmt.Errorf("broker: records of users have version %d: written by a newer version of the broker?", v)
		}
	case recVHost:
		s := VHostSpec{Name: r.str(), Description: r.str(), DefaultQueueType: r.str(), Tags: r.list(), Limits: r.limits()}
		if r.err != nil {
			return r.err
		}
		var err error
		if s.Limits, err = access.CheckLimits(access.VHostLimits, s.Limits); err != nil {
			return err
		}
		vh := b.vhost(s.Name)
		vh.spec.Store(&s)
		vh.recorded = true
	case recVHostDelete:
		if name := r.str(); r.err == nil {
			b.replayVHostDelete(name)
		}
	case recUser:
		s := access.Spec{Name: r.str(), Password: access.Hash{Algorithm: access.Algorithm(r.str()), Text: r.str()}, Tags: r.list(), Limits: r.limits()}
		if r.more() {
			s.Password.Scram = r.str()
		}
		if r.err == nil {
			return b.users.Put(s)
		}
	case recUserDelete:
		if name := r.str(); r.err == nil {
			return ifFound(b.users.Delete(name))
		}
	case recPermissions, recPermissionsClear, recTopic, recTopicClear:
		return b.applyPermissions(kind, r)
	case recPolicy, recPolicyClear, recParameter, recParameterClear:
		return b.applyPolicy(kind, r)
	default:
		return unknownKind(kind)
	}
	return r.err
}

// applyPermissions replays a change of permissions. Of a user or virtual host
// that is gone there is nothing to change.
func (b *Broker) applyPermissions(kind byte, r *reader) error {
	vhost, user := r.str(), r.str()
	var exchange string
	var patterns [3]string
	n := 0
	switch kind {
	case recPermissions:
		n = 3
	case recTopic:
		exchange, n = r.str(), 2
	case recTopicClear:
		exchange = r.str()
	}
	for i := range n {
		patterns[i] = r.str()
	}
	if r.err != nil || b.vhosts[vhost] == nil {
		return r.err
	}
	var err error
	switch kind {
	case recPermissions:
		err = b.users.SetPermissions(user, vhost, access.Permissions{Configure: patterns[0], Write: patterns[1], Read: patterns[2]})
	case recPermissionsClear:
		err = b.users.ClearPermissions(user, vhost)
	case recTopic:
		err = b.users.SetTopicPermissions(user, vhost, exchange, access.TopicPermissions{Write: patterns[0], Read: patterns[1]})
	case recTopicClear:
		err = b.users.ClearTopicPermissions(user, vhost, exchange)
	}
	return ifFound(err)
}

// ifFound passes over errors that say that something is not there.
func ifFound(err error) error {
	if access.IsReason(err, access.NotFound) {
		return nil
	}
	return err
}

func (b *Broker) replayVHostDelete(name string) {
	vh := b.vhosts[name]
	if vh == nil {
		return
	}
	for _, q := range vh.queues {
		b.drop(q)
	}
	for _, e := range vh.exchanges {
		b.dropLogs(e)
	}
	delete(b.vhosts, name)
	b.users.DropVHost(name)
	b.dropParameters(name)
}

// forgetUnrecorded removes the default virtual host if the records, being of a
// version that knows of virtual hosts, do not have it: it was deleted.
func (b *Broker) forgetUnrecorded() {
	for name, vh := range maps.Clone(b.vhosts) {
		if b.seeded && !vh.recorded {
			b.replayVHostDelete(name)
		}
	}
}

// snapshotAccess makes records of virtual hosts, users and permissions; the
// caller holds admin.
func (b *Broker) snapshotAccess(vhosts []*VHost, emit func(rec []byte)) {
	if !b.seeded {
		return
	}
	emit(fields{recAccess}.num(accessVersion))
	for _, vh := range vhosts {
		emit(vhostRecord(vh.spec.Load()))
	}
	for _, s := range b.users.Specs() {
		emit(userRecord(s))
	}
	for _, p := range b.users.ListPermissions("", "") {
		emit(permissionsRecord(p))
	}
	for _, p := range b.users.ListTopicPermissions("", "") {
		emit(topicRecord(p))
	}
}
