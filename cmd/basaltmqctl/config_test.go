package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine/config"
)

func TestConfigCheck(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "basaltmq.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("[amqp]\nport = 5673\n")
	if got := ctl("config", "check", file); got != (result{0, file + ": good\n", ""}) {
		t.Errorf("%+v", got)
	}
	write("[amqp]\nprot = 5673\nbind = 7\n")
	if got := ctl("config", "check", file); got.status != 1 || got.stderr != "" || strings.Count(got.stdout, "\n") != 2 || !strings.Contains(got.stdout, file+":2: unknown key amqp.prot: did you mean amqp.port?\n") {
		t.Errorf("%+v", got)
	}
	if got := ctl("config", "check", file+"x"); got.status != 2 || !strings.Contains(got.stderr, "no such file") {
		t.Errorf("%+v", got)
	}
}

func TestConfigConvert(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, row := range []struct {
		name, text, stdout, stderr string
		status                     int
	}{
		{"lavinmq.ini", "[main]\nlog_level = debug\nstats_interval = 5000\n", "level = \"debug\"\n", "not needed: line 3", 0},
		{"rabbitmq.conf", "listeners.tcp.default = 5673\nmqtt.vhost = /\n", "[amqp]\nport = 5673\n", "NOT TRANSLATED: line 2: mqtt.vhost = /: MQTT is not spoken", 1},
		{"rabbitmq.config", "[{rabbit, []}].\n", "", "--from", 2},
	} {
		file := filepath.Join(dir, row.name)
		if err := os.WriteFile(file, []byte(row.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := ctl("config", "convert", file)
		if row.name == "rabbitmq.config" {
			if got.status != 2 || !strings.Contains(got.stderr, "cannot be translated") && !strings.Contains(got.stderr, "taken for") {
				t.Errorf("%s: %+v", row.name, got)
			}
			continue
		}
		if got.status != row.status || !strings.Contains(got.stdout, row.stdout) || !strings.Contains(got.stderr, row.stderr) {
			t.Errorf("%s: %+v", row.name, got)
		}
		if _, err := config.CheckText("stdout", got.stdout); err != nil {
			t.Errorf("%s: %v", row.name, err)
		}
		out := filepath.Join(dir, row.name+".toml")
		if again := ctl("config", "convert", file, "-o", out, "--quiet"); again.status != row.status || again.stdout != "" || strings.Contains(again.stderr, "not needed") {
			t.Errorf("%s: %+v", row.name, again)
		}
		if data, err := os.ReadFile(out); err != nil || string(data) != got.stdout {
			t.Errorf("%s: wrote %q, %v", row.name, data, err)
		}
		if again := ctl("config", "convert", file, "-o", out); again.status != 2 || !strings.Contains(again.stderr, "exists") {
			t.Errorf("%s: wrote over a file: %+v", row.name, again)
		}
	}
	if got := ctl("config", "convert", "--from", "activemq", filepath.Join(dir, "lavinmq.ini")); got.status != 2 || !strings.Contains(got.stderr, "neither lavinmq nor rabbitmq") {
		t.Errorf("%+v", got)
	}
}
