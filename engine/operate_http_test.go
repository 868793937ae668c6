package engine_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	wire "github.com/basaltmq/basaltmq/wire/amqp"
)

// steps sends requests one after the other. An answer that begins with ~ is a part
// of what must come, another all of it.
func steps(t *testing.T, dir string, list [][4]any) {
	t.Helper()
	for _, s := range list {
		method, path, _ := strings.Cut(s[0].(string), " ")
		status, answer := ask(t, dir, method, path, s[1].(string))
		want := s[3].(string)
		part, isPart := strings.CutPrefix(want, "~")
		answer = strings.TrimSuffix(answer, "\n")
		if status != s[2].(int) || isPart && !strings.Contains(answer, part) || !isPart && answer != want {
			t.Errorf("%s %s: %d %s\nwant %d %s", s[0], s[1], status, answer, s[2], want)
		}
	}
}

// TestAPI_Messages: publishing and getting answer as RabbitMQ 3.10 does.
func TestAPI_Messages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, c, _ := operating(t, func(c *engine.Config) { c.DataDir = dir })
	c.Declare("q", amqptest.Durable)
	amqptest.Ask[*wire.QueueDeclareOk](c, 1, c.QueueDeclare("s", amqptest.Durable, table("x-queue-type", "stream")))
	const publish, get = "POST /api/exchanges/%2F/amq.default/publish", "POST /api/queues/%2F/q/get"
	rich := `{"properties":{"delivery_mode":2,"headers":{"a":1,"b":"x","c":1.5,"d":true,"f":[1,"y"],"g":{"h":2}},"content_type":"text/plain","priority":3,` +
		`"timestamp":17,"expiration":"6000000","message_id":"m","user_id":"guest","correlation_id":"c","reply_to":"r","type":"t","app_id":"ap","nonsense":1},` +
		`"routing_key":"q","payload":"/wAB","payload_encoding":"base64"}`
	message := func(properties string) string {
		return `{"properties":` + properties + `,"routing_key":"q","payload":"hello","payload_encoding":"string"}`
	}
	first := `{"payload_bytes":5,"redelivered":%v,"exchange":"","routing_key":"q","message_count":%d,"properties":[],"payload":"hello","payload_encoding":"string"}`
	steps(t, dir, [][4]any{
		{publish, message("{}"), 200, `{"routed":true}`},
		{publish, message("[]"), 200, `{"routed":true}`},
		{publish, rich, 200, `{"routed":true}`},
		{publish, strings.Replace(message("{}"), `"q"`, `"nope"`, 1), 200, `{"routed":false}`},
		{"POST /api/exchanges/%2F/nope/publish", message("{}"), 400, `~"reason":"404 NOT_FOUND - no exchange 'nope' in vhost '/'"`},
		{"POST /api/exchanges/nope/amq.default/publish", message("{}"), 404, "~there is no virtual host 'nope'"},
		{publish, `{"properties":{},"routing_key":"q","payload":"hello"}`, 400, `~"reason":"[{key_missing,payload_encoding}]"`},
		{publish, `{"routing_key":"q","payload":"hello","payload_encoding":"string"}`, 400, `~"reason":"[{key_missing,properties}]"`},
		{publish, message(`{"delivery_mode":7}`), 400, `~"reason":"406 PRECONDITION_FAILED - invalid message: {delivery_mode_unknown,7}"`},
		{publish, message(`{"delivery_mode":"2"}`), 400, "~the property 'delivery_mode' must be a number"},
		{publish, message(`{"expiration":5}`), 400, "~the property 'expiration' must be a text"},
		{publish, message(`{"timestamp":-1}`), 400, "~the property 'timestamp' must be a number of seconds"},
		{publish, message(`{"headers":7}`), 400, "~the property 'headers' is not an object"},
		{publish, message(`7`), 400, "~'properties' is number instead of an object"},
		{publish, strings.Replace(message("{}"), `"string"`, `"other"`, 1), 400, "~unsupported payload_encoding 'other'"},
		{publish, strings.Replace(message("{}"), `"string"`, `"base64"`, 1), 400, "~not base64"},
		{publish, `{bad`, 400, "~is not a JSON object"},
		{publish, strings.Replace(message("{}"), `"q"`, `"`+strings.Repeat("x", 256)+`"`, 1), 400, "~the routing key has more than 255 bytes"},

		{get, `{"count":2,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200, "[" + fmt.Sprintf(first, false, 2) + "," + fmt.Sprintf(first, false, 1) + "]"},
		{get, `{"count":"1","ackmode":"reject_requeue_true","encoding":"auto"}`, 200, "[" + fmt.Sprintf(first, true, 2) + "]"},
		{get, `{"count":1,"ackmode":"ack_requeue_true","encoding":"base64","truncate":3}`, 200,
			`[{"payload_bytes":5,"redelivered":true,"exchange":"","routing_key":"q","message_count":2,"properties":[],"payload":"aGVs","payload_encoding":"base64"}]`},
		{get, `{"requeue":"true"}`, 200, `~"redelivered":true`},
		{get, `{"count":2,"ackmode":"ack_requeue_false","encoding":"auto"}`, 200, `~"message_count":1`},
		{get, `{"count":1,"ack_mode":"get"}`, 200, `[{"payload_bytes":3,"redelivered":false,"exchange":"","routing_key":"q","message_count":0,"properties":{` +
			`"content_type":"text/plain","delivery_mode":2,"priority":3,"correlation_id":"c","reply_to":"r","expiration":"6000000","message_id":"m","type":"t","user_id":"guest","app_id":"ap",` +
			`"timestamp":17,"headers":{"a":1,"b":"x","c":1.5,"d":true,"f":[1,"y"],"g":{"h":2}}},"payload":"/wAB","payload_encoding":"base64"}]`},
		{get, `{"count":0,"ackmode":"ack_requeue_true","encoding":"auto"}`, 200, "[]"},
		{get, `{"count":1,"ackmode":"other"}`, 400, "~'ackmode' is one of"},
		{get, `{"count":1}`, 400, `~"reason":"[{key_missing,ackmode}]"`},
		{get, `{"count":-1,"ackmode":"get"}`, 400, "~not a number that is 0 or more"},
		{get, `{"count":1,"ackmode":"get","encoding":"other"}`, 400, `~"reason":"Unsupported encoding. Please use auto or base64."`},
		{"POST /api/queues/%2F/nope/get", `{"count":1,"ackmode":"get"}`, 404, "~there is no queue 'nope'"},
		{"POST /api/queues/%2F/s/get", `{"count":1,"ackmode":"get"}`, 400, "~basic.get not supported by stream queues queue 's' in vhost '/'"},
		{"POST /api/queues/%2F/q/stream", `{}`, 400, "~is not a stream"},
		{"DELETE /api/queues/%2F/q/contents?count=5", "", 200, `{"purged":1}`},
		{"DELETE /api/queues/%2F/q/contents?count=x", "", 400, "~'count' is not a number"},
		{"DELETE /api/queues/%2F/s/contents", "", 400, "~queue.purge not supported by stream queues"},
		{get, `{"count":1,"ackmode":"get"}`, 200, "[]"},
	})
}

// TestAPI_PeekAndMove: looking and moving, of queues and streams.
func TestAPI_PeekAndMove(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, c, _ := operating(t, func(c *engine.Config) { c.DataDir = dir })
	c.Declare("a", amqptest.Durable)
	c.Declare("b", amqptest.Durable)
	amqptest.Ask[*wire.QueueDeclareOk](c, 1, c.QueueDeclare("s", amqptest.Durable, table("x-queue-type", "stream")))
	c.Declare("mine", amqptest.Exclusive)
	c.PublishAll(1, "a", "1", "2", "3")
	c.PublishAll(1, "s", "x", "y")
	c.Sync(1)
	const peek = "POST /api/queues/%2F/a/peek"
	steps(t, dir, [][4]any{
		{peek, `{"count":2}`, 200, `~"payload":"1"`},
		{peek, `{"count":2,"skip":1,"truncate":0}`, 200, `~"redelivered":false,"exchange":"","routing_key":"a","message_count":0,"properties":[],"payload":"","payload_encoding":"string","offset":1,"arrived":`},
		{"POST /api/queues/%2F/s/stream", `{"offset":1,"count":5}`, 200, `~"payload":"y","payload_encoding":"string","offset":1`},
		{"POST /api/queues/%2F/s/stream", `{"offset":"last","count":5}`, 200, `~"payload":"`},
		{"POST /api/queues/%2F/s/stream", `{"offset":"never"}`, 400, "~invalid_offset_arg"},
		{"POST /api/queues/%2F/s/stream", `{"offset":[]}`, 400, "~neither a text nor a number"},
		{"POST /api/queues/%2F/a/move", `{"destination":"b","count":2}`, 200, `{"moved":2,"more":false}`},
		{"POST /api/queues/%2F/a/move", `{"destination":"b"}`, 200, `{"moved":1,"more":false}`},
		{"POST /api/queues/%2F/a/move", `{"destination":"b"}`, 200, `{"moved":0,"more":false}`},
		{"POST /api/queues/%2F/s/move", `{"destination":"b","count":1}`, 200, `{"moved":1,"next":1,"more":false}`},
		{"POST /api/queues/%2F/s/move", `{"destination":"b","offset":1}`, 200, `{"moved":1,"next":2,"more":false}`},
		{"POST /api/queues/%2F/mine/peek", `{}`, 200, "[]"}, // the socket's user is an administrator
		{"POST /api/queues/%2F/a/move", `{"destination":"a"}`, 400, "~cannot be moved to itself"},
		{"POST /api/queues/%2F/a/move", `{"destination":"nope"}`, 404, "~there is no queue 'nope'"},
		{"POST /api/queues/%2F/a/move", `{"destination":"b","destination_vhost":"nope"}`, 404, "~there is no virtual host 'nope'"},
		{"POST /api/queues/%2F/b/get", `{"count":9,"ackmode":"ack_requeue_false"}`, 200, `~"payload":"y"`},
	})
}

