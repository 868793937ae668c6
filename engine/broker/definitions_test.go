package broker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// definitionsFile gives the records of a file, framing included, header first.
func definitionsFile(t *testing.T, dir string) (parts [][]byte) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, definitionsName))
	if err != nil {
		t.Fatal(err)
	}
	parts = append(parts, data[:len(definitionsMagic)])
	for data = data[len(definitionsMagic):]; len(data) > 0; {
		_, n := nextRecord(data)
		if n == 0 {
			t.Fatalf("bad record with %d bytes left", len(data))
		}
		parts = append(parts, data[:n])
		data = data[n:]
	}
	return parts
}

func writeDefinitions(t *testing.T, dir string, parts ...[]byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, definitionsName), slices.Concat(parts...), 0o640); err != nil {
		t.Fatal(err)
	}
}

// recorded makes a directory with three records: an exchange, a queue, and a
// binding between them.
func recorded(t *testing.T) (dir string, parts [][]byte) {
	t.Helper()
	dir = t.TempDir()
	e := openDir(t, dir)
	e.exchange(ExchangeDeclare{Name: "orders", Type: "topic", Durable: true})
	e.queue(QueueDeclare{Name: "billing", Durable: true, Arguments: intArgument("x-max-length", 5)}, nil)
	e.bind(Binding{Source: "orders", Queue: "billing", RoutingKey: "order.#"})
	e.close()
	parts = definitionsFile(t, dir)
	if len(parts) != 4 {
		t.Fatalf("%d records", len(parts)-1)
	}
	return dir, parts
}

// TestDefinitions_TornTail cuts the file at every byte of the last record: what
// came before is there, the rest is set aside, and the file goes on from there.
func TestDefinitions_TornTail(t *testing.T) {
	t.Parallel()
	_, parts := recorded(t)
	last := parts[3]
	for cut := range len(last) {
		dir := t.TempDir()
		writeDefinitions(t, dir, parts[0], parts[1], parts[2], last[:cut])
		e := openDir(t, dir)
		want := Recovered{Queues: 1, Exchanges: 1}
		if got := e.broker.Recovered(); got != want {
			t.Fatalf("cut at %d: recovered %+v, want %+v", cut, got, want)
		}
		torn, err := os.ReadFile(filepath.Join(dir, definitionsName+".torn"))
		if cut > 0 && (err != nil || !bytes.Equal(torn, last[:cut])) {
			t.Fatalf("cut at %d: kept %q (%v)", cut, torn, err)
		}
		if logged := strings.Contains(e.log.String(), "torn"); logged != (cut > 0) {
			t.Fatalf("cut at %d: logged %q", cut, e.log)
		}
		e.bind(Binding{Source: "orders", Queue: "billing", RoutingKey: "new"})
		e.close()
		e = openDir(t, dir)
		want.Bindings = 1
		if got := e.broker.Recovered(); got != want {
			t.Fatalf("cut at %d, then appended: recovered %+v, want %+v", cut, got, want)
		}
		e.close()
	}
}

// TestDefinitions_TornTail_Garbage: zeros or leftovers of the block behind the
// last record are no records.
func TestDefinitions_TornTail_Garbage(t *testing.T) {
	t.Parallel()
	_, parts := recorded(t)
	for _, tail := range [][]byte{make([]byte, 1), make([]byte, 4096), bytes.Repeat([]byte{0xff}, 100), append([]byte{1, 0, 0, 0}, make([]byte, 50)...)} {
		dir := t.TempDir()
		writeDefinitions(t, dir, append(slices.Clone(parts), tail)...)
		e := openDir(t, dir)
		if got := e.broker.Recovered(); got.Bindings != 1 {
			t.Errorf("tail %q: recovered %+v", tail[:1], got)
		}
		e.close()
		if n := len(definitionsFile(t, dir)); n != 4 {
			t.Errorf("tail %q: %d records left", tail[:1], n-1)
		}
	}
}

// TestDefinitions_DamagedInTheMiddle flips each byte of the second record: the
// start is refused, and the file is not touched.
func TestDefinitions_DamagedInTheMiddle(t *testing.T) {
	t.Parallel()
	dir, parts := recorded(t)
	for at := range parts[2] {
		damaged := slices.Clone(parts[2])
		damaged[at] ^= 0x10
		writeDefinitions(t, dir, parts[0], parts[1], damaged, parts[3])
		_, err := tryOpenDir(t, dir)
		if err == nil || !strings.Contains(err.Error(), "damaged") || !strings.Contains(err.Error(), "backup") {
			t.Fatalf("byte %d flipped: %v", at, err)
		}
		if got, want := definitionsBytes(t, dir), slices.Concat(parts[0], parts[1], damaged, parts[3]); !bytes.Equal(got, want) {
			t.Fatalf("byte %d flipped: the file was changed", at)
		}
	}
}

