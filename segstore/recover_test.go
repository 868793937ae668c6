package segstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// buildLog writes log 1 with the given batches and returns its disk: records
// of 20 bytes, one batch per number, all written, the last segment unsealed.
func buildLog(t tester, segment int64, batches ...int) *memDisk {
	t.Helper()
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, segment: segment})
	l := s.log(1, false)
	for _, n := range batches {
		s.appendN(l, n, 20)
	}
	l.WantDurable()
	s.urge()
	if l.Durable() != l.Next() {
		t.Fatalf("durable %d", l.Durable())
	}
	s.crash()
	return d
}

const (
	testDir     = "logs/0000000000000001"
	testSegment = testDir + "/00000000000000000000.seg"
)

// reopen opens log 1 on a disk of its own with one file replaced.
func reopen(t tester, file string, data []byte) (*testStore, *Log, *memDisk) {
	t.Helper()
	d := newMemDisk()
	d.put(file, data)
	s := openTest(t, testOptions{disk: d})
	return s, s.log(1, false), d
}

func TestRecovery_SegmentCutAtEveryByte(t *testing.T) {
	batches := []int{3, 1, 5}
	data := buildLog(t, 0, batches...).content(testSegment)
	ends := map[int]uint64{segmentHeaderBytes: 0} // position -> next offset
	pos, next := segmentHeaderBytes, uint64(0)
	for pos < len(data) {
		next = batchEnd(data[pos:])
		pos += batchLength(data[pos:])
		ends[pos] = next
	}
	if next != 9 {
		t.Fatalf("the segment has %d records", next)
	}
	for cut := range len(data) + 1 {
		s, l, d := reopen(t, testSegment, data[:cut])
		want, whole := uint64(0), 0
		for p, n := range ends {
			if p <= cut && p >= whole {
				want, whole = n, p
			}
		}
		if l.Next() != want || l.Unsettled() != want {
			t.Fatalf("cut at %d: next %d, want %d", cut, l.Next(), want)
		}
		r := l.NewReader()
		if got := s.readAll(r, 0, l.Next()); uint64(len(got)) != want {
			t.Fatalf("cut at %d: %d records", cut, len(got))
		}
		r.Close()
		if cut >= segmentHeaderBytes {
			if got := len(d.content(testSegment)); got != whole {
				t.Fatalf("cut at %d: the file has %d bytes, want %d", cut, got, whole)
			}
			torn := d.content(testSegment + quarantineSuffix)
			if !bytes.Equal(torn, data[whole:cut]) {
				t.Fatalf("cut at %d: copy of %d bytes, want %d", cut, len(torn), cut-whole)
			}
		} else if cut > 0 && d.content(testSegment+quarantineSuffix) == nil {
			t.Fatalf("cut at %d: a file with half a header was not set aside", cut)
		}
		s.appendN(l, 2, 20) // the log goes on
		l.WantDurable()
		s.urge()
		s.close()
		s = openTest(t, testOptions{disk: d})
		if l := s.log(1, false); l.Next() != want+2 || l.Unsettled() != want+2 {
			t.Fatalf("cut at %d: next %d after going on, want %d", cut, l.Next(), want+2)
		}
		s.close()
	}
}

func TestRecovery_EveryBitFlipOfAnUnsealedSegment(t *testing.T) {
	data := buildLog(t, 0, 2, 1, 2).content(testSegment)
	for bit := segmentHeaderBytes * 8; bit < len(data)*8; bit++ {
		flipped := slices.Clone(data)
		flipped[bit/8] ^= 1 << (bit % 8)
		damaged := 0
		for pos := segmentHeaderBytes; pos+batchLength(data[pos:]) <= bit/8; damaged++ {
			pos += batchLength(data[pos:])
		}
		lost := [][]uint64{{2, 3, 4}, {0, 1, 3, 4}, {0, 1, 2}}[damaged]
		s, l, _ := reopen(t, testSegment, flipped)
		wantNext := uint64(5)
		if damaged == 2 {
			wantNext = 3
		}
		r := l.NewReader()
		if got := s.readAll(r, 0, l.Next()); !slices.Equal(got, lost) || l.Next() != wantNext || l.Unsettled() != uint64(len(lost)) {
			t.Fatalf("bit %d of byte %d: records %v, want %v; next %d, unsettled %d", bit%8, bit/8, got, lost, l.Next(), l.Unsettled())
		}
		r.Close()
		if lines := s.lines.all(); len(lines) != 1 {
			t.Fatalf("bit %d of byte %d: log lines %v", bit%8, bit/8, lines)
		}
		s.close()
	}
}