// TestAPI_Operations: pausing, restarting, cancelling, prefetch, aliveness.
func TestAPI_Operations(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, c, _ := operating(t, func(c *engine.Config) { c.DataDir = dir })
	c.Declare("q", amqptest.Durable)
	c.PublishAll(1, "q", "1", "2")
	qos(c, 1, false)
	c.Subscribe(1, "q", "a/tag", 0)
	delivery(c)
	connections, err := e.AMQP().Connections(t.Context())
	if err != nil || len(connections) != 1 {
		t.Fatal(connections, err)
	}
	name := url.PathEscape(connections[0].Name)
	channel := url.PathEscape(connections[0].Name + " (1)")
	steps(t, dir, [][4]any{
		{"PUT /api/queues/%2F/q/pause", "", 204, ""},
		{"GET /api/queues/%2F/q", "", 200, `~"state":"paused"`},
		{"GET /api/queues/%2F/q", "", 200, `~"single_active_consumer_tag":null,"exclusive_consumer_tag":null,"head_message_timestamp":null,"backing_queue_status":{"mode":"default"`},
		{"GET /api/queues/%2F/q", "", 200, `~"messages_ram":2`},
		{"POST /api/queues/%2F/q/get", `{"ackmode":"ack_requeue_true"}`, 200, `~"payload":"2"`},
		{"PUT /api/queues/%2F/q/resume", "", 204, ""},
		{"GET /api/queues/%2F/q", "", 200, `~"state":"running"`},
		{"PUT /api/queues/%2F/q/restart", "", 400, "~queue 'q' in vhost '/' is not closed"},
		{"PUT /api/queues/%2F/nope/pause", "", 404, "~there is no queue 'nope'"},
		{"GET /api/queues/%2F/q/unacked", "", 200, `~"consumer_tag":"a/tag","delivery_tag":1`},
		{"GET /api/queues/%2F/nope/unacked", "", 404, "~there is no queue"},
		{"PUT /api/channels/" + channel, `{"prefetch":2}`, 204, ""},
		{"PUT /api/channels/" + channel, `{"prefetch":70000}`, 400, "~a number from 0 to 65535"},
		{"PUT /api/channels/" + channel, `{}`, 400, "~a number from 0 to 65535"},
		{"PUT /api/channels/nope", `{"prefetch":2}`, 404, "~there is no channel 'nope'"},
		{"PUT /api/channels/" + url.PathEscape(connections[0].Name+" (9)"), `{"prefetch":2}`, 404, "~there is no channel"},
		{"DELETE /api/consumers/%2F/" + name + "/1/nope", "", 404, "~there is no consumer 'nope'"},
		{"DELETE /api/consumers/%2F/" + name + "/x/nope", "", 400, "~not the number of a channel"},
		{"DELETE /api/consumers/%2F/nobody/1/nope", "", 404, "~there is no connection 'nobody'"},
		{"DELETE /api/consumers/%2F/" + name + "/" + channel + "/a%2Ftag", "", 204, ""},
		{"GET /api/aliveness-test/%2F", "", 200, `{"status":"ok"}`},
		{"GET /api/aliveness-test/nope", "", 404, "~there is no virtual host"},
	})
	if m, body := delivery(c); body != "2" || !m.Redelivered {
		t.Errorf("%s, redelivered %v", body, m.Redelivered)
	}
	c.Want("1 basic.cancel ConsumerTag=a/tag NoWait=true")
}

