package config

import (
	"reflect"
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	t.Parallel()
	running := good(t, "[tls]\ncert = \"a\"\n", nil).Config
	next := good(t, "disk_free_min = 0\nloops = 3\n[log]\nlevel = \"debug\"\n[tls]\ncert = \"c\"\n[[tls.sni]]\nhost = \"a\"\ncert = \"b\"\n", nil)
	changed, restart := Apply(&running, &next.Config)
	if got := strings.Join(changed, " "); got != "disk_free_min log.level tls.cert tls.sni" {
		t.Errorf("changed %s", got)
	}
	if got := strings.Join(restart, " "); got != "loops" {
		t.Errorf("restart %s", got)
	}
	if running.DiskFreeMin != 0 || running.Log.Level != "debug" || running.Loops != 0 || !reflect.DeepEqual(running.TLS, next.TLS) {
		t.Errorf("%+v", running)
	}
	off := good(t, "loops = 3\n", nil)
	if _, restart := Apply(&running, &off.Config); strings.Join(restart, " ") != "loops tls.cert tls.sni" || running.TLS.Cert != "c" {
		t.Errorf("TLS off: restart %q, %+v", restart, running.TLS)
	}
	running = next.Config
	running.Loops = 0
	// What needs a restart is told again; what was taken over is not.
	if changed, restart = Apply(&running, &next.Config); len(changed) > 0 || len(restart) != 1 {
		t.Errorf("again: %q, %q", changed, restart)
	}
}
