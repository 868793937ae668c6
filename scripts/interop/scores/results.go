package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

type outcome int

// The order is that of merging: of several runs the worst counts.
const (
	passed outcome = iota
	skipped
	failed
)

type test struct {
	outcome outcome
	detail  string // of a failure or a skip
}

// suiteRun is what one suite reported, in one run or merged over several.
type suiteRun struct {
	name     string
	client   string
	tests    map[string]test
	seconds  int
	logs     []string // paths
	problems []string // rule 4
}

func (s *suiteRun) count(o outcome) (n int) {
	for _, t := range s.tests {
		if t.outcome == o {
			n++
		}
	}
	return n
}

// readRuns reads every .tsv of the directories and merges equal suites.
func readRuns(dirs []string) ([]*suiteRun, error) {
	merged := make(map[string]*suiteRun)
	for _, dir := range dirs {
		paths, err := filepath.Glob(filepath.Join(dir, "*.tsv"))
		if err != nil {
			return nil, err
		}
		if len(paths) == 0 {
			return nil, fmt.Errorf("scores: no results (*.tsv) in %s", dir)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			name := strings.TrimSuffix(filepath.Base(path), ".tsv")
			run := parseRun(name, string(data))
			run.logs = []string{strings.TrimSuffix(path, ".tsv") + ".log"}
			if merged[name] == nil {
				merged[name] = run
			} else {
				merged[name].merge(run)
			}
		}
	}
	runs := make([]*suiteRun, 0, len(merged))
	for _, run := range merged {
		runs = append(runs, run)
	}
	slices.SortFunc(runs, func(a, b *suiteRun) int { return cmp.Compare(a.name, b.name) })
	return runs, nil
}

func parseRun(name, text string) *suiteRun {
	run := &suiteRun{name: name, tests: make(map[string]test)}
	var done, ended bool
	var status string
	for number, line := range strings.Split(text, "\n") {
		if line == "" {
			continue
		}
		fields := strings.SplitN(line, "\t", 3)
		second, third := "", ""
		if len(fields) > 1 {
			second = strings.TrimSpace(fields[1])
		}
		if len(fields) > 2 {
			third = strings.TrimSpace(fields[2])
		}
		switch fields[0] {
		case "client":
			run.client = second
		case "pass":
			run.add(second, test{passed, ""})
		case "fail":
			run.add(second, test{failed, third})
		case "skip":
			run.add(second, test{skipped, third})
			if third == "" {
				run.problem("%s is skipped without a reason", second)
			}
		case "done":
			done = true
		case "end":
			ended, status = true, second
			run.seconds, _ = strconv.Atoi(third)
		default:
			run.problem("line %d of its results is not understood: %q", number+1, line)
		}
	}
	switch {
	case !ended:
		run.problem("was not run to its end by run.sh")
	case status == "124":
		run.problem("took longer than its time limit")
	case !done:
		run.problem("ended before its last test, with status %s", status)
	case status != "0" && run.count(failed) == 0:
		run.problem("exit status %s although no test failed", status)
	case len(run.tests) == 0:
		run.problem("reported no test")
	}
	if run.client == "" {
		run.problem("did not report the client's version")
	}
	return run
}

func (s *suiteRun) add(name string, t test) {
	if _, double := s.tests[name]; double {
		s.problem("two tests are called %q", name)
	}
	s.tests[name] = t
}

func (s *suiteRun) problem(format string, arguments ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, arguments...))
}

func (s *suiteRun) merge(other *suiteRun) {
	for name, theirs := range other.tests {
		ours, both := s.tests[name]
		if !both {
			s.problem("%q was reported in one of the runs only", name)
		}
		if !both || theirs.outcome > ours.outcome {
			s.tests[name] = theirs
		}
	}
	for name := range s.tests {
		if _, both := other.tests[name]; !both {
			s.problem("%q was reported in one of the runs only", name)
		}
	}
	s.client = cmp.Or(s.client, other.client)
	s.seconds += other.seconds
	s.logs = append(s.logs, other.logs...)
	s.problems = append(s.problems, other.problems...)
}