// TestAPI_LargeMessages: what does not fit a request is refused, what fits comes
// back, and an answer does not grow without a bound.
func TestAPI_LargeMessages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, c, _ := operating(t, func(c *engine.Config) { c.DataDir = dir })
	c.Declare("q", 0)
	body := func(n int) string {
		return `{"properties":{},"routing_key":"q","payload":"` + strings.Repeat("x", n) + `","payload_encoding":"string"}`
	}
	steps(t, dir, [][4]any{
		{"POST /api/exchanges/%2F/amq.default/publish", body(3 << 20), 200, `{"routed":true}`},
		{"POST /api/exchanges/%2F/amq.default/publish", body(8 << 20), 413, "~more than 8388608 bytes"},
	})
	c.Publish(1, amqptest.Message{Key: "q", Body: strings.Repeat("y", 9<<20), FrameMax: 128 << 10})
	c.Sync(1)
	status, answer := ask(t, dir, "POST", "/api/queues/%2F/q/get", `{"count":10,"ackmode":"ack_requeue_true"}`)
	var list []struct {
		Bytes   int `json:"payload_bytes"`
		Payload string
	}
	if err := json.Unmarshal([]byte(answer), &list); status != 200 || err != nil || len(list) != 2 {
		t.Fatalf("%d, %v, %d messages", status, err, len(list))
	}
	if list[0].Bytes != 3<<20 || len(list[0].Payload) != 3<<20 || list[1].Bytes != 9<<20 || len(list[1].Payload) != 8<<20 {
		t.Errorf("%d of %d, %d of %d bytes", len(list[0].Payload), list[0].Bytes, len(list[1].Payload), list[1].Bytes)
	}
}

