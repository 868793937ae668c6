package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/broker"
	exporting "github.com/basaltmq/basaltmq/engine/definitions"
	"github.com/basaltmq/basaltmq/segstore/inspect"
)

func escapeQuery(s string) string { return url.QueryEscape(s) }

// jsonOperand checks what should be JSON before it travels.
func jsonOperand(text string) (json.RawMessage, error) {
	if !json.Valid([]byte(text)) {
		return nil, usagef("%s is not JSON: quote it for the shell, such as '{\"max-length\": 1000}'", strconv.Quote(text))
	}
	return json.RawMessage(text), nil
}

// setPolicy is set_policy and set_operator_policy.
func setPolicy(name, kind, summary string) command {
	details := `PATTERN is a regular expression (RE2) that is searched in names of queues and
exchanges; DEFINITION is a JSON object such as '{"max-length": 1000}'. Of the
policies that match, the one with the highest priority counts.`
	return remote(name, "NAME PATTERN DEFINITION", summary, details, true, func(f *flagSet) func(*session, []string) error {
		priority := f.text("", "priority", "N", "0", "the highest counts")
		applyTo := f.text("", "apply-to", "WHAT", "all", "all, queues, classic_queues, quorum_queues, streams or exchanges")
		return func(s *session, o []string) error {
			n, err := strconv.ParseInt(*priority, 10, 32)
			if err != nil {
				return usagef("--priority %q is not a whole number", *priority)
			}
			definition, err := jsonOperand(o[2])
			if err != nil {
				return err
			}
			return s.change(http.MethodPut, api(kind, s.vhost, o[0]), map[string]any{"pattern": o[1], "definition": definition, "priority": n, "apply-to": *applyTo})
		}
	})
}

func policies() []command {
	value := func(text string) (map[string]json.RawMessage, error) {
		v, err := jsonOperand(text)
		return map[string]json.RawMessage{"value": v}, err
	}
	return []command{
		setPolicy("set_policy", "policies", "set a policy of queues and exchanges"),
		simple("clear_policy", "NAME", "remove a policy", true, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("policies", s.vhost, o[0]), nil)
		}),
		setPolicy("set_operator_policy", "operator-policies", "set limits that policies and arguments cannot exceed"),
		simple("clear_operator_policy", "NAME", "remove an operator policy", true, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("operator-policies", s.vhost, o[0]), nil)
		}),
		simple("set_parameter", "COMPONENT NAME VALUE", "set a parameter; VALUE is JSON", true, func(s *session, o []string) error {
			v, err := value(o[2])
			if err != nil {
				return err
			}
			return s.change(http.MethodPut, api("parameters", o[0], s.vhost, o[1]), v)
		}),
		simple("clear_parameter", "COMPONENT NAME", "remove a parameter", true, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("parameters", o[0], s.vhost, o[1]), nil)
		}),
		simple("set_global_parameter", "NAME VALUE", "set a global parameter; VALUE is JSON", false, func(s *session, o []string) error {
			v, err := value(o[1])
			if err != nil {
				return err
			}
			return s.change(http.MethodPut, api("global-parameters", o[0]), v)
		}),
		simple("clear_global_parameter", "NAME", "remove a global parameter", false, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("global-parameters", o[0]), nil)
		}),
	}
}

// deletion is delete_queue and delete_exchange.
func deletion(name, operand, kind, summary string, canBeEmpty bool) command {
	return remote(name, operand, summary, "", true, func(f *flagSet) func(*session, []string) error {
		unused, empty := f.toggle("u", "if-unused", "only if nobody uses it"), new(bool)
		if canBeEmpty {
			empty = f.toggle("e", "if-empty", "only if no messages are ready")
		}
		return func(s *session, o []string) error {
			return s.change(http.MethodDelete, fmt.Sprintf("%s?if-unused=%t&if-empty=%t", api(kind, s.vhost, o[0]), *unused, *empty), nil)
		}
	})
}

func objects() []command {
	return []command{
		deletion("delete_queue", "QUEUE", "queues", "delete a queue with its messages", true),
		remote("purge_queue", "QUEUE", "delete the ready messages of a queue", "", true, func(f *flagSet) func(*session, []string) error {
			count := f.number("c", "count", "N", 0, "no more than N, the first; 0: all")
			return func(s *session, o []string) error {
				path := api("queues", s.vhost, o[0], "contents")
				if *count > 0 {
					path += "?count=" + strconv.FormatUint(*count, 10)
				}
				return s.count(http.MethodDelete, path, "purged", "messages are gone")
			}
		}),
		deletion("delete_exchange", "EXCHANGE", "exchanges", "delete an exchange with its bindings", false),
		simple("close_connection", "NAME REASON", "close a connection, named as list_connections does", false, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("connections", o[0]), nil, "X-Reason", o[1])
		}),
		remote("close_all_connections", "REASON", "close all connections, or those of a user or virtual host", "", false, func(f *flagSet) func(*session, []string) error {
			user, vhost := f.text("", "of-user", "NAME", "", "only those of this user"), f.text("p", "vhost", "NAME", "", "only those to this virtual host")
			return func(s *session, o []string) error { return s.closeConnections(*user, *vhost, o[0]) }
		}),
		simple("close_all_user_connections", "USER REASON", "close the connections of a user", false, func(s *session, o []string) error {
			return s.closeConnections(o[0], "", o[1])
		}),
	}
}

