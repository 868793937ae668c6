package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/admin"
)

// server are the commands about the broker as a whole.
func server() []command {
	nothing := func(name, summary, instead string) command {
		return simple(name, "", summary, false, func(s *session, _ []string) error {
			if err := s.ping(); err != nil {
				return err
			}
			_, err := fmt.Fprintf(s.out.stderr, "%s: %s\n", program, instead)
			return err
		})
	}
	return []command{
		simple("status", "", "show the state of the broker in a few figures", false, status),
		remote("top", "", "watch rates, queues, connections, memory and disk", topDetails, false, top),
		simple("health", "", "find out whether the broker serves clients: status 0 if it does, 1 if not", false, health),
		simple("ping", "", "find out whether the broker answers", false, func(s *session, _ []string) error {
			if err := s.ping(); err != nil {
				return err
			}
			_, err := fmt.Fprintf(s.out.stdout, "%s answers\n", s.place)
			return err
		}),
		remote("await_startup", "", "wait until the broker answers", "", false, func(f *flagSet) func(*session, []string) error {
			seconds := f.number("t", "timeout", "SECONDS", 60, "how long at most")
			return func(s *session, _ []string) error { return s.await(time.Duration(*seconds) * time.Second) }
		}),
		simple("cluster_status", "", "show the nodes of the cluster: there is one", false, clusterStatus),
		simple("set_cluster_name", "NAME", "name the cluster, as the management API shows it", false, func(s *session, o []string) error {
			return s.change(http.MethodPut, api("cluster-name"), map[string]string{"name": o[0]})
		}),
		simple("environment", "", "show what the broker runs with and on", false, environment),
		simple("report", "", "print all that one asks for when something is wrong; it has no passwords, but names", false, report),
		simple("gc_collect", "", "have the broker's Go heap collected now", false, func(s *session, _ []string) error {
			return s.change(http.MethodPost, api("nodes", "gc_collect"), nil)
		}),
		nothing("stop_app", "accepted for scripts, does nothing", "stop_app does nothing here: stop the process (SIGTERM, systemctl stop basaltmq)"),
		nothing("start_app", "accepted for scripts, does nothing", "start_app does nothing here: a broker that answers is started"),
		hashPassword(),
	}
}

// hashPassword needs no broker.
func hashPassword() command {
	return command{path: "hash_password", operands: "[PASSWORD]", summary: "print the hash that definitions have of a password",
		details: "Without PASSWORD it is read from the first line of the input.", prepare: func(*flagSet) func(context.Context, console, []string) error {
			return func(_ context.Context, out console, o []string) error {
				text, err := password(append([]string{""}, o...))
				if err != nil {
					return err
				}
				_, err = fmt.Fprintln(out.stdout, access.HashPassword([]byte(text)).Text)
				return err
			}
		}}
}

// notBuilt are commands of other brokers for what this one does not have yet.
func notBuilt() (list []command) {
	for _, c := range [][3]string{
		{"list_shovels", "[COLUMN...]", "shovels"}, {"add_shovel", "NAME [OPTION...]", "shovels"}, {"delete_shovel", "NAME", "shovels"},
		{"list_federations", "[COLUMN...]", "federation"}, {"add_federation", "NAME URI", "federation"}, {"delete_federation", "NAME", "federation"},
	} {
		what := c[2]
		list = append(list, command{path: c[0], operands: c[1], refused: true, summary: "refused: this broker has no " + what + " yet", prepare: func(*flagSet) func(context.Context, console, []string) error {
			return func(context.Context, console, []string) error {
				return fmt.Errorf("this broker has no %s yet, and nothing was changed; 'queue move' moves messages between queues of one broker", what)
			}
		}})
	}
	return list
}

func (s *session) ping() error {
	var who struct{ Name string }
	return s.get(api("whoami"), &who)
}

