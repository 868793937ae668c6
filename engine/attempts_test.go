package engine_test

import (
	"encoding/json"
	"net/http"
	"net/netip"
	"os"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/engine/secure/securetest"
	"github.com/basaltmq/basaltmq/engine/stats"
)

// askAPI asks the management API as guest and decodes the answer.
func askAPI(t *testing.T, e *engine.Engine, path string, into any) {
	t.Helper()
	r, err := http.NewRequest("GET", "http://"+e.HTTPAddr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.SetBasicAuth("guest", "guest")
	r.Close = true
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", path, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

// TestAttempts: logins by password, by several messages, by what takes long and
// over WebSockets are counted, with whom they were for.
func TestAttempts(t *testing.T) {
	ca, issuer := securetest.NewCA(t), securetest.NewIssuer(t)
	e := start(t, secured(t, ca), byTokens(issuer), func(c *engine.Config) {
		c.HTTP = netip.MustParseAddrPort("127.0.0.1:0")
		c.Auth.Mechanisms = []string{"PLAIN", "SCRAM-SHA-256"}
	})
	amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	refusedLogin(t, e, amqptest.Options{User: "guest", Password: "wrong"})
	refusedLogin(t, e, amqptest.Options{User: "nobody", Password: "guest"})
	scramLogin(t, e, "guest", "guest")
	c, _, _ := scramLogin(t, e, "guest", "wrong")
	c.FinishClose()
	amqptest.OpenClientOn(t, dialWeb(t, "ws://"+e.HTTPAddr().String(), ca, nil), amqptest.Options{})
	amqptest.OpenClient(t, e.Addr(), amqptest.Options{User: "any", Password: issuer.Token(t, "joe", "mq.configure:*/*", nil)})

	node, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	var totals []stats.ProtocolAttempts
	askAPI(t, e, "/api/auth/attempts/basaltmq@"+node, &totals)
	want := []stats.ProtocolAttempts{
		{Protocol: "amqp091", AttemptCounts: stats.AttemptCounts{All: 7, Failed: 3, Succeeded: 4}},
		{Protocol: "http", AttemptCounts: stats.AttemptCounts{All: 1, Succeeded: 1}},
	}
	if len(totals) != 2 || totals[0] != want[0] || totals[1] != want[1] {
		t.Errorf("%+v", totals)
	}
	var sources []stats.SourceAttempts
	askAPI(t, e, "/api/auth/attempts/basaltmq@"+node+"/source", &sources)
	got := map[string]stats.AttemptCounts{}
	for _, s := range sources {
		if s.Remote != "127.0.0.1" {
			t.Errorf("from %q", s.Remote)
		}
		got[s.User+" "+s.Protocol] = s.AttemptCounts
	}
	for key, counts := range map[string]stats.AttemptCounts{
		"guest amqp091": {All: 5, Failed: 2, Succeeded: 3}, "nobody amqp091": {All: 1, Failed: 1}, "joe amqp091": {All: 1, Succeeded: 1},
		"guest http": {All: 2, Succeeded: 2},
	} {
		if got[key] != counts {
			t.Errorf("%s: %+v, want %+v", key, got[key], counts)
		}
	}
	if len(got) != 4 {
		t.Errorf("%+v", got)
	}
}
