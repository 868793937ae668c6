package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/admin"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// operator talks to a broker's control socket.
func operator(dir string) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return admin.Dial(ctx, filepath.Join(dir, admin.SocketName))
	}}}
}

// ask sends a request and returns the status and the body.
func ask(t testing.TB, dir, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequest(method, "http://broker"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	response, err := operator(dir).Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}

// TestControl_Requests: statuses and texts of what is not in order.
func TestControl_Requests(t *testing.T) {
	dir := t.TempDir()
	start(t, func(c *engine.Config) { c.DataDir = dir })
	for _, step := range []struct {
		method, path, body string
		status             int
		answer             string // part of it
	}{
		{"GET", "/api/vhosts/%2F", "", 200, `"name":"/"`},
		{"GET", "/api/nothing", "", 404, "there is no /api/nothing"},
		{"GET", "/api/queues/%2F/", "", 200, "[]"},
		{"DELETE", "/api/queues/%2F/", "", 404, "there is no"},
		{"POST", "/api/users", "", 405, "takes GET, HEAD, not POST"},
		{"PUT", "/api/users/u", "{", 400, "is not a JSON object"},
		{"PUT", "/api/users/nopw", `{"tags":""}`, 201, ""},
		{"GET", "/api/users/nopw", ``, 200, `"password_hash":""`},
		{"PUT", "/api/users/u", `{"password":"a","password_hash":"b"}`, 400, "not both"},
		{"PUT", "/api/users/u", `{"password":"a","colour":"b"}`, 201, ""},
		{"PUT", "/api/users/u", `{"password":"a"} x`, 400, "behind the end of its object"},
		{"PUT", "/api/users/u", `{"password":"` + strings.Repeat("x", 1<<20) + `"}`, 413, "more than 1048576 bytes"},
		{"PUT", "/api/users/u", `{"password":"a"}`, 204, ""},
		{"PUT", "/api/users/u?create=true", `{"password":"a"}`, 409, "user 'u' exists"},
		{"PUT", "/api/users/u?create=perhaps", `{"password":"a"}`, 400, "must be true or false"},
		{"PATCH", "/api/users/u", `{}`, 400, "changes nothing"},
		{"PATCH", "/api/users/u", `{"tags":["a"]}`, 204, ""},
		{"GET", "/api/users/u", "", 200, `"tags":["a"]`},
		{"GET", "/api/users/v", "", 404, "there is no user 'v'"},
		{"PUT", "/api/permissions/%2F/u", `{"configure":""}`, 400, "need configure, write and read"},
		{"PUT", "/api/topic-permissions/%2F/u", `{"exchange":"e"}`, 400, "need exchange, write and read"},
		{"PUT", "/api/vhost-limits/%2F/max-queues", `{}`, 400, "needs a value"},
		{"PUT", "/api/vhosts/v", `{"description":"d"}`, 201, ""},
		{"PUT", "/api/vhosts/v", `{"tags":["t"]}`, 204, ""},
		{"GET", "/api/vhosts/v", "", 200, `"description":"d","tags":["t"]`},
		{"PUT", "/api/policies/%2F/p", `{"pattern":""}`, 400, "'definition' is missing"},
		{"PUT", "/api/policies/%2F/p", `{"pattern":7,"definition":{}}`, 400, "'pattern' is number instead of a text"},
		{"PUT", "/api/policies/%2F/p", `{"pattern":"","definition":{"max-length":3}}`, 201, ""},
		{"GET", "/api/policies/%2F/p", "", 200, `"definition":{"max-length":3}`},
		{"GET", "/api/policies/%2F/q", "", 404, "there is no policy 'q'"},
		{"PUT", "/api/parameters/c/%2F/n", `{}`, 400, "needs a value"},
		{"PUT", "/api/parameters/operator_policy/%2F/n", `{"value":1}`, 400, "is number instead of an object"},
		{"GET", "/api/definitions/v", "", 200, `"queues"`},
		{"POST", "/api/definitions", `{"queues":[{}]}`, 400, `"problems":["$.queues[0]: 'name' is missing"]`},
		{"POST", "/api/definitions/v", `{"queues":[{"name":"a b"}]}`, 200, `{"changes":1}`},
		{"GET", "/api/queues/v/a%20b", "", 200, `"name":"a b"`},
		{"DELETE", "/api/queues/v/a%20b", "", 204, ""},
		{"DELETE", "/api/connections/x", "", 404, "there is no connection 'x'"},
		{"GET", "/api/overview", "", 200, `"version":"test"`},
	} {
		status, answer := ask(t, dir, step.method, step.path, step.body)
		if status != step.status || !strings.Contains(answer, step.answer) || status >= 400 && !json.Valid([]byte(answer)) {
			t.Errorf("%s %s: %d %s\nwant %d %s", step.method, step.path, status, answer, step.status, step.answer)
		}
	}
}

// TestControl_ListsUnderLoad: lists are whole while queues, bindings and
// connections come and go on all loops.
func TestControl_ListsUnderLoad(t *testing.T) {
	dir := t.TempDir()
	e := start(t, func(c *engine.Config) { c.DataDir = dir })
	steady := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	for i := range 200 {
		steady.Declare(fmt.Sprint("steady.", i), amqptest.Durable)
	}
	steady.Subscribe(1, "steady.7", "tag", 0)
	stop := make(chan struct{})
	var all sync.WaitGroup
	for w := range 3 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
				name := fmt.Sprint("passing.", w)
				c.Declare(name, amqptest.Durable)
				amqptest.Ask[*amqp.QueueBindOk](c, 1, c.QueueBind(name, "amq.topic", "a.#", nil))
				amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: []byte(name)})
				c.Abort()
			}
		})
	}
	for range 20 {
		for path, want := range map[string]string{
			"queues": `"name":"steady.199"`, "bindings": `"destination":"steady.0"`, "connections": `"state":"running"`,
			"channels": `"number":1`, "consumers": `"consumer_tag":"tag"`, "exchanges/%2F": `"name":"amq.match"`, "vhosts": `"queues":2`, "definitions": `"steady.3"`,
		} {
			status, answer := ask(t, dir, "GET", "/api/"+path, "")
			if status != 200 || !json.Valid([]byte(answer)) || !strings.Contains(answer, want) {
				t.Errorf("%s: %d, lacks %s: %.300s", path, status, want, answer)
			}
		}
	}
	close(stop)
	all.Wait()
	steady.Abort()
}