// await asks until the broker answers.
func (s *session) await(most time.Duration) error {
	ctx, cancel := context.WithTimeout(s.ctx, most)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := s.ping()
		var refused *refusal
		if err == nil || errors.As(err, &refused) || s.ctx.Err() != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", most, err)
		}
	}
}

// healthChecks are those that have to be passed.
var healthChecks = []string{"ready-to-serve-clients", "alarms", "virtual-hosts"}

func health(s *session, _ []string) error {
	failed := map[string]string{}
	for _, check := range healthChecks {
		answer, err := s.do(http.MethodGet, api("health", "checks", check), nil)
		var refused *refusal
		switch {
		case errors.As(err, &refused):
			failed[check] = refused.text
		case err != nil:
			return err
		default:
			answer.Close()
		}
	}
	if s.format == "json" {
		state := map[string]any{"status": "ok"}
		if len(failed) > 0 {
			state = map[string]any{"status": "failed", "failed": failed}
		}
		if err := encodeLine(s.out.stdout, state); err != nil {
			return err
		}
	} else if len(failed) == 0 {
		fmt.Fprintln(s.out.stdout, "ok")
	}
	for _, check := range slices.Sorted(maps.Keys(failed)) {
		if s.format == "text" {
			fmt.Fprintf(s.out.stdout, "%s: %s\n", check, failed[check])
		}
	}
	if len(failed) > 0 {
		return errProblems
	}
	return nil
}

func status(s *session, _ []string) error {
	var o admin.Overview
	if err := s.get(api("overview"), &o); err != nil {
		return err
	}
	if s.format == "json" {
		return s.indented(o)
	}
	disk := ""
	if o.DiskFree > 0 {
		disk = fmt.Sprintf("%s free, publishers are blocked below %s", sizeText(float64(o.DiskFree)), sizeText(float64(max(o.DiskFloor, 0))))
	}
	return writeLines(s.out.stdout, [][2]string{
		{"version", o.Product + " " + o.Version}, {"pid", numberOrNone(o.PID)}, {"uptime", (time.Duration(o.UptimeSeconds) * time.Second).String()},
		{"data", o.DataDir}, {"listens", addresses(o.Status.Listeners)},
		{"loops", loopsText(&o.Status)},
		{"vhosts", strconv.Itoa(o.VHosts)}, {"users", strconv.Itoa(o.Users)}, {"connections", strconv.Itoa(o.Connections)},
		{"exchanges", strconv.Itoa(o.Exchanges)}, {"queues", strconv.Itoa(o.Queues)}, {"consumers", strconv.Itoa(o.Consumers)},
		{"messages", fmt.Sprintf("%d ready, %d unacknowledged", o.Ready, o.Unacknowledged)}, {"disk", disk},
		{"alarm", o.Alarm}, {"problem", o.DefinitionsError},
	})
}

func loopsText(st *admin.Status) string {
	if st.Loops == 0 {
		return "" // who asks is not shown it
	}
	return fmt.Sprintf("%d (sockets %s, files %s, durability %s)", st.Loops, st.Sockets, st.Files, st.Durability)
}

