package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
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
		{"store verify $ --nonsense", 2, "", "flag provided but not defined: -nonsense"},
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

func TestStoreVerify_DamageAndLeftovers(t *testing.T) {
	cases := []struct {
		name   string
		change func(t *testing.T, dir string)
		status int
		strict int    // status with --strict
		text   string // regular expression on stdout
	}{
		{"a batch", func(t *testing.T, dir string) { flip(t, segmentOf(t, dir), 120) }, 1, 1,
			`damage +logs/0000000000000001/\d+\.seg at byte \d+, \d+ bytes \(queue "orders" in vhost "/"\): `},
		{"the settled file", func(t *testing.T, dir string) { flip(t, filepath.Join(filepath.Dir(segmentOf(t, dir)), "settled"), 40) }, 1, 1,
			`damage +logs/0000000000000001/settled at byte 32`},
		{"the definitions", func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "definitions"), 27) }, 1, 1,
			`damage +definitions at byte 19, \d+ bytes: bad bytes: the broker refuses to start`},
		{"definitions cut short", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "definitions"), 30); err != nil {
				t.Fatal(err)
			}
		}, 1, 1, `damage +definitions at byte \d+`},
		{"definitions gone", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "definitions")); err != nil {
				t.Fatal(err)
			}
		}, 1, 1, `damage +definitions: the file is missing`},
		{"a rewrite cut short", func(t *testing.T, dir string) { touch(t, dir, "logs/0000000000000001/settled.tmp") }, 0, 1,
			`unfinished +logs/0000000000000001/settled.tmp`},
		{"unfinished after a clean stop", func(t *testing.T, dir string) {
			touch(t, dir, "logs/0000000000000001/settled.tmp")
			touch(t, dir, "clean-stop")
		}, 1, 1, `stopped +in good order`},
		{"logs is a file", misplace("logs", false), 1, 1, `damage +logs: not a directory: the broker does not start`},
		{"journal is a file", misplace("journal", false), 1, 1, `damage +journal: not a directory: the broker does not start`},
		{"bodies is a file", misplace("bodies", false), 1, 1, `damage +bodies: not a directory: the broker does not start`},
		{"a file of the journal is a directory", misplace("journal/0", true), 1, 1, `damage +journal/0: not a file`},
		{"the lock file is a directory", misplace(".lock", true), 1, 1, `damage +\.lock: a directory where a file should be`},
		{"logs is a link that leads nowhere", func(t *testing.T, dir string) {
			if err := errors.Join(os.RemoveAll(filepath.Join(dir, "logs")), os.Symlink("nowhere", filepath.Join(dir, "logs"))); err != nil {
				t.Fatal(err)
			}
		}, 1, 1, `damage +logs: a link that leads nowhere`},
		{"a log of no queue", func(t *testing.T, dir string) { touch(t, dir, "logs/0000000000000077/settled.quarantine") }, 0, 0,
			`note +logs/0000000000000077: belongs to no durable queue`},
		{"a name that plays with the terminal", func(t *testing.T, dir string) { touch(t, dir, "x\x1b[2J") }, 0, 0, `note +"x\\x1b\[2J": not a name`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			dir := makeDir(t)
			c.change(t, dir)
			before := snapshot(t, dir)
			got := ctl("store", "verify", dir)
			if got.status != c.status || !regexp.MustCompile(c.text).MatchString(got.stdout) {
				t.Errorf("status %d, want %d\n%s%s", got.status, c.status, got.stdout, got.stderr)
			}
			if got := ctl("store", "verify", "--strict", dir); got.status != c.strict {
				t.Errorf("--strict: status %d, want %d", got.status, c.strict)
			}
			var report struct {
				Damage, Unfinished int
				Findings           []struct{ Level, File, Text string }
			}
			asJSON := ctl("store", "verify", "--json", dir)
			if err := json.Unmarshal([]byte(asJSON.stdout), &report); err != nil || asJSON.status != c.status || len(report.Findings) == 0 {
				t.Errorf("--json: %v, status %d: %s", err, asJSON.status, asJSON.stdout)
			}
			ctl("store", "dump", dir, "log:1")
			if after := snapshot(t, dir); after != before {
				t.Errorf("something was written:\n%s\nbefore\n%s", after, before)
			}
		})
	}
}

