package bodies

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/segstore/arena"
	"github.com/basaltmq/basaltmq/segstore/disk"
	"github.com/basaltmq/basaltmq/segstore/disk/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixture is a store over some disk.
type fixture struct {
	t     testing.TB
	disk  disk.Disk
	pool  *arena.Pool
	store *Store
	flow  *Flow
}

func open(t testing.TB, d disk.Disk) *fixture {
	t.Helper()
	f := &fixture{t: t, disk: d, pool: new(arena.Pool)}
	var err error
	if f.store, err = Open(Options{Disk: d, Arena: f.pool, FirstID: 100}); err != nil {
		t.Fatal(err)
	}
	f.flow = f.store.NewFlow(func() {})
	return f
}

func openSim(t testing.TB, o sim.Options) (*fixture, *sim.Disk) {
	d := sim.New(o)
	f := open(t, d)
	t.Cleanup(func() { f.close() })
	return f, d
}

// close also checks that no buffer is left behind.
func (f *fixture) close() {
	_ = f.store.Close()
	_ = f.disk.Close() // a crashed one refuses
	if n := f.pool.Stats().InUse; n != 0 {
		f.t.Errorf("%d bytes of buffers are left", n)
	}
	if n := f.store.writing.Load() + f.store.reading.Load(); n != 0 {
		f.t.Errorf("%d bytes are still accounted for", n)
	}
}

// disks are what the tests of plain behaviour run on.
func eachDisk(t *testing.T, test func(t *testing.T, d disk.Disk)) {
	for _, kind := range []string{"posix", "uring"} {
		t.Run(kind, func(t *testing.T) {
			d, _, err := disk.Open(kind, t.TempDir())
			if err != nil {
				t.Skip(err)
			}
			test(t, d)
		})
	}
	t.Run("sim", func(t *testing.T) { test(t, sim.New(sim.Options{Seed: 1, Order: sim.Shuffled})) })
}

func body(size int) []byte {
	random := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	b := make([]byte, size)
	_, _ = random.Read(b)
	return b
}

// spool writes data in pieces.
func (f *fixture) spool(data []byte, piece int) *Incoming {
	in := f.store.Create(f.flow)
	for len(data) > 0 {
		buf := f.pool.Get(min(piece, len(data)))
		n := copy(buf.Bytes(), data[:min(piece, len(data))])
		in.Write(buf, n)
		data = data[n:]
	}
	return in
}

// finish waits for Finish.
func finish(in *Incoming, sync bool, dirs ...Dir) error {
	done := make(chan error, 1)
	in.Finish(dirs, sync, func(err error) { done <- err })
	return <-done
}

// put keeps a body in dirs.
func (f *fixture) put(data []byte, sync bool, dirs ...Dir) Ref {
	f.t.Helper()
	in := f.spool(data, 100_000)
	if err := finish(in, sync, dirs...); err != nil {
		f.t.Fatal(err)
	}
	in.Keep()
	f.store.Drain()
	return in.Ref()
}

// get reads a body back.
func (f *fixture) get(dir Dir, ref Ref) ([]byte, error) {
	woken := make(chan struct{}, 1)
	o := f.store.Open(dir, ref, func() { woken <- struct{}{} })
	<-woken
	if ok, err := o.Opened(); !ok || err != nil {
		o.Close()
		return nil, err
	}
	return readAll(o)
}

// readAll reads and closes.
func readAll(o *Outgoing) ([]byte, error) {
	defer o.Close()
	notified := make(chan struct{}, 1)
	o.Start(4088, func() { notified <- struct{}{} })
	var all []byte
	for uint64(len(all)) < o.Size() {
		piece, err := o.Next()
		if err != nil {
			return all, err
		}
		if piece == nil {
			<-notified
		}
		all = append(all, piece...)
	}
	return all, nil
}

func (f *fixture) want(dir Dir, ref Ref, data []byte) {
	f.t.Helper()
	got, err := f.get(dir, ref)
	if err != nil || !bytes.Equal(got, data) {
		f.t.Fatalf("%s: %d bytes, %v", dir.name(ref.ID), len(got), err)
	}
}

// files lists what there is below the directories of the package.
func files(d *sim.Disk) (names []string) {
	for _, name := range d.Files() {
		for _, dir := range []string{SpoolDir, DurableDir, TransientDir} {
			if strings.HasPrefix(name, dir+"/") {
				names = append(names, name)
			}
		}
	}
	return names
}
