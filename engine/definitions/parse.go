package definitions

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/wire/amqp"
	"github.com/basaltmq/basaltmq/wire/amqp/tablejson"
	"github.com/basaltmq/basaltmq/wire/exactjson"
)

// FileBytesMax bounds a definitions file: half a million queues and bindings.
const FileBytesMax = 64 << 20

// refusalsMax bounds a report; a file that is wrong everywhere needs no more.
const refusalsMax = 1000

// parser collects what a file asks for.
type parser struct {
	vhost   string // into which all goes; empty: elements name theirs
	in      broker.Import
	refused []broker.Refusal
	ignored []string
}

// sections are the arrays of a file, in the order in which they are read.
var sections = []struct {
	name   string
	global bool // not in the file of a single virtual host
	read   func(p *parser, at string, raw json.RawMessage) error
}{
	{"users", true, (*parser).user},
	{"vhosts", true, (*parser).virtualHost},
	{"permissions", true, (*parser).permissions},
	{"topic_permissions", true, (*parser).topicPermissions},
	{"parameters", false, (*parser).parameter},
	{"global_parameters", true, (*parser).globalParameter},
	{"policies", false, (*parser).policy},
	{"exchanges", false, (*parser).exchange},
	{"queues", false, (*parser).queue},
	{"bindings", false, (*parser).binding},
}

// parse reads a file. ignored names what of it means nothing here.
func parse(data []byte, vhost string) (in *broker.Import, refused []broker.Refusal, ignored []string) {
	p := &parser{vhost: vhost}
	p.file(data)
	return &p.in, p.refused, p.ignored
}

func (p *parser) refuse(at string, err error) {
	if err != nil && len(p.refused) < refusalsMax {
		p.refused = append(p.refused, broker.Refusal{At: at, Text: err.Error()})
	}
}

func (p *parser) file(data []byte) {
	file, err := exactjson.Parse(data)
	if err != nil {
		p.refuse("$", err)
		return
	}
	for _, s := range sections {
		raw := file[s.name]
		delete(file, s.name)
		var list []json.RawMessage
		if err := json.Unmarshal(raw, &list); len(raw) > 0 && err != nil {
			p.refuse("$."+s.name, errors.New("is not an array"))
			continue
		}
		if s.global && p.vhost != "" && len(list) > 0 {
			p.refuse("$."+s.name, errors.New("belongs to no single virtual host: import the file without naming one"))
			continue
		}
		for i, one := range list {
			at := fmt.Sprintf("$.%s[%d]", s.name, i)
			p.refuse(at, s.read(p, at, one))
		}
	}
	for name, raw := range file {
		if len(raw) > 0 && raw[0] == '[' && string(raw) != "[]" {
			p.ignored = append(p.ignored, name)
		}
	}
	slices.Sort(p.ignored)
}

// take decodes an element. required fields that are missing, or null, are an
// error, and so is what is not an object.
func take(raw json.RawMessage, into any, required ...string) error {
	o, err := exactjson.Parse(raw)
	if err != nil {
		return err
	}
	return takeFrom(o, into, required...)
}

func takeFrom(o exactjson.Object, into any, required ...string) error {
	if err := o.Need(required...); err != nil {
		return err
	}
	return o.Fill(into)
}

// home is the virtual host of an element.
func (p *parser) home(named *string) (string, error) {
	switch {
	case p.vhost != "":
		return p.vhost, nil
	case named == nil:
		return "", errors.New("'vhost' is missing: name the virtual host to import into if the file is of a single one")
	}
	return *named, nil
}

func arguments(raw json.RawMessage) (amqp.Table, error) {
	t, err := tablejson.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("'arguments' %w", err)
	}
	return t, nil
}

// tagList is an array of tags, or a text with commas as old files have it.
type tagList []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *tagList) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err == nil {
		*t = tagList{}
		for _, tag := range strings.Split(text, ",") {
			if tag = strings.TrimSpace(tag); tag != "" {
				*t = append(*t, tag)
			}
		}
		return nil
	}
	var list []string
	if err := json.Unmarshal(data, &list); err != nil {
		return errors.New("is neither an array of texts nor a text")
	}
	*t = list
	return nil
}

