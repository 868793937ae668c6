package definitions

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/basaltmq/basaltmq/engine/broker"
	"github.com/basaltmq/basaltmq/segstore"
	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
)

// node is a broker without sockets on a directory.
type node struct {
	*broker.Broker
	store     *segstore.Store
	disk      disk.Disk
	committed chan struct{}
}

// open starts a broker on dir; it is stopped when the test ends, if it was not.
func open(t testing.TB, dir string) *node {
	t.Helper()
	n := openFor(t, dir)
	t.Cleanup(n.stop)
	return n
}

// openFor starts a broker that the caller stops.
func openFor(t testing.TB, dir string) *node {
	t.Helper()
	if err := os.MkdirAll(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	posix, err := disk.OpenPosix(dir)
	if err != nil {
		t.Fatal(err)
	}
	return openDisk(t, posix)
}

// openDisk starts a broker that the caller stops, on any disk.
func openDisk(t failer, d disk.Disk) *node {
	t.Helper()
	var err error
	n := &node{disk: d, committed: make(chan struct{}, 1)}
	var journaled []broker.MetaRecord
	n.store, err = segstore.Open(segstore.Options{
		Disk: d, Arena: new(arena.Pool),
		OnCommit: func() {
			select {
			case n.committed <- struct{}{}:
			default:
			}
		},
		OnMeta: func(seq uint64, rec []byte) error {
			journaled = append(journaled, broker.MetaRecord{Seq: seq, Data: bytes.Clone(rec)})
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Broker, err = broker.Open(broker.Options{Store: n.store, Disk: d, Logger: slog.New(slog.DiscardHandler), Journaled: journaled})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) stop() {
	if n.store != nil {
		n.Broker.Close()
		_ = n.store.Close()
		_ = n.disk.Close()
		n.store = nil
	}
}

// await waits until a record is durable.
func (n *node) await(seq uint64) {
	for n.Definitions().Durable() < seq {
		<-n.committed
	}
}

// copyDir makes a copy of a running broker's directory, as a crash leaves it.
func copyDir(t testing.TB, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// failer is what *testing.T and *rapid.T have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
}

func export(t failer, b *broker.Broker, vhost string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Export(&out, b, vhost, "test"); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func mustImport(t testing.TB, n *node, data, vhost string) Report {
	t.Helper()
	r, err := Import(n.Broker, []byte(data), vhost)
	if err != nil {
		t.Fatal(err)
	}
	n.await(r.Seq)
	return r
}

func readFile(t testing.TB, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
