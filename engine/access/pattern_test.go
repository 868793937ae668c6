package access

import (
	"strings"
	"testing"
)

// TestPattern_Work: patterns that event loops would match for milliseconds are
// refused, wherever they come from; long lists of names are not.
func TestPattern_Work(t *testing.T) {
	names := make([]string, 300)
	for i := range names {
		names[i] = "service-" + strings.Repeat("x", i%5)
	}
	r := NewRegistry()
	if err := r.Add(Spec{Name: "joe"}); err != nil {
		t.Fatal(err)
	}
	for source, ok := range map[string]bool{
		"^(" + strings.Join(names, "|") + ")$": true, `^[a-z]{1,64}\.(jobs|events)\.[0-9]{1,20}$`: true, "a{1000}": true, ".*.*.*.*": true,
		"(x?){1000}": false, strings.Repeat("(a|b){1000}", 50): false, "((a?){30}){30}": false, strings.Repeat("a{500}", 9): false, "(x+x+){500}y": false,
	} {
		_, err := CompilePattern(source)
		if (err == nil) != ok {
			t.Errorf("%.40q: %v", source, err)
		}
		for i, p := range []Permissions{{Configure: source}, {Write: source}, {Read: source}} {
			if err := r.SetPermissions("joe", "/", p); (err == nil) != ok {
				t.Errorf("%.40q, permission %d: %v", source, i, err)
			}
		}
		for i, p := range []TopicPermissions{{Write: source, Read: ".*"}, {Write: ".*", Read: source}, {Write: source + "{username}", Read: ".*"}} {
			if err := r.SetTopicPermissions("joe", "/", "amq.topic", p); (err == nil) != ok {
				t.Errorf("%.40q, topic permission %d: %v", source, i, err)
			}
		}
	}
}
