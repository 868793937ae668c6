package broker

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/basaltmq/basaltmq/engine/access"
)

// This file imports definitions: many changes that count together or not at all.
// All of them are judged first, under the locks of the virtual hosts concerned,
// against what is there and what comes before them in the import. If none is
// refused, all are made and recorded as one group: after a crash they are there
// or not. What is there already makes no record: importing twice is importing
// once.

// Imported is one thing to import.
type Imported[T any] struct {
	At    string // where it comes from, for the report
	Value T
}

// Import is what to import. Users, policies, parameters and permissions replace
// what is there under the same name; queues, exchanges and bindings must agree
// with what is there.
type Import struct {
	Users            []Imported[UserImport]
	VHosts           []Imported[VHostImport]
	Permissions      []Imported[access.UserPermissions]
	TopicPermissions []Imported[access.UserTopicPermissions]
	Limits           []Imported[LimitsImport]
	Exchanges        []Imported[ExchangeImport]
	Queues           []Imported[QueueImport]
	Bindings         []Imported[BindingImport]
	Policies         []Imported[Policy]
	OperatorPolicies []Imported[Policy]
	Parameters       []Imported[Parameter]
}

// UserImport is a user to import.
type UserImport struct {
	access.Spec
	Cleartext  string // password; used when there is no hash
	KeepLimits bool   // the import says nothing of limits
}

// VHostImport is a virtual host to import; what is nil stays as it is.
type VHostImport struct {
	Name                          string
	Description, DefaultQueueType *string
	Tags                          []string
}

// LimitsImport are limits of a virtual host to import.
type LimitsImport struct {
	VHost  string
	Limits access.Limits
}

// ExchangeImport is an exchange to import.
type ExchangeImport struct {
	VHost string
	ExchangeDeclare
}

// QueueImport is a queue to import.
type QueueImport struct {
	VHost string
	QueueDeclare
}

// BindingImport is a binding to import.
type BindingImport struct {
	VHost string
	Binding
}

// Refusal says why something cannot be imported.
type Refusal struct{ At, Text string }

func (r Refusal) String() string { return r.At + ": " + r.Text }

// ImportResult counts what an import changed.
type ImportResult struct {
	Seq uint64 // of the record, or of those that it rests on
	// Created and Changed things; what was as it should be does not count.
	Changes int
}

// importRecordBytesMax bounds the record of an import: it has to fit in the
// journal beside what else is going on.
const importRecordBytesMax = 48 << 20

// Import imports definitions. With refusals, or an error, nothing has changed.
func (b *Broker) Import(in *Import) (ImportResult, []Refusal, error) {
	b.admin.Lock()
	defer b.admin.Unlock()
	if err := b.defs.Err(); err != nil {
		return ImportResult{}, nil, err
	}
	if !b.seeded {
		b.begin()
	}
	p := b.planImport(in)
	p.lock()
	p.judge(in)
	var err error
	var result ImportResult
	if len(p.refused) == 0 {
		err = p.apply(&result)
	}
	p.unlock()
	if len(p.refused) > 0 || err != nil {
		return ImportResult{}, p.refused, err
	}
	b.mu.Lock()
	for _, v := range p.sorted() {
		b.vhosts[v.vh.Name] = v.vh
	}
	for _, vh := range b.vhosts {
		vh.version.Add(1)
	}
	b.mu.Unlock()
	for _, v := range p.sorted() {
		v.applyPolicies()
	}
	return result, nil, nil
}

// importPlan is an import on its way. The caller holds Broker.admin.
type importPlan struct {
	broker  *Broker
	vhosts  map[string]*vhostPlan
	users   *access.Registry // all users, as they will be; permissions are checked with it
	refused []Refusal

	changes   []*importChange // of all but topology, in order
	changesBy map[string]*importChange
}

// importChange is what a thing under one name is to become: what the import says
// last of it.
type importChange struct {
	record, before []byte // before: what would lead to what there is now
	apply          func() // nil: the record is all
}

