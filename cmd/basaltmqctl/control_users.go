package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/admin"
)

// stdin is where passwords and files may come from.
var stdin io.Reader = os.Stdin

// simple makes a command without options of its own that sends one request.
func simple(name, operands, summary string, vhost bool, send func(s *session, o []string) error) command {
	return remote(name, operands, summary, "", vhost, func(*flagSet) func(*session, []string) error { return send })
}

// password takes the operand behind the user, or the first line of the input,
// which keeps it out of the list of processes.
func password(o []string) (string, error) {
	if len(o) > 1 {
		return o[1], nil
	}
	line, err := bufio.NewReader(io.LimitReader(stdin, 4096)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if line = strings.TrimRight(line, "\r\n"); line == "" {
		return "", usagef("no password: give it behind the user, or as the first line of the input")
	}
	return line, nil
}

const passwordDetails = "Without PASSWORD it is read from the first line of the input, and other users of the\nmachine do not see it in the list of processes."

func users() []command {
	return []command{
		remote("add_user", "USER [PASSWORD]", "add a user without permissions", passwordDetails, false, func(f *flagSet) func(*session, []string) error {
			tags := f.text("", "tags", "LIST", "", "tags, separated by commas, such as administrator")
			return func(s *session, o []string) error {
				text, err := password(o)
				if err != nil {
					return err
				}
				c := admin.UserChange{Password: &text}
				if *tags != "" {
					list := admin.TagList(strings.Split(*tags, ","))
					c.Tags = &list
				}
				return s.change(http.MethodPut, api("users", o[0])+"?create=true", c)
			}
		}),
		simple("delete_user", "USER", "delete a user and close its connections", false, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("users", o[0]), nil)
		}),
		remote("change_password", "USER [PASSWORD]", "change the password of a user", passwordDetails, false, func(*flagSet) func(*session, []string) error {
			return func(s *session, o []string) error {
				text, err := password(o)
				if err != nil {
					return err
				}
				return s.change(http.MethodPatch, api("users", o[0]), admin.UserChange{Password: &text})
			}
		}),
		simple("clear_password", "USER", "make a user that cannot log in with a password", false, func(s *session, o []string) error {
			none := ""
			return s.change(http.MethodPatch, api("users", o[0]), admin.UserChange{Hash: &none})
		}),
		simple("set_user_tags", "USER [TAG...]", "replace the tags of a user; without TAG it has none", false, func(s *session, o []string) error {
			tags := admin.TagList(o[1:])
			return s.change(http.MethodPatch, api("users", o[0]), admin.UserChange{Tags: &tags})
		}),
		simple("set_user_limits", "USER LIMITS", `limit a user: {"max-connections": 10, "max-channels": 100}`, false, func(s *session, o []string) error {
			return s.limits("user-limits", access.UserLimits, o[0], o[1])
		}),
		simple("clear_user_limits", "USER LIMIT", "lift a limit of a user, max-connections or max-channels", false, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("user-limits", o[0], o[1]), nil)
		}),
		simple("set_permissions", "USER CONFIGURE WRITE READ", "say what a user may do in a virtual host: three patterns of names", true, func(s *session, o []string) error {
			return s.change(http.MethodPut, api("permissions", s.vhost, o[0]), map[string]string{"configure": o[1], "write": o[2], "read": o[3]})
		}),
		simple("clear_permissions", "USER", "take a user's access to a virtual host away", true, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("permissions", s.vhost, o[0]), nil)
		}),
		simple("set_topic_permissions", "USER EXCHANGE WRITE READ", "restrict the routing keys that a user may use with a topic exchange", true, func(s *session, o []string) error {
			return s.change(http.MethodPut, api("topic-permissions", s.vhost, o[0]), map[string]string{"exchange": o[1], "write": o[2], "read": o[3]})
		}),
		simple("clear_topic_permissions", "USER [EXCHANGE]", "lift the restrictions on an exchange, or on all", true, func(s *session, o []string) error {
			query := ""
			if len(o) > 1 {
				query = "?exchange=" + escapeQuery(o[1])
			}
			return s.change(http.MethodDelete, api("topic-permissions", s.vhost, o[0])+query, nil)
		}),
	}
}

