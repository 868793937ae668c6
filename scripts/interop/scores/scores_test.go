package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// scene is a directory with a record, a list and results.
type scene struct {
	t                   *testing.T
	dir, scores, absent string
	runs                []string
}

func newScene(t *testing.T, record, missing string, results ...string) *scene {
	t.Helper()
	s := &scene{t: t, dir: t.TempDir()}
	s.scores, s.absent = filepath.Join(s.dir, "scores.json"), filepath.Join(s.dir, "missing.txt")
	s.write(s.scores, record)
	s.write(s.absent, missing)
	for i, text := range results {
		run := filepath.Join(s.dir, string(rune('a'+i)))
		if err := os.Mkdir(run, 0o755); err != nil {
			t.Fatal(err)
		}
		s.runs = append(s.runs, run)
		s.write(filepath.Join(run, "s.tsv"), strings.ReplaceAll(text, " / ", "\n"))
		s.write(filepath.Join(run, "s.log"), "printed by the suite\n")
	}
	return s
}

func (s *scene) write(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *scene) run(update bool) (bool, string) {
	s.t.Helper()
	var out strings.Builder
	ok, err := run(&out, update, s.scores, s.absent, s.runs)
	if err != nil {
		s.t.Fatal(err)
	}
	return ok, out.String()
}

const onceAB = `{"s": {"client": "c 1", "counts": {}, "passed": ["a", "b"], "failed": {}, "skipped": {}}}`

func TestCheck(t *testing.T) {
	const end = " / done / end\t0\t3"
	for _, c := range []struct {
		name, record, missing, result string
		good                          bool
		says                          string
	}{
		{"equal to the record", onceAB, "", "client\tc 1 / pass\ta / pass\tb" + end, true, "2 passed, 0 failed, 0 skipped"},
		{"a failure", onceAB, "", "client\tc 1 / pass\ta / fail\tb\tgot 1 / done / end\t1\t3", false, "BROKEN s: failed: b: got 1"},
		{"a new failure", onceAB, "", "client\tc 1 / pass\ta / pass\tb / fail\tn\tno / done / end\t1\t3", false, "BROKEN s: failed: n: no"},
		{"a listed failure", onceAB, "s | n | not built", "client\tc 1 / pass\ta / pass\tb / fail\tn\tno / done / end\t1\t3", true, "2 passed, 1 failed"},
		{"a listed failure that passed before", onceAB, "s | b | not built", "client\tc 1 / pass\ta / fail\tb\tno / done / end\t1\t3", false, "LOST s: failed, and passed before"},
		{"disappeared", onceAB, "", "client\tc 1 / pass\ta" + end, false, "LOST s: not reported any more, and passed before: b"},
		{"skipped after a pass", onceAB, "", "client\tc 1 / pass\ta / skip\tb\twhy" + end, false, "LOST s: skipped, and passed before: b: why"},
		{"skipped without a reason", onceAB, "", "client\tc 1 / pass\ta / pass\tb / skip\tn\t" + end, false, "skipped without a reason"},
		{"listed and passes", onceAB, "s | a | not built", "client\tc 1 / pass\ta / pass\tb" + end, true, "better s: passes, take it off expected-missing.txt: a (not built)"},
		{"listed and not reported", onceAB, "s | n | not built", "client\tc 1 / pass\ta / pass\tb" + end, false, "listed in expected-missing.txt but not reported: n"},
		{"listed for a suite that did not run", onceAB, "other | n | not built", "client\tc 1 / pass\ta / pass\tb" + end, true, "2 passed"},
		{"new and passes", onceAB, "", "client\tc 1 / pass\ta / pass\tb / pass\tn" + end, true, "better s: passes and is not in scores.json: n"},
		{"another version of the client", onceAB, "", "client\tc 2 / pass\ta / pass\tb" + end, true, "note s: the client is c 2; the record was written with c 1"},
		{"no version", onceAB, "", "pass\ta / pass\tb" + end, false, "did not report the client's version"},
		{"a crash before the end", onceAB, "", "client\tc 1 / pass\ta / pass\tb / end\t139\t3", false, "ended before its last test, with status 139"},
		{"over the time limit", onceAB, "", "client\tc 1 / pass\ta / pass\tb / end\t124\t3", false, "longer than its time limit"},
		{"a bad exit without a failure", onceAB, "", "client\tc 1 / pass\ta / pass\tb / done / end\t1\t3", false, "exit status 1 although no test failed"},
		{"no end", onceAB, "", "client\tc 1 / pass\ta / pass\tb / done", false, "was not run to its end"},
		{"one name twice", onceAB, "", "client\tc 1 / pass\ta / pass\tb / pass\ta" + end, false, `two tests are called "a"`},
		{"no tests", `{}`, "", "client\tc 1" + end, false, "reported no test"},
		{"garbage", onceAB, "", "client\tc 1 / pass\ta / pass\tb / hello" + end, false, "not understood"},
		{"no record yet", `{}`, "", "client\tc 1 / pass\ta" + end, true, "better s: passes and is not in scores.json: a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			good, text := newScene(t, c.record, c.missing, c.result).run(false)
			if good != c.good || !strings.Contains(text, c.says) {
				t.Errorf("good = %v, want %v, and a text with %q; got:\n%s", good, c.good, c.says, text)
			}
			if strings.Contains(text, "printed by the suite") == c.good {
				t.Errorf("a suite's log is to be shown exactly when it fails:\n%s", text)
			}
		})
	}
}

