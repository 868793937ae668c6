package main

import (
	"fmt"
	"slices"
)

// report is the verdict over all suites that ran.
type report struct {
	broken       []string // rules 1, 3 and 4: update refuses
	lost         []string // rule 2: update accepts
	improvements []string // rule 5
	notes        []string
	failing      map[string]bool // suites with an entry in broken or lost
}

// judge compares runs with the record. Suites that did not run are left alone.
func judge(runs []*suiteRun, kept record, missing map[string]map[string]string) report {
	verdict := report{failing: make(map[string]bool)}
	for _, run := range runs {
		before := len(verdict.broken) + len(verdict.lost)
		verdict.suite(run, kept[run.name], missing[run.name])
		verdict.failing[run.name] = len(verdict.broken)+len(verdict.lost) > before
	}
	return verdict
}

func (r *report) suite(run *suiteRun, kept suiteRecord, missing map[string]string) {
	tell := func(to *[]string, format string, arguments ...any) {
		*to = append(*to, run.name+": "+fmt.Sprintf(format, arguments...))
	}
	for _, problem := range run.problems {
		tell(&r.broken, "%s", problem)
	}
	for _, name := range sortedKeys(run.tests) {
		t := run.tests[name]
		reason, listed := missing[name]
		once := slices.Contains(kept.Passed, name)
		switch {
		case t.outcome == failed && !listed:
			tell(&r.broken, "failed: %s: %s", name, t.detail)
		case t.outcome == failed && once:
			tell(&r.lost, "failed, and passed before (that it is listed is no excuse): %s: %s", name, t.detail)
		case t.outcome == skipped && once:
			tell(&r.lost, "skipped, and passed before: %s: %s", name, t.detail)
		case t.outcome == passed && listed:
			tell(&r.improvements, "passes, take it off expected-missing.txt: %s (%s)", name, reason)
		case t.outcome == passed && !once:
			tell(&r.improvements, "passes and is not in scores.json: %s", name)
		}
	}
	if len(run.tests) == 0 && len(kept.Passed) > 0 {
		tell(&r.lost, "reported no test at all; %d passed before", len(kept.Passed))
		return
	}
	for _, name := range kept.Passed {
		if _, reported := run.tests[name]; !reported {
			tell(&r.lost, "not reported any more, and passed before: %s", name)
		}
	}
	for _, name := range sortedKeys(missing) {
		if _, reported := run.tests[name]; !reported {
			tell(&r.broken, "listed in expected-missing.txt but not reported: %s", name)
		}
	}
	if kept.Client != "" && kept.Client != run.client {
		tell(&r.notes, "the client is %s; the record was written with %s", run.client, kept.Client)
	}
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
