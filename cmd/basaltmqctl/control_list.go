package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// object is an element of a list that the broker sends.
type object map[string]any

// field finds a field; dots lead into objects.
func (o object) field(path string) (v any, ok bool) {
	if v, ok = o[path]; ok {
		return v, true
	}
	first, rest, deeper := strings.Cut(path, ".")
	below, isObject := o[first].(map[string]any)
	if !deeper || !isObject {
		return nil, false
	}
	return object(below).field(rest)
}

// list prints a list: as JSON what the broker sends, as text the columns that
// are asked for, or the usual ones, with tabs between.
func (s *session) list(path string, usual, asked []string) error {
	var all []object
	if err := s.get(path, &all); err != nil {
		return err
	}
	if len(all) > 0 {
		for _, name := range asked {
			if _, ok := all[0].field(name); !ok {
				return usagef("there is no column %q: the columns are %s", name, strings.Join(slices.Sorted(maps.Keys(all[0])), ", "))
			}
		}
	}
	w := bufio.NewWriter(s.out.stdout)
	defer w.Flush()
	if s.format == "json" {
		if len(asked) > 0 {
			for _, o := range all {
				maps.DeleteFunc(o, func(name string, _ any) bool { return !slices.Contains(asked, name) })
			}
		}
		if all == nil {
			all = []object{}
		}
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(all)
	}
	if len(asked) > 0 {
		usual = asked
	}
	if !s.quiet {
		fmt.Fprintln(w, strings.Join(usual, "\t"))
	}
	for _, o := range all {
		for i, name := range usual {
			if i > 0 {
				w.WriteByte('\t')
			}
			v, _ := o.field(name)
			w.WriteString(cell(v))
		}
		w.WriteByte('\n')
	}
	return nil
}

// cell is a value in a text list: one line, without tabs.
func cell(v any) string {
	text := ""
	switch v := v.(type) {
	case nil:
	case string:
		text = v
	case json.Number, bool:
		text = fmt.Sprint(v)
	default:
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		_ = e.Encode(v) // it came from JSON
		text = strings.TrimSuffix(b.String(), "\n")
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}

// lister makes a command that lists what a path has. perVHost: with -p.
func lister(name, summary string, perVHost bool, where func(s *session, operands []string) string, operands string, columns ...string) command {
	details := "Columns may be named to get others than the usual ones; text has tabs between them."
	return remote(name, strings.TrimSpace(operands+" [COLUMN...]"), summary, details, perVHost, func(*flagSet) func(*session, []string) error {
		fixed := len(strings.Fields(operands))
		return func(s *session, given []string) error { return s.list(where(s, given), columns, given[fixed:]) }
	})
}

func lists() []command {
	at := func(segments ...string) func(*session, []string) string {
		return func(*session, []string) string { return api(segments...) }
	}
	in := func(what string) func(*session, []string) string {
		return func(s *session, _ []string) string { return api(what, s.vhost) }
	}
	return []command{
		lister("list_users", "list users", false, at("users"), "", "name", "tags"),
		lister("list_vhosts", "list virtual hosts", false, at("vhosts"), "", "name"),
		lister("list_permissions", "list the permissions in a virtual host", true, func(s *session, _ []string) string { return api("vhosts", s.vhost, "permissions") }, "", "user", "configure", "write", "read"),
		lister("list_user_permissions", "list the permissions of a user", false, func(_ *session, o []string) string { return api("users", o[0], "permissions") }, "USER", "vhost", "configure", "write", "read"),
		lister("list_topic_permissions", "list the topic permissions in a virtual host", true, func(s *session, _ []string) string { return api("vhosts", s.vhost, "topic-permissions") }, "", "user", "exchange", "write", "read"),
		lister("list_user_topic_permissions", "list the topic permissions of a user", false, func(_ *session, o []string) string { return api("users", o[0], "topic-permissions") }, "USER", "vhost", "exchange", "write", "read"),
		lister("list_policies", "list policies", true, in("policies"), "", "vhost", "name", "pattern", "apply-to", "definition", "priority"),
		lister("list_operator_policies", "list operator policies", true, in("operator-policies"), "", "vhost", "name", "pattern", "apply-to", "definition", "priority"),
		lister("list_parameters", "list the parameters of all virtual hosts", false, at("parameters"), "", "vhost", "component", "name", "value"),
		lister("list_global_parameters", "list global parameters", false, at("global-parameters"), "", "name", "value"),
		lister("list_vhost_limits", "list the limits of virtual hosts", false, at("vhost-limits"), "", "vhost", "value"),
		lister("list_user_limits", "list the limits of users", false, at("user-limits"), "", "user", "value"),
		lister("list_queues", "list queues", true, in("queues"), "", "name", "messages"),
		lister("list_exchanges", "list exchanges", true, in("exchanges"), "", "name", "type"),
		lister("list_bindings", "list bindings", true, in("bindings"), "", "source", "destination", "destination_type", "routing_key", "arguments"),
		lister("list_connections", "list the connections to all virtual hosts", false, at("connections"), "", "name", "user", "vhost", "state"),
		lister("list_channels", "list the channels of all connections", false, at("channels"), "", "connection", "number", "user", "consumer_count", "messages_unacknowledged"),
		lister("list_consumers", "list the consumers of all virtual hosts", false, at("consumers"), "", "queue.vhost", "queue.name", "channel_details.connection_name", "channel_details.number", "consumer_tag", "ack_required", "prefetch_count"),
	}
}
