package gate

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/basaltmq/basaltmq/perf/results"
	"github.com/basaltmq/basaltmq/perf/suite"
)

// environTool takes the size of a process from its environment.
type environTool struct {
	suite.Tool
	order []string
}

// Memory implements suite.Tool.
func (f *environTool) Memory(pid int) (results.Memory, error) {
	var raw []byte
	for len(raw) == 0 { // while the shell becomes something else there is none
		var err error
		if raw, err = os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "environ")); err != nil {
			return results.Memory{}, err
		}
	}
	variables := bytes.Split(raw, []byte{0})
	has := func(front string) bool {
		return slices.ContainsFunc(variables, func(v []byte) bool { return bytes.HasPrefix(v, []byte(front)) })
	}
	name, rss := "default", uint64(12)
	switch {
	case has("BASALTMQ_HTTP_PORT=-1") && has("BASALTMQ_METRICS_PORT=-1"):
		name, rss = "off", 10
	case has("BASALTMQ_TLS_CERT=/"):
		name, rss = "tls", 13
	}
	f.order = append(f.order, name)
	return results.Memory{RSS: rss}, nil
}

// TestAdminCost: three ways to start, in one order and then in the other, and the
// differences to the first.
func TestAdminCost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tool := &environTool{}
	a, err := newAdminCost(tool, dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")); err != nil {
		t.Error(err)
	}
	a.rest = 0
	broker := filepath.Join(dir, "broker")
	script := "#!/bin/sh\necho 'level=INFO msg=\"BasaltMQ is ready\" amqp=127.0.0.1:1' >&2\nexec sleep 60\n"
	if err := os.WriteFile(broker, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		values := map[string]float64{}
		if err := a.measure(t.Context(), &suite.Launcher{Binary: broker, Directory: dir}, values); err != nil {
			t.Fatal(err)
		}
		if values[rssAdmin] != 2 || values[rssAdminTLS] != 3 {
			t.Error(values)
		}
	}
	if want := []string{"off", "default", "tls", "tls", "default", "off"}; !slices.Equal(tool.order, want) {
		t.Errorf("the order is %v", tool.order)
	}
}
