package broker

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/basaltmq/basaltmq/segstore/journal"
)

// snapshotFile is a definitions file that includes everything up to seq.
func snapshotFile(seq uint64, records ...[]byte) []byte {
	data := appendRecord([]byte(definitionsMagic), fields{recSnapshot}.num(seq).num(uint64(len(records)+1)))
	for _, rec := range records {
		data = appendRecord(data, rec)
	}
	return data
}

// definitionsFile gives the parts of a file, framing included: the magic, the
// snapshot's own record, the records.
func definitionsFile(t *testing.T, dir string) (parts [][]byte) {
	t.Helper()
	data := definitionsBytes(t, dir)
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

func definitionsBytes(t *testing.T, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, definitionsName))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func writeDefinitions(t *testing.T, dir string, data []byte) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, definitionsName), data, 0o640); err != nil {
		t.Fatal(err)
	}
}

// declareSome makes an exchange, a queue, and a binding between them.
func declareSome(e *env) {
	e.t.Helper()
	e.exchange(ExchangeDeclare{Name: "orders", Type: "topic", Durable: true})
	e.queue(QueueDeclare{Name: "billing", Durable: true, Arguments: intArgument("x-max-length", 5)}, nil)
	e.bind(Binding{Source: "orders", Queue: "billing", RoutingKey: "order.#"})
}

var recoveredSome = Recovered{Queues: 1, Exchanges: 1, Bindings: 1}

// recorded makes a directory whose snapshot has those three.
func recorded(t *testing.T) (dir string, parts [][]byte) {
	t.Helper()
	dir = t.TempDir()
	e := openDir(t, dir)
	declareSome(e)
	e.close()
	parts = definitionsFile(t, dir)
	if len(parts) != 6 { // magic, snapshot, next log id, and the three
		t.Fatalf("%d parts", len(parts))
	}
	return dir, parts
}

// TestDefinitions_JournalOnly: state 1 of Definitions.
func TestDefinitions_JournalOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	declareSome(e)
	e.durable(e.broker.defs.Last())
	want := dump(e.vh)
	e.crash()
	if _, err := os.Stat(filepath.Join(dir, definitionsName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a snapshot that nobody asked for: %v", err)
	}
	for life := range 3 { // a kill changes nothing, however often
		e = openDir(t, dir)
		if got := e.broker.Recovered(); got != recoveredSome {
			t.Fatalf("life %d: recovered %+v", life, got)
		}
		if got := dump(e.vh); !slices.Equal(got, want) {
			t.Fatalf("life %d: %q, want %q", life, got, want)
		}
		if got := len(e.journaled); got != 3 {
			t.Fatalf("life %d: %d records in the journal", life, got)
		}
		e.crash()
	}
}

// TestDefinitions_JournalAndSnapshot: state 2 of Definitions. What comes after
// the snapshot builds on what is in it.
func TestDefinitions_JournalAndSnapshot(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := openDir(t, dir)
	declareSome(e)
	if err := e.broker.checkpoint(); err != nil {
		t.Fatal(err)
	}
	saved := e.broker.defs.saved
	e.exchange(ExchangeDeclare{Name: "later", Type: "fanout", Durable: true})
	e.bind(Binding{Source: "later", Exchange: "orders", ToExchange: true})
	last := e.broker.defs.Last()
	e.durable(last)
	want := dump(e.vh)
	e.crash()
	e = openDir(t, dir)
	defer e.close()
	if got := dump(e.vh); !slices.Equal(got, want) || len(e.journaled) != 5 {
		t.Errorf("%q with %d records in the journal, want %q and 5", got, len(e.journaled), want)
	}
	if d := e.broker.defs; d.saved != saved || d.Last() != last || d.Durable() != last || d.pendingSeq() != 0 {
		t.Errorf("saved %d, last %d, durable %d, pending %d; want %d, %d", d.saved, d.Last(), d.Durable(), d.pendingSeq(), saved, last)
	}
}

// TestDefinitions_SkippedByNumber: records that a snapshot includes are not even
// looked at; those after it are applied in order.
func TestDefinitions_SkippedByNumber(t *testing.T) {
	t.Parallel()
	malformed := []byte{recExchangeDelete, 200, '/'}
	rows := []struct {
		name    string
		file    []byte
		records []MetaRecord
		applied string
		seq     uint64
		err     string
	}{
		{name: "nothing"},
		{name: "a snapshot of nothing", file: snapshotFile(7), seq: 7},
		{name: "no snapshot", records: []MetaRecord{{1, []byte("a")}, {2, []byte("b")}}, applied: "ab", seq: 2},
		{name: "older ones", file: snapshotFile(7, []byte("s")), records: []MetaRecord{{5, []byte("a")}, {7, malformed}, {8, []byte("b")}}, applied: "sb", seq: 8},
		{name: "all older", file: snapshotFile(7, []byte("s")), records: []MetaRecord{{6, []byte("a")}, {7, nil}}, applied: "s", seq: 7},
		{name: "twice, as two files of the journal have it", records: []MetaRecord{{1, []byte("a")}, {2, []byte("b")}, {1, []byte("a")}, {2, []byte("b")}, {3, []byte("c")}}, applied: "abc", seq: 3},
		{name: "empty", records: []MetaRecord{{1, nil}}, err: "malformed"},
		{name: "refused", records: []MetaRecord{{1, []byte("!")}}, err: "record 1 of the journal: no"},
		{name: "a gap behind the snapshot", file: snapshotFile(7), records: []MetaRecord{{9, []byte("a")}}, err: "records 8 to 8 are missing"},
		{name: "a gap in the journal", records: []MetaRecord{{1, []byte("a")}, {4, []byte("b")}}, err: "records 2 to 3 are missing"},
		{name: "refused in the snapshot", file: snapshotFile(7, []byte("!")), err: definitionsName + " at byte 19: no"},
	}
	for _, row := range rows {
		d := &memoryDisk{files: map[string][]byte{}}
		if row.file != nil {
			d.files[definitionsName] = row.file
		}
		applied := ""
		f, err := loadDefinitions(d, nil, row.records, func(rec []byte) error {
			if rec[0] == '!' {
				return errors.New("no")
			}
			applied += string(rec)
			return nil
		})
		switch {
		case row.err != "":
			if err == nil || !strings.Contains(err.Error(), row.err) {
				t.Errorf("%s: %v, want %q", row.name, err, row.err)
			}
		case err != nil || applied != row.applied || f.Last() != row.seq || f.base != row.seq:
			t.Errorf("%s: applied %q up to %d (%v), want %q and %d", row.name, applied, f.Last(), err, row.applied, row.seq)
		}
	}
}