func TestCheck_TwoRunsCountTheWorse(t *testing.T) {
	good := "client\tc 1 / pass\ta / pass\tb / done / end\t0\t1"
	for bad, says := range map[string]string{
		"client\tc 1 / pass\ta / fail\tb\tno / done / end\t1\t1": "BROKEN s: failed: b: no",
		"client\tc 1 / pass\ta / done / end\t0\t1":               "reported in one of the runs only",
		"client\tc 1 / pass\ta / pass\tb / end\t9\t1":            "ended before its last test",
	} {
		for _, results := range [][]string{{good, bad}, {bad, good}} {
			if ok, text := newScene(t, onceAB, "", results...).run(false); ok || !strings.Contains(text, says) {
				t.Errorf("%q: ok = %v, want a text with %q, got:\n%s", results, ok, says, text)
			}
		}
	}
	if ok, text := newScene(t, onceAB, "", good, good).run(false); !ok || !strings.Contains(text, "2 passed") {
		t.Errorf("two good runs: ok = %v\n%s", ok, text)
	}
}

func TestUpdate(t *testing.T) {
	s := newScene(t, onceAB, "s | n | not built", "client\tc 2 / pass\tb / fail\tn\tno / skip\tz\tno root / done / end\t1\t3")
	if ok, text := s.run(true); !ok {
		t.Fatalf("refused:\n%s", text)
	}
	kept, err := readRecord(s.scores)
	if err != nil {
		t.Fatal(err)
	}
	got := kept["s"]
	if got.Client != "c 2" || got.Counts != (counts{1, 1, 1}) || len(got.Passed) != 1 || got.Passed[0] != "b" ||
		got.Failed["n"] != "not built" || got.Skipped["z"] != "no root" {
		t.Errorf("record = %+v", got)
	}
	if ok, text := s.run(false); !ok || strings.Contains(text, "better") {
		t.Errorf("a check right after an update: ok = %v\n%s", ok, text)
	}
}

func TestUpdate_RefusesWhatIsBroken(t *testing.T) {
	s := newScene(t, onceAB, "", "client\tc 1 / pass\ta / fail\tb\tno / done / end\t1\t3")
	if ok, text := s.run(true); ok {
		t.Errorf("an unlisted failure was written:\n%s", text)
	}
	if data, err := os.ReadFile(s.scores); err != nil || string(data) != onceAB {
		t.Errorf("the record changed: %s, %v", data, err)
	}
}

func TestMissing_RefusesBadLines(t *testing.T) {
	for _, line := range []string{"s | a", "s | a | ", "s a reason", "s | a | x\ns | a | y"} {
		path := filepath.Join(t.TempDir(), "missing.txt")
		if err := os.WriteFile(path, []byte(line), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := readMissing(path); err == nil {
			t.Errorf("%q was read as %v", line, got)
		}
	}
}

// The committed files are well-formed, and the record's counts are those of its lists.
func TestCommittedRecord(t *testing.T) {
	if _, err := readMissing("../expected-missing.txt"); err != nil {
		t.Error(err)
	}
	kept, err := readRecord("../scores.json")
	if err != nil {
		t.Fatal(err)
	}
	for name, suite := range kept {
		if want := (counts{len(suite.Passed), len(suite.Failed), len(suite.Skipped)}); suite.Counts != want || want.Passed == 0 {
			t.Errorf("%s: counts = %+v, the lists have %+v", name, suite.Counts, want)
		}
	}
}