// TestAPI_MessagePermissions: over TCP everybody may do with messages what they
// may do over AMQP, and no more.
func TestAPI_MessagePermissions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e, c, _ := operating(t, func(c *engine.Config) {
		c.DataDir, c.HTTP = dir, netip.MustParseAddrPort("127.0.0.1:0")
	})
	for _, name := range []string{"m.read", "m.write", "other"} {
		c.Declare(name, amqptest.Durable)
	}
	amqptest.Ask[*wire.ExchangeDeclareOk](c, 1, c.ExchangeDeclare("m.write.topic", "topic", 0, nil))
	c.PublishAll(1, "m.read", "1", "2")
	c.Sync(1)
	steps(t, dir, [][4]any{
		{"PUT /api/users/m", `{"password":"pw","tags":"management"}`, 201, ""},
		{"PUT /api/permissions/%2F/m", `{"configure":"","write":"^m\\.write","read":"^m\\.read"}`, 201, ""},
		{"PUT /api/topic-permissions/%2F/m", `{"exchange":"m.write.topic","write":"^mine","read":""}`, 201, ""},
	})
	connections, err := e.AMQP().Connections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	guests := url.PathEscape(connections[0].Name)
	publish := func(key string) string {
		return `{"properties":{},"routing_key":"` + key + `","payload":"x","payload_encoding":"string"}`
	}
	for _, s := range []struct {
		request, body string
		status        int
		answer        string
	}{
		{"POST /api/queues/%2F/m.read/get", `{"ackmode":"ack_requeue_true"}`, 200, `"payload":"1"`},
		{"POST /api/queues/%2F/m.read/peek", `{}`, 200, `"payload":"1"`},
		{"POST /api/queues/%2F/other/get", `{"ackmode":"ack_requeue_true"}`, 401, "read access to queue 'other'"},
		{"POST /api/queues/%2F/other/peek", `{}`, 401, "read access to queue 'other'"},
		{"GET /api/queues/%2F/other/unacked", ``, 401, "read access to queue 'other'"},
		{"GET /api/queues/%2F/m.read/unacked", ``, 200, "[]"},
		{"POST /api/exchanges/%2F/amq.default/publish", publish("m.read"), 401, "write access to exchange 'amq.default'"},
		{"POST /api/exchanges/%2F/m.write.topic/publish", publish("mine.x"), 200, `{"routed":false}`},
		{"POST /api/exchanges/%2F/m.write.topic/publish", publish("theirs"), 401, "write access to topic 'theirs'"},
		{"POST /api/queues/%2F/m.read/move", `{"destination":"other"}`, 401, "write access to queue 'other'"},
		{"POST /api/queues/%2F/other/move", `{"destination":"m.write"}`, 401, "read access to queue 'other'"},
		{"POST /api/queues/%2F/m.read/move", `{"destination":"m.write"}`, 200, `"moved":2`},
		{"PUT /api/queues/%2F/m.read/pause", ``, 401, "configure access to queue 'm.read'"},
		{"GET /api/aliveness-test/%2F", ``, 401, "configure access to queue 'aliveness-test'"},
		{"DELETE /api/consumers/%2F/" + guests + "/1/tag", ``, 404, "there is no connection"},
		{"PUT /api/channels/" + guests + "%20(1)", `{"prefetch":1}`, 404, "there is no connection"},
		{"POST /api/queues/%2Fx/m.read/get", `{"ackmode":"ack_requeue_true"}`, 401, "not authorised"},
	} {
		method, path, _ := strings.Cut(s.request, " ")
		request, err := http.NewRequest(method, "http://"+e.HTTPAddr().String()+path, strings.NewReader(s.body))
		if err != nil {
			t.Fatal(err)
		}
		request.SetBasicAuth("m", "pw")
		request.Close = true
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != s.status || !strings.Contains(string(answer), s.answer) {
			t.Errorf("%s %s: %d %s, %v\nwant %d %s", s.request, s.body, response.StatusCode, answer, err, s.status, s.answer)
		}
	}
}
