package metrics

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

var sample = regexp.MustCompile(`^p_name\{l="((?:[^"\\\n]|\\\\|\\"|\\n)*)"\} 7\n$`)

// FuzzLabel: whatever a label's value is, the line has one shape, is UTF-8, and
// the value comes back from it.
func FuzzLabel(f *testing.F) {
	for _, s := range []string{"", "a", `"`, `\`, "\n", "\xff\xfe", `\n`, "é\u2028", "a{b=\"c\"} 1\n# EOF"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, value string) {
		var out bytes.Buffer
		if err := write(&out, "p", false, func(p *page) {
			p.name = "p_name"
			p.uint(7, "l", value)
		}); err != nil {
			t.Fatal(err)
		}
		m := sample.FindStringSubmatch(out.String())
		if m == nil || !utf8.ValidString(out.String()) {
			t.Fatalf("%q", out.String())
		}
		back := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(m[1])
		if want := string([]rune(value)); back != want {
			t.Fatalf("%q came back as %q", want, back)
		}
	})
}

// FuzzAccept: OpenMetrics goes to nobody who did not name it.
func FuzzAccept(f *testing.F) {
	f.Add("application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.4")
	f.Add("application/openmetrics-text;q=")
	f.Fuzz(func(t *testing.T, accept string) {
		if acceptsOpenMetrics(accept) && !strings.Contains(accept, "application/openmetrics-text") {
			t.Fatalf("%q", accept)
		}
	})
}