func TestRecovery_EveryBitFlipOfASealedSegment(t *testing.T) {
	d := buildLog(t, 200, 2, 1, 2, 1)
	if names := d.names(testDir); len(names) < 2 {
		t.Fatalf("no sealed segment: %v", names)
	}
	data := d.content(testSegment)
	if !new(segment).decodeTrailer(data[len(data)-trailerBytes:], int64(len(data))) {
		t.Fatal("the first segment is not sealed")
	}
	whole := d.names(testDir)
	for bit := range len(data) * 8 {
		flipped := slices.Clone(data)
		flipped[bit/8] ^= 1 << (bit % 8)
		d := newMemDisk()
		d.put(testSegment, flipped)
		for _, name := range whole[1:] {
			d.put(testDir+"/"+name, buildLog(t, 200, 2, 1, 2, 1).content(testDir+"/"+name))
		}
		s := openTest(t, testOptions{disk: d})
		l := s.log(1, false)
		r := l.NewReader()
		got := s.readAll(r, 0, l.Next())
		r.Close()
		if l.Next() != 6 || got[len(got)-1] != 5 {
			t.Fatalf("bit %d: next %d, records %v", bit, l.Next(), got)
		}
		if bit/8 >= segmentHeaderBytes && bit/8 < int(binary.LittleEndian.Uint64(data[len(data)-trailerBytes+8:])) {
			if s.Stats().CorruptBatches != 1 || len(got) == 6 {
				t.Fatalf("bit %d: %d corrupt batches, records %v", bit, s.Stats().CorruptBatches, got)
			}
		} else if bit/8 >= segmentHeaderBytes && len(got) != 6 {
			t.Fatalf("bit %d of the footer: records %v", bit, got)
		}
		s.syncTick()
		s.close()
	}
}

func TestRecovery_SettledFileCutAndFlippedAtEveryByte(t *testing.T) {
	d := buildLog(t, 0, 20)
	s := openTest(t, testOptions{disk: d})
	l := s.log(1, false)
	for _, step := range [][2]uint64{{3, 2}, {10, 1}, {0, 2}, {15, 3}, {18, 2}} {
		l.Settle(step[0], step[1])
		l.SetCursor(step[0])
		s.tick()
	}
	want := settledOffsets(l)
	s.close()
	if err := d.RemoveAll("journal"); err != nil {
		t.Fatal(err)
	}
	acks, seg := d.content(testDir+"/"+settledName), d.content(testSegment)
	check := func(name string, data []byte, exact bool) {
		d := newMemDisk()
		d.put(testSegment, seg)
		d.put(testDir+"/"+settledName, data)
		s := openTest(t, testOptions{disk: d})
		l := s.log(1, false)
		for o := range settledOffsets(l) {
			if !want[o] {
				t.Fatalf("%s: offset %d is settled", name, o)
			}
		}
		if l.Next() != 20 || exact && len(settledOffsets(l)) != len(want) {
			t.Fatalf("%s: next %d, settled %v", name, l.Next(), settledOffsets(l))
		}
		l.Settle(7, 1)
		s.close()
		s = openTest(t, testOptions{disk: d})
		if l := s.log(1, false); !l.isSettled(7, 8) {
			t.Fatalf("%s: a later settlement was lost", name)
		}
		s.close()
	}
	check("whole", acks, true)
	for cut := range acks {
		check(fmt.Sprint("cut at ", cut), acks[:cut], false)
	}
	for bit := range len(acks) * 8 {
		flipped := slices.Clone(acks)
		flipped[bit/8] ^= 1 << (bit % 8)
		check(fmt.Sprint("bit ", bit), flipped, false)
	}
	check("garbage after", append(slices.Clone(acks), bytes.Repeat([]byte{7}, 100)...), true)
	check("zeros after", append(slices.Clone(acks), make([]byte, 4096)...), true)
}

func settledOffsets(l *Log) map[uint64]bool {
	m := map[uint64]bool{}
	for o := range l.Next() {
		if l.isSettled(o, o+1) {
			m[o] = true
		}
	}
	return m
}

func TestRecovery_StrangeFilesAreSetAside(t *testing.T) {
	d := buildLog(t, 0, 3)
	d.put(testDir+"/notes.txt", []byte("hello"))
	d.put(testDir+"/00000000000000000099.seg", []byte("this is not a segment header, but it is long enough to be one ........"))
	d.put(testDir+"/123.seg", nil)
	d.put(testDir+"/settled.tmp", []byte("half"))
	d.put(testDir+"/00000000000000000007.seg", nil)
	d.put("logs/elsewhere/x", nil)
	d.put("logs/0000000000000001.quarantine/x", nil)
	s := openTest(t, testOptions{disk: d})
	ids, err := s.ListLogs()
	if err != nil || len(ids) != 1 || ids[0] != 1 {
		t.Fatalf("logs %v, %v", ids, err)
	}
	l := s.log(1, false)
	if l.Unsettled() != 3 {
		t.Errorf("unsettled %d", l.Unsettled())
	}
	if base := s.appendN(l, 1, 1); base != 99 {
		t.Errorf("offset %d was given although a segment that cannot be read begins at 99", base)
	}
	want := []string{"00000000000000000000.seg", "00000000000000000099.seg.quarantine", "123.seg.quarantine", "notes.txt.quarantine"}
	if got := d.names(testDir); !slices.Equal(got, want) {
		t.Errorf("files %v, want %v", got, want)
	}
	if d.content(testDir+"/notes.txt.quarantine") == nil || d.find("logs/elsewhere.quarantine") == nil {
		t.Error("something was not kept")
	}
	for _, line := range s.lines.all() {
		if !strings.Contains(line, "set aside") {
			t.Errorf("log line %s", line)
		}
	}
	s.close()
}

