package segstore

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var updateGolden = flag.Bool("update", false, "write testdata anew")

// Format version 1 as files; a change that cannot read them needs a version 2.
func TestGolden_FormatVersion1(t *testing.T) {
	files := map[string]string{
		"v1-sealed.seg":   "00000000000000000000.seg",
		"v1-unsealed.seg": "00000000000000000006.seg",
		"v1-settled":      settledName,
	}
	if *updateGolden {
		d := newMemDisk()
		s := openTest(t, testOptions{disk: d, segment: 1000})
		l := s.log(1, false)
		for i := range 4 {
			b := NewBatch(s.arena)
			b.Reset(1_700_000_000_000 + int64(i))
			for k := range 3 {
				tm := b.Template([]byte("exchange"), []byte("key"), []byte{0, 0})
				if k == 2 {
					tm = b.Template(nil, []byte("key"), bytes.Repeat([]byte{9}, 130))
					b.SetTime(1_700_000_001_000)
				}
				b.Add(tm, bodyOf(l.Next()+uint64(k), 10+k*70))
			}
			if _, err := l.Append(b); err != nil {
				t.Fatal(err)
			}
			b.Release()
			l.WantDurable()
			s.urge()
		}
		l.Settle(0, 2)
		l.Settle(4, 3)
		l.SetCursor(8)
		s.syncTick()
		s.close()
		t.Log(d.names(testDir))
		for golden, name := range files {
			if err := os.WriteFile(filepath.Join("testdata", golden), d.content(testDir+"/"+name), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := newMemDisk()
	for golden, name := range files {
		data, err := os.ReadFile(filepath.Join("testdata", golden))
		if err != nil {
			t.Fatal(err)
		}
		d.put(testDir+"/"+name, data)
	}
	s := openTest(t, testOptions{disk: d})
	defer s.close()
	l := s.log(1, false)
	if l.Next() != 12 || l.Low() != 2 || l.Unsettled() != 7 || l.Cursor() != 8 || len(l.segments) != 2 || !l.segments[0].sealed {
		t.Fatalf("next %d, low %d, unsettled %d, cursor %d, %d segments", l.Next(), l.Low(), l.Unsettled(), l.Cursor(), len(l.segments))
	}
	r := l.NewReader()
	defer r.Close()
	var rec Record
	for o := uint64(0); o < 12; o++ {
		if err := seek(r, o); err != nil {
			t.Fatal(err)
		}
		r.Next(&rec)
		k, want := int(o%3), Template{[]byte("exchange"), []byte("key"), []byte{0, 0}}
		at := 1_700_000_000_000 + int64(o/3)
		if k == 2 {
			want, at = Template{nil, []byte("key"), bytes.Repeat([]byte{9}, 130)}, 1_700_000_001_000
		}
		got := r.Template(rec.Template)
		if !bytes.Equal(rec.Body, bodyOf(o, 10+k*70)) || rec.Timestamp != at || rec.Template != k/2 ||
			!bytes.Equal(got.Exchange, want.Exchange) || !bytes.Equal(got.RoutingKey, want.RoutingKey) || !bytes.Equal(got.Properties, want.Properties) {
			t.Errorf("record %d: %+v, %v", o, rec, got)
		}
	}
	if lines := s.lines.all(); len(lines) != 0 {
		t.Errorf("log lines %v", lines)
	}
}
