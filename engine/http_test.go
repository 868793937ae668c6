package engine_test

import (
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/access"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

// withHTTP starts a broker with the management API and returns a function that
// sends requests of a user, whose password is its name.
func withHTTP(t *testing.T) (*engine.Engine, func(user, method, path string, into any) int) {
	t.Helper()
	e := start(t, func(c *engine.Config) { c.HTTP = netip.MustParseAddrPort("127.0.0.1:0") })
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return e, func(user, method, path string, into any) int {
		t.Helper()
		request, err := http.NewRequest(method, "http://"+e.HTTPAddr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth(user, user)
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		if into != nil {
			if err := json.Unmarshal(data, into); err != nil {
				t.Fatalf("%s %s: %v: %s", method, path, err, data)
			}
		}
		return response.StatusCode
	}
}

// TestHTTP_Connections: what a connection is made of, who sees it, and who closes
// it.
func TestHTTP_Connections(t *testing.T) {
	e, ask := withHTTP(t)
	b := e.Broker()
	for _, tag := range []string{"management", "monitoring"} {
		if _, err := b.AddUser(access.Spec{Name: tag, Password: access.HashPassword([]byte(tag)), Tags: []string{tag}}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.SetPermissions(tag, "/", access.Permissions{Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
			t.Fatal(err)
		}
	}
	theirs := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	own := amqptest.OpenClient(t, e.Addr(), amqptest.Options{User: "management", Password: "management"})
	theirs.Declare("q", amqptest.Durable)
	theirs.PublishAll(1, "q", "one", "two")
	theirs.Subscribe(1, "q", "tag", 0)
	theirs.Want("1 basic.deliver ConsumerTag=tag*")
	theirs.Want("1 basic.deliver ConsumerTag=tag*")
	own.Sync(1)

	type connection struct {
		Name, User, VHost, Node, Type, Protocol, Host string
		PeerHost                                      string `json:"peer_host"`
		Port                                          uint16
		Channels                                      int
		Connected                                     int64          `json:"connected_at"`
		Mechanism                                     string         `json:"auth_mechanism"`
		Properties                                    map[string]any `json:"client_properties"`
		In                                            uint64         `json:"recv_oct"`
	}
	var all []connection
	if ask("monitoring", "GET", "/api/connections", &all); len(all) != 2 {
		t.Fatalf("monitoring sees %v", all)
	}
	var mine []connection
	if ask("management", "GET", "/api/connections", &mine); len(mine) != 1 || mine[0].User != "management" {
		t.Fatalf("management sees %v", mine)
	}
	c := all[0]
	if c.User != "guest" {
		c = all[1]
	}
	if c.VHost != "/" || c.Type != "network" || c.Protocol != "AMQP 0-9-1" || c.Host != "127.0.0.1" || c.PeerHost != "127.0.0.1" || c.Port != e.Addr().Port() ||
		c.Channels != 1 || c.Connected == 0 || c.Mechanism != "PLAIN" || c.Properties == nil || c.In == 0 {
		t.Errorf("%+v", c)
	}
	one := "/api/connections/" + url.PathEscape(c.Name)
	for user, want := range map[string]int{"monitoring": 200, "guest": 200, "management": 404} {
		if status := ask(user, "GET", one, nil); status != want {
			t.Errorf("GET of another's as %s: %d", user, status)
		}
	}
	var channels []struct {
		Name    string
		Unacked int                            `json:"messages_unacknowledged"`
		Stats   struct{ Publish, Deliver int } `json:"message_stats"`
	}
	if ask("guest", "GET", one+"/channels", &channels); len(channels) != 1 || channels[0].Unacked != 2 || channels[0].Stats.Publish != 2 || channels[0].Stats.Deliver != 2 {
		t.Errorf("%+v", channels)
	}
	var channel struct {
		Consumers []struct {
			Tag   string `json:"consumer_tag"`
			Queue struct{ Name string }
		} `json:"consumer_details"`
	}
	if ask("guest", "GET", "/api/channels/"+url.PathEscape(channels[0].Name), &channel); len(channel.Consumers) != 1 || channel.Consumers[0].Queue.Name != "q" {
		t.Errorf("%+v", channel)
	}
	var queue struct {
		Messages  int
		State     string
		Consumers []struct {
			Channel struct {
				Connection string `json:"connection_name"`
				User       string
			} `json:"channel_details"`
		} `json:"consumer_details"`
	}
	if ask("management", "GET", "/api/queues/%2F/q", &queue); queue.Messages != 2 || queue.State != "running" || len(queue.Consumers) != 1 || queue.Consumers[0].Channel.Connection != c.Name {
		t.Errorf("%+v", queue)
	}
	var overview struct {
		Objects map[string]int `json:"object_totals"`
		Queues  map[string]any `json:"queue_totals"`
		Stats   map[string]any `json:"message_stats"`
	}
	ask("guest", "GET", "/api/overview", &overview)
	if o := overview.Objects; o["connections"] != 2 || o["channels"] != 2 || o["queues"] != 1 || o["consumers"] != 1 || overview.Queues["messages_unacknowledged"] != 2.0 || overview.Stats["publish"] != 2.0 {
		t.Errorf("%+v", overview)
	}

	if status := ask("management", "DELETE", one, nil); status != 404 {
		t.Errorf("another's connection is closed: %d", status)
	}
	if status := ask("management", "DELETE", "/api/connections/username/guest", nil); status != 401 {
		t.Errorf("another's connections are closed: %d", status)
	}
	if status := ask("management", "DELETE", "/api/connections/username/management", nil); status != 204 {
		t.Errorf("own connections: %d", status)
	}
	own.Want("0 connection.close 320 (0,0) CONNECTION_FORCED - Closed via management plugin")
	own.FinishClose()
	if status := ask("guest", "DELETE", one, nil); status != 204 {
		t.Errorf("as administrator: %d", status)
	}
	theirs.Want("0 connection.close 320 (0,0) CONNECTION_FORCED - Closed via management plugin")
	theirs.FinishClose()
}

// TestHTTP_Exclusive: a queue that belongs to a connection is an administrator's to
// delete.
func TestHTTP_Exclusive(t *testing.T) {
	e, ask := withHTTP(t)
	if _, err := e.Broker().AddUser(access.Spec{Name: "m", Password: access.HashPassword([]byte("m")), Tags: []string{"management"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Broker().SetPermissions("m", "/", access.Permissions{Configure: ".*", Write: ".*", Read: ".*"}); err != nil {
		t.Fatal(err)
	}
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	amqptest.Ask[*amqp.QueueDeclareOk](c, 1, &amqp.QueueDeclare{Queue: []byte("mine"), Exclusive: true})
	for _, path := range []string{"/api/queues/%2F/mine", "/api/queues/%2F/mine/contents"} {
		if status := ask("m", "DELETE", path, nil); status != 400 {
			t.Errorf("DELETE %s: %d", path, status)
		}
	}
	if status := ask("guest", "DELETE", "/api/queues/%2F/mine", nil); status != 204 {
		t.Errorf("as administrator: %d", status)
	}
	c.Abort()
}

// TestHTTP_PortInUse: the error names the flag.
func TestHTTP_PortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	e, err := engine.Start(engine.Config{DataDir: t.TempDir(), IO: "posix", Loops: 1, HTTP: l.Addr().(*net.TCPAddr).AddrPort()})
	if err == nil {
		_ = e.Stop()
	}
	if err == nil || !strings.Contains(err.Error(), "--http-port") {
		t.Errorf("%v", err)
	}
}

// TestHTTP_Consumers: a consumer is shown with its arguments; what has no TLS has
// null for it.
func TestHTTP_Consumers(t *testing.T) {
	e, ask := withHTTP(t)
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	c.Declare("q", amqptest.Durable)
	waiting(c, "q", "plain", 0)
	waiting(c, "q", "argued", 0, "x-priority", 3, "x-own", "text")
	var consumers []struct {
		Tag       string         `json:"consumer_tag"`
		Arguments map[string]any `json:"arguments"`
	}
	if ask("guest", "GET", "/api/consumers", &consumers); len(consumers) != 2 {
		t.Fatalf("%+v", consumers)
	}
	for _, one := range consumers {
		want := map[string]any{}
		if one.Tag == "argued" {
			want = map[string]any{"x-priority": 3.0, "x-own": "text"}
		}
		if one.Arguments == nil || !maps.Equal(one.Arguments, want) {
			t.Errorf("%+v, want %v", one, want)
		}
	}
	var connections []map[string]any
	ask("guest", "GET", "/api/connections", &connections)
	for _, name := range []string{"ssl_protocol", "ssl_key_exchange", "ssl_cipher", "ssl_hash", "peer_cert_subject", "peer_cert_issuer", "peer_cert_validity"} {
		if v, there := connections[0][name]; !there || v != nil {
			t.Errorf("%s is %v, %v", name, v, there)
		}
	}
	var nodes []map[string]any
	ask("guest", "GET", "/api/nodes", &nodes)
	for name, least := range map[string]float64{"connection_created": 1, "connection_closed": 0, "channel_created": 1, "queue_declared": 1, "queue_created": 1, "io_write_count": 1, "io_sync_count": 1, "io_write_bytes": 1, "context_switches": 1, "gc_bytes_reclaimed": 0} {
		if v, ok := nodes[0][name].(float64); !ok || v < least {
			t.Errorf("%s is %v", name, nodes[0][name])
		}
	}
}