// The offsets of a segment whose header is unreadable are not given again.
func TestRecovery_BadHeaderKeepsItsOffsets(t *testing.T) {
	data := buildLog(t, 0, 3, 4).content(testSegment)
	data[20] ^= 1
	s, l, d := reopen(t, testSegment, data)
	defer s.close()
	if l.Next() != 7 || l.Unsettled() != 0 {
		t.Errorf("next %d, unsettled %d", l.Next(), l.Unsettled())
	}
	if !bytes.Equal(d.content(testSegment+quarantineSuffix), data) {
		t.Error("the file was not kept as it is")
	}
}

func TestRecovery_HolesOfASealedSegmentAreFound(t *testing.T) {
	d := newMemDisk()
	s := openTest(t, testOptions{disk: d, segment: 2 << 10})
	l := s.log(1, false)
	for range 60 {
		base := s.appendN(l, 3, 20)
		if base%2 == 0 && base > 0 {
			l.Settle(base, 3)
		}
	}
	s.syncTick()
	s.syncTick()
	if !l.segments[0].sealed || l.segments[0].records == l.segments[0].next {
		t.Fatal("no sealed segment with holes")
	}
	want := l.Unsettled()
	s.crash()
	if err := d.RemoveAll("journal"); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, testOptions{disk: d})
	defer s.close()
	l = s.log(1, false)
	if l.Unsettled() != want {
		t.Errorf("unsettled %d without the journal, want %d", l.Unsettled(), want)
	}
}

func TestStore_QuarantineMovesAnOrphan(t *testing.T) {
	d := buildLog(t, 0, 3)
	clock := newFakeClock()
	s := openTest(t, testOptions{disk: d, clock: clock})
	defer s.close()
	if err := s.Quarantine(1); err != nil {
		t.Fatal(err)
	}
	if err := s.Quarantine(1); err == nil {
		t.Error("a log without a directory was quarantined")
	}
	to := fmt.Sprintf("quarantine/%016x-%d", 1, clock.Now().Unix())
	if d.find(to+"/00000000000000000000.seg") == nil {
		t.Errorf("not in %s: %v", to, d.names(quarantineDir))
	}
	s.log(2, false)
	if err := s.Quarantine(2); err == nil {
		t.Error("an open log was quarantined")
	}
}

// A power cut can undo the deletion of a log that was set aside, so that it is
// set aside again, under the same number and within the same second.
func TestQuarantine_TwiceInOneSecondFileExists(t *testing.T) {
	d, clock := newMemDisk(), newFakeClock()
	segments := map[string]string{}
	for i := range 3 {
		s := openTest(t, testOptions{disk: d, clock: clock})
		s.appendN(s.log(1, false), 1+i, 20)
		s.close()
		want := string(d.content(testSegment))
		s = openTest(t, testOptions{disk: d, clock: clock})
		if err := s.Quarantine(1); err != nil {
			t.Fatal(err)
		}
		s.close()
		segments[want] = ""
	}
	names := d.names(quarantineDir)
	if len(names) != 3 {
		t.Fatalf("in quarantine: %v", names)
	}
	for _, name := range names {
		delete(segments, string(d.content(quarantineDir+"/"+name+"/00000000000000000000.seg")))
	}
	if len(segments) != 0 {
		t.Errorf("%d of 3 logs are not in %v", len(segments), names)
	}
}

func TestClose_SealsLargeSegmentsOnly(t *testing.T) {
	for _, records := range []int{3, 300} {
		d := newMemDisk()
		s := openTest(t, testOptions{disk: d, change: func(o *Options) { o.tune.sealBytes = 2 << 10 }})
		l := s.log(1, false)
		s.appendN(l, records, 20)
		s.close()
		data := d.content(testSegment)
		sealed := new(segment).decodeTrailer(data[len(data)-trailerBytes:], int64(len(data)))
		if sealed != (records == 300) {
			t.Errorf("%d records: sealed %v", records, sealed)
		}
		d.losePower(func() bool { return false })
		s = openTest(t, testOptions{disk: d})
		if l := s.log(1, false); l.Unsettled() != uint64(records) {
			t.Errorf("%d unsettled, want %d", l.Unsettled(), records)
		}
		s.close()
	}
}
