package main

import (
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/admin"
)

// TestControl_Unreachable: what is wrong, and what to do.
func TestControl_Unreachable(t *testing.T) {
	dir := t.TempDir()
	for want, arguments := range map[string][]string{
		"which broker? Give its data directory": {"status"},
		"no broker is running":                  {"status", "-D", dir},
		"nobody answers":                        {"status", "--socket", filepath.Join(dir, "stale")},
		"unexpected argument \"x\"":             {"status", "x", "-D", dir},
	} {
		if want == "nobody answers" {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "stale"), Net: "unix"})
			if err != nil {
				t.Fatal(err)
			}
			l.SetUnlinkOnClose(false)
			l.Close()
		}
		if got := ctl(arguments...); got.status != exitUsage || !strings.Contains(got.stderr, want) || strings.Count(got.stderr, "\n") != 1 {
			t.Errorf("%q: %+v, want %q", arguments, got, want)
		}
	}
}

// TestControl_Socket: it is for the broker's user alone, one that a killed
// broker left is replaced, and the store tools do not mind it.
func TestControl_Socket(t *testing.T) {
	e, dir := running(t)
	_ = e
	socket := filepath.Join(dir, admin.SocketName)
	info, err := os.Lstat(socket)
	if err != nil || info.Mode().Perm() != 0o600 || info.Mode().Type() != fs.ModeSocket {
		t.Fatalf("%v, %v", info, err)
	}
	left := t.TempDir()
	for _, name := range []string{admin.SocketName, admin.SocketName + ".new"} {
		if err := os.WriteFile(filepath.Join(left, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	second, err := engine.Start(engine.Config{DataDir: left, Bind: netip.MustParseAddr("127.0.0.1"), IO: "posix", Loops: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := ctl("status", "-D", left); got.status != 0 {
		t.Errorf("%+v", got)
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(left, admin.SocketName), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if got := ctl("store", "verify", left); got.status != 0 || strings.Contains(got.stdout, "not a name of the broker") {
		t.Errorf("%+v", got)
	}
}