func numberOrNone(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func addresses(of map[string]string) string {
	var list []string
	for _, protocol := range slices.Sorted(maps.Keys(of)) {
		list = append(list, protocol+" "+of[protocol])
	}
	return strings.Join(list, ", ")
}

// writeLines writes names and values that are there.
func writeLines(w io.Writer, lines [][2]string) error {
	b := bufio.NewWriter(w)
	width := 12
	for _, line := range lines {
		width = max(width, len(line[0]))
	}
	for _, line := range lines {
		if line[1] != "" {
			fmt.Fprintf(b, "%-*s %s\n", width, line[0], line[1])
		}
	}
	return b.Flush()
}

func (s *session) indented(v any) error {
	e := json.NewEncoder(s.out.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func clusterStatus(s *session, _ []string) error {
	var nodes []admin.Node
	if err := s.get(api("nodes"), &nodes); err != nil {
		return err
	}
	if s.format == "json" {
		return s.indented(nodes)
	}
	for _, n := range nodes {
		state := "running"
		if !n.Running {
			state = "not running"
		}
		alarms := ""
		if n.DiskFreeAlarm {
			alarms = "disk"
		}
		if err := writeLines(s.out.stdout, [][2]string{{"node", n.Name}, {"state", state}, {"alarms", alarms}, {"uptime", (time.Duration(n.Uptime) * time.Millisecond).Truncate(time.Second).String()}}); err != nil {
			return err
		}
	}
	return nil
}

// environment shows what the API tells of the node, flat, and the configuration in
// force.
func environment(s *session, _ []string) error {
	var nodes []map[string]any
	if err := s.get(api("nodes"), &nodes); err != nil {
		return err
	}
	settings := []struct {
		Name    string          `json:"name"`
		Value   json.RawMessage `json:"value"`
		Default json.RawMessage `json:"default"`
		From    string          `json:"from"`
		Reload  bool            `json:"reload"`
	}{}
	if err := s.get(api("basaltmq", "environment"), &settings); err != nil {
		return err
	}
	if s.format == "json" {
		return s.indented(map[string]any{"nodes": nodes, "configuration": settings})
	}
	var lines [][2]string
	for _, n := range nodes {
		for _, name := range slices.Sorted(maps.Keys(n)) {
			lines = append(lines, [2]string{name, cell(n[name])})
		}
	}
	for _, k := range settings {
		value := string(k.Value)
		if k.From != "default" {
			value += "  (" + k.From + ")"
		}
		lines = append(lines, [2]string{k.Name, value})
	}
	return writeLines(s.out.stdout, lines)
}

// report is what goes with a question to somebody else.
func report(s *session, _ []string) error {
	if err := s.ping(); err != nil {
		return err
	}
	s.format = "text"
	fmt.Fprintf(s.out.stdout, "Report of %s at %s, by %s %s\n", s.place, time.Now().UTC().Format(time.RFC3339), program, version)
	section := func(name string, f func(*session, []string) error) error {
		fmt.Fprintf(s.out.stdout, "\n# %s\n", name)
		err := f(s, nil)
		var refused *refusal
		if errors.As(err, &refused) || errors.Is(err, errProblems) { // a part that this user may not see, or that is the finding
			fmt.Fprintln(s.out.stdout, err)
			err = nil
		}
		return err
	}
	if err := errors.Join(section("status", status), section("health", health), section("environment", environment)); err != nil {
		return err
	}
	for _, l := range []struct {
		name    string
		columns []string
	}{
		{"vhosts", []string{"name", "description"}}, {"vhost-limits", []string{"vhost", "value"}}, {"users", []string{"name", "tags"}},
		{"permissions", []string{"vhost", "user", "configure", "write", "read"}},
		{"policies", []string{"vhost", "name", "pattern", "apply-to", "definition", "priority"}},
		{"operator-policies", []string{"vhost", "name", "pattern", "apply-to", "definition", "priority"}},
		{"queues", []string{"vhost", "name", "type", "state", "durable", "auto_delete", "exclusive", "arguments", "policy", "messages_ready", "messages_unacknowledged", "consumers", "memory"}},
		{"exchanges", []string{"vhost", "name", "type", "durable", "auto_delete", "internal", "arguments"}},
		{"bindings", []string{"vhost", "source", "destination", "destination_type", "routing_key", "arguments"}},
		{"connections", []string{"name", "user", "vhost", "state", "channels", "timeout"}},
		{"channels", []string{"connection", "number", "user", "consumer_count", "messages_unacknowledged", "prefetch_count"}},
		{"consumers", []string{"queue.vhost", "queue.name", "channel_details.name", "consumer_tag", "ack_required", "prefetch_count"}},
	} {
		if err := section(l.name, func(s *session, _ []string) error { return s.list(api(l.name), l.columns, nil) }); err != nil {
			return err
		}
	}
	return nil
}
