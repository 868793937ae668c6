package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// refusal is what the broker has refused: status 1. Lines are problems of a file.
type refusal struct {
	text  string
	lines []string
}

func (r *refusal) Error() string {
	if len(r.lines) == 0 {
		return r.text
	}
	return r.text + ":\n  " + strings.Join(r.lines, "\n  ")
}

// session is one command's conversation with a running broker.
type session struct {
	*link
	ctx    context.Context
	out    console
	format string
	quiet  bool
	vhost  string
}

// remote makes a command that talks to a running broker. vhost gives it the
// option -p.
func remote(path, operands, summary, details string, vhost bool, prepare func(f *flagSet) func(s *session, operands []string) error) command {
	return command{path: path, operands: operands, summary: summary, details: details, remote: true, prepare: func(f *flagSet) func(context.Context, console, []string) error {
		var where target
		where.options(f)
		format := f.choice("f", "format", "text", "text", "json")
		quiet := f.toggle("q", "quiet", "no header line above lists")
		f.alias("quiet", "silent", "s")
		name := new(string)
		if vhost {
			name = f.text("p", "vhost", "NAME", "/", "virtual host")
		}
		action := prepare(f)
		return func(ctx context.Context, out console, operands []string) error {
			s := &session{ctx: ctx, out: out, format: *format, quiet: *quiet, vhost: *name}
			if s.format != "text" && s.format != "json" {
				return usagef("--format %q is neither text nor json", s.format)
			}
			var err error
			if s.link, err = where.connect(); err != nil {
				return err
			}
			return action(s, operands)
		}
	}}
}

// api makes a request path of segments; each may be any text but empty.
func api(segments ...string) string {
	var b strings.Builder
	b.WriteString("/api")
	for _, segment := range segments {
		b.WriteString("/" + url.PathEscape(segment))
	}
	return b.String()
}

// do sends a request. body is nil, a reader, or a value that is sent as JSON. The
// caller closes what is returned.
func (s *session) do(method, path string, body any, headers ...string) (io.ReadCloser, error) {
	if names, _, _ := strings.Cut(path, "?"); strings.Contains(names+"/", "//") {
		return nil, usagef("a name must not be empty")
	}
	var content io.Reader
	switch body := body.(type) {
	case nil:
	case io.Reader:
		content = body
	default:
		data, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(s.ctx, method, s.base+path, content)
	if err != nil {
		return nil, err
	}
	if !s.socket {
		request.SetBasicAuth(s.user, s.password)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := s.client.Do(request)
	if err != nil {
		if s.ctx.Err() != nil {
			return nil, s.ctx.Err()
		}
		return nil, s.unreachable(err)
	}
	if response.StatusCode < 300 {
		return response.Body, nil
	}
	defer response.Body.Close()
	var answer struct {
		Reason   string
		Detail   string
		Problems []string
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, 16<<20))
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if bytes.Contains(text, []byte("HTTP request to an HTTPS server")) {
		return nil, fmt.Errorf("%s: the broker speaks TLS there: use https:// or the port for http", s.place)
	}
	if err != nil || answer.Reason == "" {
		return nil, fmt.Errorf("%s answered %s: is that a broker's HTTP API, and of this version?", s.place, response.Status)
	}
	if answer.Detail != "" {
		answer.Reason = answer.Detail
	}
	if response.StatusCode == http.StatusUnauthorized && !s.socket {
		answer.Reason = s.unauthorized(answer.Reason)
	}
	return nil, &refusal{answer.Reason, answer.Problems}
}

// unauthorized says what to do when the broker wants another user.
func (s *session) unauthorized(reason string) string {
	if reason == "Login failed" {
		return fmt.Sprintf("Login failed for user '%s': give a user and its password with --user and %s, or in --uri; on the broker's machine -D DIR needs neither", s.user, envPassword)
	}
	return fmt.Sprintf("%s: the tags of user '%s' do not allow this; give it one that does (set_user_tags), or name another with --user", reason, s.user)
}

// change sends a request whose answer says nothing more.
func (s *session) change(method, path string, body any, headers ...string) error {
	answer, err := s.do(method, path, body, headers...)
	if err != nil {
		return err
	}
	return answer.Close()
}

// get reads an answer in JSON into v.
func (s *session) get(path string, v any) error {
	answer, err := s.do(http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer answer.Close()
	d := json.NewDecoder(answer)
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("the broker's answer ended early: %w", err)
	}
	return nil
}