// limits reads an object of limits; files also have [] for none.
func limits(raw json.RawMessage) (access.Limits, error) {
	if raw = bytes.TrimSpace(raw); len(raw) == 0 || raw[0] == '[' || string(raw) == "null" {
		return nil, nil
	}
	var l access.Limits
	if err := json.Unmarshal(raw, &l); err != nil {
		return nil, errors.New("limits are not an object of whole numbers")
	}
	return l, nil
}

func (p *parser) user(at string, raw json.RawMessage) error {
	var e struct {
		Name      string          `json:"name"`
		Hash      string          `json:"password_hash"`
		Algorithm string          `json:"hashing_algorithm"`
		Scram     string          `json:"scram_sha_256"`
		Password  string          `json:"password"`
		Tags      tagList         `json:"tags"`
		Limits    json.RawMessage `json:"limits"`
	}
	if err := take(raw, &e, "name"); err != nil {
		return err
	}
	u := broker.UserImport{
		Spec:      access.Spec{Name: e.Name, Password: access.Hash{Algorithm: access.Algorithm(e.Algorithm), Text: e.Hash, Scram: e.Scram}, Tags: e.Tags},
		Cleartext: e.Password, KeepLimits: len(e.Limits) == 0,
	}
	var err error
	if u.Limits, err = limits(e.Limits); err != nil {
		return err
	}
	p.in.Users = append(p.in.Users, broker.Imported[broker.UserImport]{At: at, Value: u})
	return nil
}

func (p *parser) virtualHost(at string, raw json.RawMessage) error {
	type properties struct {
		Description *string `json:"description"`
		Tags        tagList `json:"tags"`
		Type        *string `json:"default_queue_type"`
	}
	var e struct {
		Name string `json:"name"`
		properties
		Metadata properties `json:"metadata"`
	}
	if err := take(raw, &e, "name"); err != nil {
		return err
	}
	v := broker.VHostImport{Name: e.Name, Description: e.Description, Tags: e.Tags, DefaultQueueType: e.Type}
	if v.Description == nil {
		v.Description = e.Metadata.Description
	}
	if v.Tags == nil {
		v.Tags = e.Metadata.Tags
	}
	if v.DefaultQueueType == nil {
		v.DefaultQueueType = e.Metadata.Type
	}
	if v.DefaultQueueType != nil && *v.DefaultQueueType == "undefined" { // RabbitMQ's word for none
		v.DefaultQueueType = nil
	}
	p.in.VHosts = append(p.in.VHosts, broker.Imported[broker.VHostImport]{At: at, Value: v})
	return nil
}

func (p *parser) permissions(at string, raw json.RawMessage) error {
	var e struct{ User, VHost, Configure, Write, Read string }
	if err := take(raw, &e, "user", "vhost", "configure", "write", "read"); err != nil {
		return err
	}
	g := access.UserPermissions{User: e.User, VHost: e.VHost, Permissions: access.Permissions{Configure: e.Configure, Write: e.Write, Read: e.Read}}
	p.in.Permissions = append(p.in.Permissions, broker.Imported[access.UserPermissions]{At: at, Value: g})
	return nil
}

func (p *parser) topicPermissions(at string, raw json.RawMessage) error {
	var e struct{ User, VHost, Exchange, Write, Read string }
	if err := take(raw, &e, "user", "vhost", "exchange", "write", "read"); err != nil {
		return err
	}
	g := access.UserTopicPermissions{User: e.User, VHost: e.VHost, Exchange: e.Exchange, TopicPermissions: access.TopicPermissions{Write: e.Write, Read: e.Read}}
	p.in.TopicPermissions = append(p.in.TopicPermissions, broker.Imported[access.UserTopicPermissions]{At: at, Value: g})
	return nil
}