// TestDefinitions_DamagedAnywhere flips a bit of each byte of the snapshot, and
// cuts it at each: the start is refused, and the file is not touched.
func TestDefinitions_DamagedAnywhere(t *testing.T) {
	t.Parallel()
	dir, _ := recorded(t)
	sound := definitionsBytes(t, dir)
	refused := func(what string, at int, data []byte) {
		t.Helper()
		writeDefinitions(t, dir, data)
		want := "damaged"
		if !bytes.HasPrefix(data, []byte(definitionsMagic)) {
			want = "not a definitions file"
		}
		e, err := tryOpenDir(t, dir)
		if err == nil {
			e.crash()
			t.Fatalf("%s at byte %d: no error", what, at)
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "backup") {
			t.Fatalf("%s at byte %d: %v", what, at, err)
		}
		if !bytes.Equal(definitionsBytes(t, dir), data) {
			t.Fatalf("%s at byte %d: the file was changed", what, at)
		}
	}
	for at := range sound {
		flipped := slices.Clone(sound)
		flipped[at] ^= 0x10
		refused("flipped", at, flipped)
		refused("cut", at, sound[:at])
	}
	for _, tail := range [][]byte{make([]byte, 1), make([]byte, 4096), bytes.Repeat([]byte{0xff}, 100), appendRecord(nil, []byte{recExchangeDelete, 1, '/', 1, 'e'})} {
		refused("more", len(sound), append(slices.Clone(sound), tail...))
	}
	writeDefinitions(t, dir, sound) // restored from a backup
	e := openDir(t, dir)
	defer e.close()
	if got := e.broker.Recovered(); got != recoveredSome {
		t.Errorf("recovered %+v", got)
	}
}

// unreadableRecords are records that this version cannot apply.
var unreadableRecords = []struct {
	name, want string
	record     []byte
}{
	{"unknown record", "unknown kind 99", []byte{99, 1, '/'}},
	{"unknown exchange type", "unknown type 'nosuch'", append(fields{recExchangeDeclare}.str("/").str("e").str("nosuch"), 0, 0)},
	{"fields cut short", "malformed", fields{recQueueDeclare}.str("/").str("q")},
	{"broken arguments", "malformed", append(append(fields{recQueueDeclare}.str("/").str("q").num(4), 0), 1, 'x')},
	{"length beyond the record", "malformed", []byte{recExchangeDelete, 200, '/'}},
}

// TestDefinitions_Refused: files that this version cannot read are left alone.
func TestDefinitions_Refused(t *testing.T) {
	t.Parallel()
	type row struct {
		name, want string
		data       []byte
	}
	rows := []row{
		{"empty", "not a definitions file", []byte{}},
		{"another file", "not a definitions file", []byte("something else entirely")},
		{"a later version", "not a definitions file", []byte("BMQDEFS\x02")},
		{"only a header", "damaged", []byte(definitionsMagic)},
		{"without the snapshot's record", "damaged", appendRecord([]byte(definitionsMagic), fields{recNextLogID}.num(1))},
		{"snapshot's record cut short", "damaged", appendRecord([]byte(definitionsMagic), []byte{recSnapshot, 1})},
		{"a second snapshot's record", "unknown kind 8", snapshotFile(1, fields{recSnapshot}.num(1).num(2))},
	}
	for _, r := range unreadableRecords {
		rows = append(rows, row{r.name, r.want, snapshotFile(1, r.record)})
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			writeDefinitions(t, dir, row.data)
			_, err := tryOpenDir(t, dir)
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Fatalf("error %v, want %q", err, row.want)
			}
			if got := definitionsBytes(t, dir); !bytes.Equal(got, row.data) {
				t.Error("the file was changed")
			}
		})
	}
}

// TestDefinitions_RefusedInTheJournal: nor is what the journal has forgotten
// when a start was refused because of it, however often it is tried.
func TestDefinitions_RefusedInTheJournal(t *testing.T) {
	t.Parallel()
	for _, row := range unreadableRecords {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e := openDir(t, dir)
			e.exchange(ExchangeDeclare{Name: "e", Type: "fanout", Durable: true})
			e.store.AppendMeta(2, row.record)
			e.await("durable", func() bool { return e.store.MetaDurable() == 2 })
			e.crash()
			for range 3 {
				_, err := tryOpenDir(t, dir)
				if err == nil || !strings.Contains(err.Error(), row.want) || !strings.Contains(err.Error(), "record 2 of the journal") {
					t.Fatalf("error %v, want %q", err, row.want)
				}
			}
		})
	}
}

// journalName is the journal's first file.
const journalName = journal.Dir + "/0"
