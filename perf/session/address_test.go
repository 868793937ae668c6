package session

import "testing"

func TestParseURI(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][4]string{
		"amqp://":                        {"127.0.0.1:5672", "guest", "guest", "/"},
		"amqp://host":                    {"host:5672", "guest", "guest", "/"},
		"amqp://a:b%40@host:1/v":         {"host:1", "a", "b@", "v"},
		"amqp://a:b@[::1]:5/%2F":         {"[::1]:5", "a", "b", "/"},
		"amqp://a:b@127.0.0.1/my%2Fhost": {"127.0.0.1:5672", "a", "b", "my/host"},
	} {
		got, err := ParseURI(text)
		if err != nil || [4]string{got.HostPort, got.user, got.password, got.virtualHost} != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
}