// trace turns the tracing of messages on or off.
func (s *session) trace(on bool) error {
	return s.changeVHost(s.vhost, admin.VHostChange{Tracing: admin.Tracing(on)})
}

func vhosts() []command {
	return []command{
		remote("add_vhost", "VHOST", "add a virtual host", "Nobody has permissions in it, but for who makes it over the HTTP API: see\nset_permissions.", false, func(f *flagSet) func(*session, []string) error {
			description := f.text("", "description", "TEXT", "", "what it is for")
			tags := f.text("", "tags", "LIST", "", "tags, separated by commas")
			kind := f.text("", "default-queue-type", "TYPE", "", "type of queues that are declared without one")
			return func(s *session, o []string) error {
				c := admin.VHostChange{Description: description, DefaultQueueType: kind}
				if *tags != "" {
					list := admin.TagList(strings.Split(*tags, ","))
					c.Tags = &list
				}
				return s.change(http.MethodPut, api("vhosts", o[0])+"?create=true", c)
			}
		}),
		remote("update_vhost_metadata", "VHOST", "change the description, tags or default queue type of a virtual host", "What is not given stays.", false, func(f *flagSet) func(*session, []string) error {
			description := f.text("", "description", "TEXT", "", "what it is for")
			tags := f.text("", "tags", "LIST", "", "tags, separated by commas")
			kind := f.text("", "default-queue-type", "TYPE", "", "type of queues that are declared without one")
			return func(s *session, o []string) error {
				var c admin.VHostChange
				if *description != "" {
					c.Description = description
				}
				if *tags != "" {
					list := admin.TagList(strings.Split(*tags, ","))
					c.Tags = &list
				}
				if *kind != "" {
					c.DefaultQueueType = kind
				}
				return s.changeVHost(o[0], c)
			}
		}),
		simple("set_vhost_tags", "VHOST [TAG...]", "replace the tags of a virtual host; without TAG it has none", false, func(s *session, o []string) error {
			list := admin.TagList(append([]string{}, o[1:]...))
			return s.changeVHost(o[0], admin.VHostChange{Tags: &list})
		}),
		simple("trace_on", "", "publish each message that passes through a virtual host to amq.rabbitmq.trace, too", true, func(s *session, _ []string) error {
			return s.trace(true)
		}),
		simple("trace_off", "", "end trace_on; so does a restart of the broker", true, func(s *session, _ []string) error {
			return s.trace(false)
		}),
		simple("delete_vhost", "VHOST", "delete a virtual host with everything in it", false, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("vhosts", o[0]), nil)
		}),
		simple("set_vhost_limits", "LIMITS", `limit a virtual host: {"max-connections": 10, "max-queues": 100}`, true, func(s *session, o []string) error {
			return s.limits("vhost-limits", access.VHostLimits, s.vhost, o[0])
		}),
		simple("clear_vhost_limits", "LIMIT", "lift a limit of a virtual host, max-connections or max-queues", true, func(s *session, o []string) error {
			return s.change(http.MethodDelete, api("vhost-limits", s.vhost, o[0]), nil)
		}),
	}
}

// changeVHost changes one that is there: a PUT alone would make it.
func (s *session) changeVHost(name string, c admin.VHostChange) error {
	var there struct{ Name string }
	if err := s.get(api("vhosts", name), &there); err != nil {
		return err
	}
	return s.change(http.MethodPut, api("vhosts", name), c)
}

// limits sets each limit of a JSON object; none if one of them is not known.
func (s *session) limits(kind string, known []string, of, text string) error {
	var limits map[string]int64
	if err := json.Unmarshal([]byte(text), &limits); err != nil || limits == nil {
		return usagef("%s is not a JSON object of limits, such as {\"max-connections\": 10}", strconv.Quote(text))
	}
	if len(limits) == 0 {
		return usagef("{} has no limit: name some, such as {\"max-connections\": 10}; -1 lifts one")
	}
	for name, value := range limits {
		if _, err := access.Limits(nil).With(known, name, value); err != nil {
			return &refusal{text: strings.TrimPrefix(err.Error(), "access: ")}
		}
	}
	for name, value := range limits {
		if err := s.change(http.MethodPut, api(kind, of, name), map[string]int64{"value": value}); err != nil {
			return err
		}
	}
	return nil
}
