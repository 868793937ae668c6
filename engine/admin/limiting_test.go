package admin

import (
	"strings"
	"testing"
)

// TestParameters_Limiting: limits of virtual hosts and operator policies are among
// the parameters, as RabbitMQ has them, and are one with what has paths of its own.
func TestParameters_Limiting(t *testing.T) {
	h := newTestHandler(t)
	must(t, h, "PUT", "/api/vhosts/v", "")
	addUser(t, h, "pol", "policymaker", "v")
	addUser(t, h, "adm", "administrator") // without permissions anywhere
	const policy, limits = "/api/parameters/operator_policy/v/p", "/api/parameters/vhost-limits/v/limits"
	for _, step := range []struct {
		user, method, path, body string
		status                   int
		want                     string // of the answer
	}{
		{"adm", "GET", "/api/parameters", "", 200, "[]\n"},
		{"pol", "PUT", policy, `{"value":{"pattern":"^a","definition":{"max-length":5}}}`, 401, ""},
		{"pol", "PUT", limits, `{"value":{"max-queues":5}}`, 401, ""},
		{"adm", "PUT", policy, `{"value":{"pattern":"^a","definition":{"max-length":5},"priority":"3","apply-to":"queues"}}`, 201, ""},
		{"adm", "PUT", policy, `{"value":{"pattern":"^b","definition":{"max-length":5},"priority":3,"apply-to":"queues"}}`, 204, ""},
		{"adm", "PUT", policy, `{"value":{"pattern":"("}}`, 400, ""},
		{"adm", "PUT", policy, `{"value":{"pattern":"x","definition":{"dead-letter-exchange":"x"}}}`, 400, ""},
		{"adm", "PUT", policy, `{"value":[]}`, 400, ""},
		{"adm", "PUT", policy, `{}`, 400, ""},
		{"adm", "GET", "/api/operator-policies/v/p", "", 200, `{"vhost":"v","name":"p","pattern":"^b","apply-to":"queues","priority":3,"definition":{"max-length":5}}` + "\n"},
		{"adm", "GET", policy, "", 200, `{"vhost":"v","component":"operator_policy","name":"p","value":{"apply-to":"queues","definition":{"max-length":5},"pattern":"^b","priority":3}}` + "\n"},
		{"adm", "PUT", limits, `{"value":{"max-queues":5,"max-connections":7}}`, 201, ""},
		{"adm", "PUT", limits, `{"value":{"max-queues":6}}`, 204, ""},
		{"adm", "PUT", limits, `{"value":{"max-queues":"x"}}`, 400, ""},
		{"adm", "PUT", limits, `{"value":{"max-nothing":1}}`, 400, ""},
		{"adm", "PUT", "/api/parameters/vhost-limits/v/other", `{"value":{"max-queues":6}}`, 400, ""},
		{"adm", "GET", "/api/vhost-limits/v", "", 200, `[{"vhost":"v","value":{"max-queues":6}}` + "\n]\n"},
		{"pol", "GET", limits, "", 200, `{"vhost":"v","component":"vhost-limits","name":"limits","value":{"max-queues":6}}` + "\n"},
		{"pol", "GET", "/api/parameters/vhost-limits", "", 200, `[{"vhost":"v","component":"vhost-limits","name":"limits","value":{"max-queues":6}}` + "\n]\n"},
		{"pol", "DELETE", limits, "", 401, ""},
		{"pol", "DELETE", policy, "", 401, ""},
		{"adm", "DELETE", limits, "", 204, ""},
		{"adm", "DELETE", limits, "", 404, ""},
		{"adm", "DELETE", policy, "", 204, ""},
		{"adm", "DELETE", policy, "", 404, ""},
		{"adm", "GET", limits, "", 404, ""},
		{"adm", "GET", policy, "", 404, ""},
		{"adm", "GET", "/api/vhost-limits/v", "", 200, "[]\n"},
		{"adm", "GET", "/api/operator-policies/v", "", 200, "[]\n"},
	} {
		if w := as(h, step.user, step.method, step.path, step.body); w.Code != step.status || step.want != "" && w.Body.String() != step.want {
			t.Errorf("%s %s as %s: %d %s, want %d %s", step.method, step.path, step.user, w.Code, w.Body, step.status, step.want)
		}
	}
}

// TestPolicies_Administrator: administrators set rules where they have no
// permissions, which a program that sets virtual hosts up relies on.
func TestPolicies_Administrator(t *testing.T) {
	h := newTestHandler(t)
	must(t, h, "PUT", "/api/vhosts/v", "")
	addUser(t, h, "adm", "administrator")
	addUser(t, h, "both", "policymaker monitoring")
	for _, path := range []string{"/api/policies/v/p", "/api/operator-policies/v/p", "/api/parameters/c/v/p"} {
		const body = `{"pattern":"a","definition":{"max-length":1},"value":1}`
		for _, step := range []struct {
			user, method string
			status       int
		}{{"both", "PUT", 401}, {"adm", "PUT", 201}, {"adm", "PUT", 204}, {"both", "DELETE", 401}, {"adm", "DELETE", 204}, {"adm", "DELETE", 404}} {
			if w := as(h, step.user, step.method, path, body); w.Code != step.status {
				t.Errorf("%s %s as %s: %d %s", step.method, path, step.user, w.Code, w.Body)
			}
		}
	}
	// What is done with messages takes permissions all the same.
	if w := as(h, "adm", "PUT", "/api/queues/v/q", "{}"); w.Code != 401 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestNothingToDelete: 404 for what is not there.
func TestNothingToDelete(t *testing.T) {
	h := withEverything(t)
	for _, path := range []string{"/api/permissions/vhost/user", "/api/topic-permissions/vhost/user", "/api/permissions/vhost/nobody", "/api/permissions/nowhere/user"} {
		if w := as(h, "", "DELETE", path, ""); w.Code != 404 {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	must(t, h, "PUT", "/api/permissions/vhost/user", `{"configure":"","write":"","read":""}`)
	must(t, h, "DELETE", "/api/permissions/vhost/user", "")
	for _, name := range []string{"cluster_name", "internal_cluster_id"} {
		if w := as(h, "", "PUT", "/api/global-parameters/"+name, `{"value":"mine"}`); w.Code != 400 {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestSpans: samples that make no sense are refused as RabbitMQ refuses them.
func TestSpans(t *testing.T) {
	h := newTestHandler(t)
	for query, status := range map[string]int{
		"lengths_age=60&lengths_incr=5": 200, "lengths_age=60": 200, "lengths_age=x&lengths_incr=0": 200, "msg_rates_age=600000000&msg_rates_incr=1": 200,
		"lengths_age=60&lengths_incr=0": 400, "data_rates_age=-1&data_rates_incr=5": 400, "msg_rates_age=5&msg_rates_incr=-5": 400, "node_stats_age=5&node_stats_incr=0": 400,
	} {
		for _, path := range []string{"/api/overview?", "/api/queues?", "/api/vhosts/%2F?", "/api/nodes?"} {
			if w := as(h, "", "GET", path+query, ""); w.Code != status || status == 400 && !strings.Contains(w.Body.String(), "invalid_range_parameters") {
				t.Errorf("%s%s: %d %.200s", path, query, w.Code, w.Body)
			}
		}
	}
}
