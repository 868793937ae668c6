package main

import (
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

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
	"github.com/basaltmq/basaltmq/wire/amqp"
)

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
