package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestCommandLine(t *testing.T) {
	dir := makeDir(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		line   string // words; $ is the data directory
		status int
		stdout string // part of it
		stderr string
	}{
		{"", 2, "", "no command given (see basaltmqctl help)"},
		{"--help", 0, "store verify DIR", ""},
		{"-h", 0, "Exit status", ""},
		{"help", 0, "store dump DIR QUEUE", ""},
		{"help store", 0, "store verify DIR", ""},
		{"store --help", 0, "store verify DIR", ""},
		{"help store verify", 0, "--strict", ""},
		{"store verify --help", 0, "Exit status: 0 no damage", ""},
		{"store dump $ orders -h", 0, "--body-bytes", ""},
		{"help nonsense", 2, "", `unknown command "nonsense"`},
		{"--version", 0, "basaltmqctl dev go", ""},
		{"nonsense", 2, "", `unknown command "nonsense" (see basaltmqctl help)`},
		{"store", 2, "", `"store" needs one of: verify, dump (see basaltmqctl help store)`},
		{"store nonsense", 2, "", "store has verify, dump"},
		{"store verify", 2, "", "store verify: DIR is missing (see basaltmqctl help store verify)"},
		{"store verify $ more", 2, "", `unexpected argument "more"`},
		{"store verify $ --nonsense", 2, "", "there is no option --nonsense"},
		{"store verify $ --workers 9999", 2, "", "not between 0 and 1024"},
		{"store verify /nowhere/at/all", 2, "", "does not exist: give the directory that the broker got with -D"},
		{"store verify " + file, 2, "", "is not a directory"},
		{"store verify " + filepath.Dir(file), 2, "", "not a data directory"},
		{"store dump /nowhere/at/all q", 2, "", "does not exist: give the directory that the broker got with -D"},
		{"store dump " + file + " q", 2, "", "is not a directory"},
		{"store dump " + filepath.Dir(file) + " q", 2, "", "not a data directory"},
		{"store dump " + filepath.Dir(file) + " log:1", 2, "", "not a data directory"},
		{"store verify $", 0, "result     sound", ""},
		{"store verify $ --json", 0, `"damage":0`, ""},
		{"store verify --strict $", 0, "records    5 (4 unsettled)", ""},
		{"store dump $", 2, "", "QUEUE is missing"},
		{"store dump $ orders --body xml", 2, "", `--body "xml" is none of`},
		{"store dump $ orders --from x", 2, "", "not understood"},
		{"store dump $ orders", 0, "offset 2", "4 messages shown"},
		{"store dump $ empty", 0, "", "0 messages shown"},
		{"store dump $ gone", 2, "", `no durable queue "gone" in vhost "/"; there are "empty", "orders"`},
		{"store dump $ orders --vhost other", 2, "", `no durable queue "orders" in vhost "other"; vhost "/" has one: use --vhost`},
		{"store dump $ nothing --vhost other", 2, "", "there is no durable queue in that vhost"},
		{"store dump $ log:1 --count 1 --body none", 0, "body: 5 bytes\n", "1 messages shown"},
		{"store dump $ log:0x1 --settled", 0, "settled", "5 messages shown"},
		{"store dump $ log:0000000000000001 --from 4", 0, "offset 4", "1 messages shown"},
		{"store dump $ log:99", 2, "", "the log has no directory"},
		{"store dump $ log:x", 2, "", "is not log: and a number"},
		{"store dump $ -- -x", 2, "", `queue "-x"`},
	}
	for _, c := range cases {
		t.Run(c.line, func(t *testing.T) {
			got := ctl(strings.Fields(strings.ReplaceAll(c.line, "$", dir))...)
			if got.status != c.status || !strings.Contains(got.stdout, c.stdout) || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("status %d, want %d\nstdout %q, want %q\nstderr %q, want %q", got.status, c.status, got.stdout, c.stdout, got.stderr, c.stderr)
			}
			if c.status == exitUsage && (got.stdout != "" || strings.Count(got.stderr, "\n") != 1) {
				t.Errorf("an error is one line on stderr: %q %q", got.stdout, got.stderr)
			}
		})
	}
}

// A body cut inside of a character is still text.
func TestBodyForm_CutsAtCharacters(t *testing.T) {
	for _, c := range []struct {
		body  string
		limit uint64
		want  string
	}{
		{"aé", 2, "a"}, {"aé", 3, "aé"}, {"a€b", 3, "a"}, {"a\xFF\xFFb", 3, "a\xFF\xFF"}, {"\xF0\x9F\x98\x80", 2, ""}, {"abc", 0, "abc"},
	} {
		if got := (bodyForm{form: "text", bytesMax: c.limit}).cut([]byte(c.body)); string(got) != c.want {
			t.Errorf("%q cut to %d: %q, want %q", c.body, c.limit, got, c.want)
		}
	}
}

func TestRun_Interrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var stdout, stderr strings.Builder
	if status := run(ctx, []string{"store", "verify", makeDir(t)}, &stdout, &stderr); status != exitUsage || stderr.String() != "basaltmqctl: interrupted\n" {
		t.Errorf("status %d: %s", status, stderr.String())
	}
}

func TestProgressLine(t *testing.T) {
	cases := []struct {
		done, total int64
		elapsed     time.Duration
		want        string
	}{
		{0, 0, 0, "listing files"},
		{0, 100, time.Second, "[........................]   0%  0 B of 100 B"},
		{1 << 30, 4 << 30, 2 * time.Second, "[######..................]  25%  1.0 GiB of 4.0 GiB  537 MB/s  6s left"},
		{2048, 2048, time.Second, "[########################] 100%  2.0 KiB of 2.0 KiB  0 MB/s  0s left"},
	}
	for _, c := range cases {
		if got := progressLine(c.done, c.total, c.elapsed); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