// An operator may put parts of the directory elsewhere; the broker follows.
func TestStoreVerify_FollowsLinks(t *testing.T) {
	dir, elsewhere := makeDir(t), t.TempDir()
	for _, name := range []string{"logs", "journal/0", "journal"} {
		to := filepath.Join(elsewhere, filepath.Base(name))
		if err := errors.Join(os.Rename(filepath.Join(dir, name), to), os.Symlink(to, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	got := ctl("store", "verify", dir)
	if got.status != 0 || !strings.Contains(got.stdout, "records    5 (4 unsettled)") || !strings.HasSuffix(got.stdout, "result     sound\n") {
		t.Errorf("%+v", got)
	}
	flip(t, segmentOf(t, dir), 120)
	if got := ctl("store", "verify", dir); got.status != exitProblems {
		t.Errorf("what is behind a link was not checked: %+v", got)
	}
}

// Each byte of the definitions is covered.
func TestReadDefinitions_EveryFlipIsFound(t *testing.T) {
	dir := makeDir(t)
	path := filepath.Join(dir, "definitions")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for pos := range int(info.Size()) {
		flip(t, path, pos)
		defs, err := d.readDefinitions()
		if err != nil || len(defs.findings) == 0 || defs.findings[0].File != "definitions" {
			t.Errorf("byte %d: %v, %+v", pos, err, defs)
		}
		flip(t, path, pos)
	}
	if defs, err := d.readDefinitions(); err != nil || len(defs.findings) > 0 {
		t.Errorf("sound again: %v %+v", err, defs)
	}
}

// misplace puts a directory where a file should be, or the other way round.
func misplace(name string, directory bool) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		path := filepath.Join(dir, name)
		err := os.RemoveAll(path)
		if err == nil && directory {
			err = os.Mkdir(path, 0o750)
		} else if err == nil {
			err = os.WriteFile(path, []byte("x"), 0o640)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func touch(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
}

// snapshot is a line for each name in dir: size, mode and time of change.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil {
			fmt.Fprintln(&out, name, info.Size(), info.Mode(), info.ModTime().UnixNano())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestStoreVerify_UnreadableFile(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything; package inspect tests this with a file system that refuses")
	}
	dir := makeDir(t)
	if err := os.Chmod(segmentOf(t, dir), 0); err != nil {
		t.Fatal(err)
	}
	if got := ctl("store", "verify", dir); got.status != exitUsage || !strings.Contains(got.stderr, "run as the broker's user") {
		t.Errorf("%+v", got)
	}
	log := filepath.Dir(segmentOf(t, dir))
	if err := os.Chmod(log, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700); os.Chmod(log, 0o700) }) // so that they can be removed
	if got := ctl("store", "dump", dir, "orders"); got.status != exitProblems || !strings.Contains(got.stderr, "unreadable  logs/") {
		t.Errorf("%+v", got)
	}
	if err := os.Chmod(dir, 0); err != nil {
		t.Fatal(err)
	}
	for _, line := range [][]string{{"store", "verify", dir}, {"store", "dump", dir, "orders"}} {
		if got := ctl(line...); got.status != exitUsage || !strings.Contains(got.stderr, "permission denied: run as the broker's user or as root") {
			t.Errorf("%+v", got)
		}
	}
}

func TestStoreDump_Golden(t *testing.T) {
	dir := makeDir(t)
	for name, options := range map[string][]string{
		"dump.txt":        {"--settled"},
		"dump-hex.txt":    {"--body", "hex", "--body-bytes", "4"},
		"dump-base64.txt": {"--body", "base64", "--body-bytes", "7"},
		"dump.json":       {"--settled", "--json"},
		"dump-whole.json": {"--json", "--body-bytes", "0", "--from", "3"},
	} {
		got := ctl(append([]string{"store", "dump", dir, "orders"}, options...)...)
		if got.status != 0 {
			t.Errorf("%v: %+v", options, got)
		}
		golden(t, name, got.stdout)
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

func TestStoreDump_ReportsDamage(t *testing.T) {
	dir := makeDir(t)
	flip(t, segmentOf(t, dir), 100)
	got := ctl("store", "dump", dir, "orders")
	if got.status != exitProblems || !strings.Contains(got.stderr, "damage") || !strings.Contains(got.stdout, "offset 2") {
		t.Errorf("%+v", got)
	}
}

// A real broker's directory: refused while it runs, sound after it stopped,
// and the broker cannot start while a tool reads.
func TestStore_RealBroker(t *testing.T) {
	dir := t.TempDir()
	config := engine.Config{DataDir: dir, Bind: netip.MustParseAddr("127.0.0.1"), IO: "posix", Loops: 1}
	e, err := engine.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	amqptest.Ask[*amqp.QueueDeclareOk](c, 1, &amqp.QueueDeclare{Queue: []byte("q"), Durable: true})
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 1, &amqp.ConfirmSelect{})
	for _, body := range []string{"one", "two"} {
		c.Write(amqptest.AppendPublish(nil, 1, amqptest.Message{Key: "q", Body: body, Persistent: true}))
		amqptest.Expect[*amqp.BasicAck](c)
	}
	for _, line := range [][]string{{"store", "verify", dir}, {"store", "dump", dir, "q"}} {
		got := ctl(line...)
		if got.status != exitUsage || !strings.Contains(got.stderr, "in use by a running broker: stop it first") {
			t.Errorf("while it runs: %+v", got)
		}
	}
	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := ctl("store", "verify", dir); got.status != exitOK || !strings.Contains(got.stdout, "records    2 (2 unsettled)") {
		t.Errorf("after it stopped: %+v", got)
	}
	got := ctl("store", "dump", dir, "q", "--json")
	if strings.Count(got.stdout, "\n") != 2 || !strings.Contains(got.stdout, `"properties":{"delivery_mode":2}`) || !strings.Contains(got.stdout, `"body":"two"`) {
		t.Errorf("dump: %+v", got)
	}
	d, err := openDataDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	if got := ctl("store", "verify", dir); got.status != exitOK {
		t.Errorf("two tools at once: %+v", got)
	}
	if e, err := engine.Start(config); err == nil {
		t.Error("a broker started while a tool reads")
		_ = e.Stop()
	}
}

// What an exchange keeps is a log that belongs to it, not to nobody.
func TestStoreVerify_LogOfAnExchange(t *testing.T) {
	dir := t.TempDir()
	e, err := engine.Start(engine.Config{DataDir: dir, Bind: netip.MustParseAddr("127.0.0.1"), IO: "posix", Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := amqptest.OpenClient(t, e.Addr(), amqptest.Options{})
	for _, name := range []string{"kept", "deleted"} {
		amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare(name, "x-recent-history", amqptest.Durable, nil))
		var arguments amqp.TableBuilder
		arguments.SetBool("x-message-deduplication", true)
		amqptest.Ask[*amqp.ExchangeDeclareOk](c, 1, c.ExchangeDeclare(name+" values", "direct", amqptest.Durable, arguments.Table()))
	}
	amqptest.Ask[*amqp.ConfirmSelectOk](c, 1, &amqp.ConfirmSelect{})
	c.Write(amqptest.AppendPublish(nil, 1, amqptest.Message{Exchange: "kept", Body: "one", Persistent: true}))
	amqptest.Expect[*amqp.BasicAck](c)
	for _, name := range []string{"deleted", "deleted values"} {
		amqptest.Ask[*amqp.ExchangeDeleteOk](c, 1, &amqp.ExchangeDelete{Exchange: []byte(name)})
	}
	c.Abort()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := ctl("store", "verify", dir); got.status != exitOK || !strings.Contains(got.stdout, "records    1 (1 unsettled)") || strings.Contains(got.stdout, "belongs to no") {
		t.Errorf("%+v", got)
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