// planImport makes a plan with the virtual hosts that are concerned.
func (b *Broker) planImport(in *Import) *importPlan {
	p := &importPlan{broker: b, vhosts: map[string]*vhostPlan{}, users: access.NewRegistry(), changesBy: map[string]*importChange{}}
	for _, s := range b.users.Specs() {
		_ = p.users.Put(s) // it, and what follows, is in a registry already
	}
	for _, g := range b.users.ListPermissions("", "") {
		_ = p.users.SetPermissions(g.User, g.VHost, g.Permissions)
	}
	for _, t := range b.users.ListTopicPermissions("", "") {
		_ = p.users.SetTopicPermissions(t.User, t.VHost, t.Exchange, t.TopicPermissions)
	}
	for _, i := range in.VHosts {
		if b.VHost(i.Value.Name) == nil && p.vhosts[i.Value.Name] == nil {
			vh := newVHost(b, i.Value.Name)
			p.vhosts[vh.Name] = newVHostPlan(vh, true)
			continue
		}
		p.concern(i.Value.Name)
	}
	for _, i := range in.Limits {
		p.concern(i.Value.VHost)
	}
	for _, i := range in.Exchanges {
		p.concern(i.Value.VHost)
	}
	for _, i := range in.Queues {
		p.concern(i.Value.VHost)
	}
	for _, i := range in.Bindings {
		p.concern(i.Value.VHost)
	}
	for _, i := range in.Policies {
		p.concern(i.Value.VHost)
	}
	for _, i := range in.OperatorPolicies {
		p.concern(i.Value.VHost)
	}
	return p
}

func (p *importPlan) concern(vhost string) {
	if p.vhosts[vhost] == nil {
		if vh := p.broker.VHost(vhost); vh != nil {
			p.vhosts[vhost] = newVHostPlan(vh, false)
		}
	}
}

func (p *importPlan) sorted() (list []*vhostPlan) {
	for _, name := range slices.Sorted(maps.Keys(p.vhosts)) {
		list = append(list, p.vhosts[name])
	}
	return list
}

// lock takes the locks of all virtual hosts concerned. Like a checkpoint, it may
// hold several because it holds admin.
func (p *importPlan) lock() {
	for _, v := range p.sorted() {
		v.vh.mu.Lock()
	}
}

func (p *importPlan) unlock() {
	for _, v := range p.sorted() {
		v.vh.unlock()
	}
}

func (p *importPlan) refuse(at string, err error) {
	if err != nil {
		p.refused = append(p.refused, Refusal{at, refusalText(err)})
	}
}

// exists finds out whether a virtual host is there or will be.
func (p *importPlan) exists(vhost string) error {
	if p.vhosts[vhost] == nil && p.broker.VHost(vhost) == nil {
		return noVHost(vhost)
	}
	return nil
}

// in finds the plan of a virtual host.
func (p *importPlan) in(vhost string) (*vhostPlan, error) {
	if v := p.vhosts[vhost]; v != nil {
		return v, nil
	}
	return nil, noVHost(vhost)
}

// apply makes all changes; nothing was refused. An error leaves all as it was.
func (p *importPlan) apply(result *ImportResult) error {
	b := p.broker
	changes := slices.DeleteFunc(slices.Clone(p.changes), func(c *importChange) bool { return bytes.Equal(c.record, c.before) })
	var records [][]byte
	for _, c := range changes {
		records = append(records, c.record)
	}
	for i, v := range p.sorted() {
		made, err := v.create()
		if err != nil {
			for _, undo := range p.sorted()[:i+1] {
				undo.undo()
			}
			return err
		}
		records = append(records, made...)
	}
	size := 0
	for _, rec := range records {
		size += len(rec) + 4
	}
	if size > importRecordBytesMax {
		for _, undo := range p.sorted() {
			undo.undo()
		}
		return access.Errorf(access.Invalid, "the definitions are too many for one import: %d MiB of records, %d are possible; import one virtual host after the other", size>>20, importRecordBytesMax>>20)
	}
	// From here on nothing can fail: all has been checked.
	for _, v := range p.sorted() {
		v.commit()
	}
	for _, c := range changes {
		if c.apply != nil {
			c.apply()
		}
	}
	result.Changes = len(records)
	if len(records) == 0 {
		result.Seq = b.pendingSeq()
		return nil
	}
	result.Seq = b.record(groupRecord(records...))
	return nil
}

// must holds what apply relies on.
func (p *importPlan) must(err error) {
	if err != nil {
		panic(fmt.Sprintf("broker: an import that was checked failed: %v", err))
	}
}