func definitionsBytes(t *testing.T, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, definitionsName))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestDefinitions_Refused: files that this version cannot read are left alone.
func TestDefinitions_Refused(t *testing.T) {
	t.Parallel()
	magic := []byte(definitionsMagic)
	rows := []struct {
		name, want string
		parts      [][]byte
	}{
		{"another file", "not a definitions file", [][]byte{[]byte("something else entirely")}},
		{"a later version", "not a definitions file", [][]byte{[]byte("BMQDEFS\x02")}},
		{"shorter than a header, and not the start of one", "not a definitions file", [][]byte{[]byte("BMQ?")}},
		{"unknown record", "unknown kind 99", [][]byte{magic, appendRecord(nil, []byte{99, 1, '/'})}},
		{"unknown exchange type", "unknown type 'nosuch'", [][]byte{magic, appendRecord(nil, append(fields{recExchangeDeclare}.str("/").str("e").str("nosuch"), 0, 0))}},
		{"fields cut short", "malformed", [][]byte{magic, appendRecord(nil, fields{recQueueDeclare}.str("/").str("q"))}},
		{"broken arguments", "malformed", [][]byte{magic, appendRecord(nil, append(append(fields{recQueueDeclare}.str("/").str("q").num(4), 0), 1, 'x'))}},
		{"length beyond the record", "malformed", [][]byte{magic, appendRecord(nil, []byte{recExchangeDelete, 200, '/'})}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeDefinitions(t, dir, row.parts...)
			_, err := tryOpenDir(t, dir)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("error %v, want %q", err, row.want)
			}
			if got := definitionsBytes(t, dir); !bytes.Equal(got, slices.Concat(row.parts...)) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestDefinitions_TornHeader: a crash while the file was made leaves a part of
// its header; nothing had been answered.
func TestDefinitions_TornHeader(t *testing.T) {
	t.Parallel()
	for n := range len(definitionsMagic) {
		dir := t.TempDir()
		writeDefinitions(t, dir, []byte(definitionsMagic[:n]))
		e := openDir(t, dir)
		e.exchange(ExchangeDeclare{Name: "first", Type: "direct", Durable: true})
		e.close()
		e = openDir(t, dir)
		if e.vh.exchanges["first"] == nil {
			t.Errorf("after %d bytes of header: what was declared then is lost", n)
		}
		e.close()
	}
}

// TestDefinitions_RewriteUnderChurn declares and deletes more than the file may
// keep of the dead, from several goroutines.
func TestDefinitions_RewriteUnderChurn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	e.exchange(ExchangeDeclare{Name: "stays", Type: "direct", Durable: true})
	e.queue(QueueDeclare{Name: "stays", Durable: true}, nil)
	var group sync.WaitGroup
	const workers, rounds = 3, rewriteAfter/3 + 200
	for w := range workers {
		group.Go(func() {
			for i := range rounds {
				b := Binding{Source: "stays", Queue: "stays", RoutingKey: fmt.Sprint(w, ".", i)}
				if _, err := e.vh.Bind(b, nil); err != nil {
					t.Error(err)
					return
				}
				if i%100 == 0 {
					continue // some stay
				}
				if _, err := e.vh.Unbind(b, nil); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	full := int64(workers * rounds * 2 * 30) // what it would be without a rewrite, or more
	e.await("the file is short", func() bool {
		info, err := os.Stat(filepath.Join(dir, definitionsName))
		return err == nil && !e.broker.rewriting.Load() && info.Size() < full/2
	})
	// The rewriting goroutine may have been between two looks at it.
	want := dump(e.vh)
	e.close()
	for range 2 { // the second time over a file written by Rewrite alone
		e = openDir(t, dir)
		if got := dump(e.vh); !slices.Equal(got, want) {
			t.Fatalf("%d lines after reopening, want %d", len(got), len(want))
		}
		checkBookkeeping(t, e.vh)
		id := e.queue(QueueDeclare{Name: "next", Durable: true}, nil).ID
		if _, _, err := e.vh.DeleteQueue([]byte("next"), false, false, nil); err != nil {
			t.Fatal(err)
		}
		e.broker.Rewrite()
		e.close()
		e = openDir(t, dir)
		if again := e.queue(QueueDeclare{Name: "next", Durable: true}, nil).ID; again <= id {
			t.Fatalf("log id %d was given out again (%d)", id, again)
		}
		if _, _, err := e.vh.DeleteQueue([]byte("next"), false, false, nil); err != nil {
			t.Fatal(err)
		}
		e.close()
	}
}