func (s *session) closeConnections(user, vhost, reason string) error {
	query := "?user=" + escapeQuery(user) + "&vhost=" + escapeQuery(vhost)
	return s.count(http.MethodDelete, api("connections")+query, "closed", "connections are closed", "X-Reason", reason)
}

// count sends a request and prints the number that the answer has.
func (s *session) count(method, path, field, text string, headers ...string) error {
	answer, err := s.do(method, path, nil, headers...)
	if err != nil {
		return err
	}
	defer answer.Close()
	var counts map[string]uint64
	if err := json.NewDecoder(answer).Decode(&counts); err != nil {
		return err
	}
	if s.format == "json" {
		return json.NewEncoder(s.out.stdout).Encode(counts)
	}
	_, err = fmt.Fprintf(s.out.stdout, "%d %s\n", counts[field], text)
	return err
}

// definitionFiles are the commands for definitions, each under two names.
func definitionFiles() (list []command) {
	option := func(f *flagSet) *string {
		return f.text("p", "vhost", "NAME", "", "a file of this virtual host alone, without users")
	}
	target := func(vhost string) string {
		if vhost == "" {
			return api("definitions")
		}
		return api("definitions", vhost)
	}
	for _, name := range []string{"definitions export", "export_definitions"} {
		list = append(list, remote(name, "[FILE]", "write users, virtual hosts, permissions, policies, queues, exchanges and bindings",
			"FILE is replaced whole, and readable by its owner only: it has password hashes.\nWithout FILE, or with -, the definitions are printed.", false, func(f *flagSet) func(*session, []string) error {
				vhost := option(f)
				return func(s *session, o []string) error {
					answer, err := s.do(http.MethodGet, target(*vhost), nil)
					if err != nil {
						return err
					}
					defer answer.Close()
					if len(o) == 0 || o[0] == "-" {
						_, err = io.Copy(s.out.stdout, answer)
						return err
					}
					return replaceFile(o[0], answer)
				}
			}))
	}
	for _, name := range []string{"definitions import", "import_definitions"} {
		list = append(list, remote(name, "FILE", "make what a definitions file asks for, wholly or not at all",
			"FILE is what RabbitMQ, LavinMQ or this broker has exported; - is the input. What is\nthere already stays; users, permissions, policies and parameters are replaced. What\nis refused is listed with its place in the file, and then nothing has changed.", false, func(f *flagSet) func(*session, []string) error {
				vhost := option(f)
				return func(s *session, o []string) error { return s.importFile(target(*vhost), o[0]) }
			}))
	}
	return list
}

// offlineDefinitions reads them from a data directory.
func offlineDefinitions() command {
	return command{
		path: "definitions", operands: "DIR", summary: "print the definitions of a stopped broker's data directory",
		details: "It is what export_definitions would print. Nothing is written, and no broker may run\non the directory meanwhile.",
		prepare: func(*flagSet) func(context.Context, console, []string) error {
			return func(ctx context.Context, out console, o []string) error {
				d, err := openDataDir(o[0])
				if err != nil {
					return err
				}
				defer d.close()
				file, err := fs.ReadFile(d.files, inspect.DefinitionsName)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					return fmt.Errorf("the definitions cannot be read: %w", err)
				}
				var journaled []broker.MetaRecord
				j, err := inspect.ReadJournal(ctx, d.files)
				if err == nil {
					err = j.Meta(ctx, func(m inspect.MetaRecord) error {
						journaled = append(journaled, broker.MetaRecord{Seq: m.Seq, Data: bytes.Clone(m.Data)})
						return nil
					})
				}
				var b *broker.Broker
				if err == nil {
					b, err = broker.ReadOffline(file, journaled)
				}
				if err != nil {
					return fmt.Errorf("%s: %s ('store verify' says more)", o[0], strings.TrimPrefix(strings.TrimPrefix(err.Error(), "inspect: "), "broker: "))
				}
				return exporting.Export(out.stdout, b, "", version)
			}
		},
	}
}

func (s *session) importFile(target, name string) error {
	in := stdin
	if name != "-" {
		file, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return usagef("there is no file %s", name)
		}
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	answer, err := s.do(http.MethodPost, target, io.MultiReader(in))
	if err != nil {
		return err
	}
	defer answer.Close()
	var done admin.Imported
	if err := json.NewDecoder(answer).Decode(&done); err != nil {
		return err
	}
	if s.format == "json" {
		return json.NewEncoder(s.out.stdout).Encode(done)
	}
	fmt.Fprintf(s.out.stdout, "%d things were created or changed\n", done.Changes)
	if len(done.Ignored) > 0 {
		fmt.Fprintf(s.out.stderr, "%s: sections that mean nothing to this broker were ignored: %s\n", program, strings.Join(done.Ignored, ", "))
	}
	return nil
}

// replaceFile writes a file beside the old one and renames it, so that there is
// never half of it.
func replaceFile(name string, from io.Reader) error {
	file, err := os.CreateTemp(filepath.Dir(name), ".definitions-*")
	if err != nil {
		var detail *os.PathError
		if errors.As(err, &detail) {
			err = fmt.Errorf("%s cannot be written: its directory: %w", name, detail.Err)
		}
		return err
	}
	_, err = io.Copy(file, from)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
	}
	return err
}