// TestDefinitions_AtEachStart: the file is imported at each start, with its
// users instead of the usual one, and a bad one refuses the start and changes
// nothing.
func TestDefinitions_AtEachStart(t *testing.T) {
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "definitions.json")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := engine.Config{DataDir: dir, Loops: 1, IO: os.Getenv(ioVariable), Definitions: file}
	run := func(check func(e *engine.Engine)) {
		t.Helper()
		e, err := engine.Start(config)
		if err != nil {
			t.Fatal(err)
		}
		check(e)
		if err := e.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string) {
		t.Helper()
		e, err := engine.Start(config)
		if err == nil {
			_ = e.Stop()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refused("the definitions cannot be read")
	write(`{"queues":[{"name":"q","vhost":"nope"}]}`)
	refused("$.queues[0]: there is no virtual host 'nope'")
	const users = `"users":[{"name":"ann","password":"s3cret","tags":"administrator"}],"permissions":[{"user":"ann","vhost":"/","configure":".*","write":".*","read":".*"}]`
	write(`{` + users + `,"queues":[{"name":"q","vhost":"/"}]}`)
	run(func(e *engine.Engine) {
		if users := e.Broker().Users(); len(users) != 2 { // guest is there since the start that was refused
			t.Errorf("%v", users)
		}
		c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{User: "ann", Password: "s3cret"})
		amqptest.Ask[*amqp.QueueDeleteOk](c, 1, &amqp.QueueDelete{Queue: []byte("q")})
		c.Abort()
	})
	run(func(e *engine.Engine) {
		if e.Broker().VHost("/").FindQueue("q") == nil {
			t.Error("the queue that was deleted is not made again")
		}
	})
	config.DataDir = t.TempDir()
	run(func(e *engine.Engine) {
		if users := e.Broker().Users(); len(users) != 1 || users[0].Name != "ann" {
			t.Errorf("a file with users, and there are %v", users)
		}
	})
	config.DataDir, config.DefaultUser, config.DefaultPassword = t.TempDir(), "root", "pw"
	run(func(e *engine.Engine) {
		if users := e.Broker().Users(); len(users) != 2 {
			t.Errorf("a default user was asked for, and there are %v", users)
		}
	})
}
