package perf

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// tableFile is what the tables are written to, in the directory of results.
const tableFile = "README.md"

func tableScenario() scenario {
	return scenario{
		name:    "table",
		summary: "render a directory of JSON results into its README.md: table DIR",
		details: "Reads all *.json files of DIR and writes DIR/README.md. Files that differ only in a\n" +
			"final -runN are runs of the same thing: medians are shown. A result without its\n" +
			"environment, a partial one and one that failed its check are refused: exit status 1.",
		prepare: func(flags *flagSet) func(context.Context, console) error {
			var directory string
			var toStdout, check bool
			flags.operand = &directory
			flags.toggle(&toStdout, "", "stdout", "print the tables instead of writing the file")
			flags.toggle(&check, "", "check", "write nothing; exit status 1 when the file is not what would be written")
			return func(_ context.Context, out console) error {
				if directory == "" {
					return usagef("table needs the directory of the results")
				}
				return runTable(directory, toStdout, check, out)
			}
		},
	}
}

func runTable(directory string, toStdout, check bool, out console) error {
	results, err := readResults(directory)
	if err != nil {
		return err
	}
	var rendered bytes.Buffer
	renderTables(&rendered, results)
	path := filepath.Join(directory, tableFile)
	switch {
	case toStdout:
		_, err = out.stdout.Write(rendered.Bytes())
	case check:
		var present []byte
		if present, err = os.ReadFile(path); err == nil && !bytes.Equal(present, rendered.Bytes()) {
			err = fmt.Errorf("%s is not up to date: run %s table %s", path, program, directory)
		}
	default:
		err = os.WriteFile(path, rendered.Bytes(), 0o644)
	}
	return err
}

// recordedResult is one JSON file. Exactly one of the pointers is set.
type recordedResult struct {
	release     string // of the file's name: date and commit; may be empty
	name        string // what was measured
	environment environment
	versions    versions

	throughput *throughputResult
	confirm    *confirmResult
	backlog    *backlogResult
	calibrate  *calibrateResult
}

// resultName splits the name of a recorded result: date and commit, what was
// measured, and the number of the run. Date and commit may be missing, the
// number too.
var resultName = regexp.MustCompile(`^(?:(\d{4}-\d{2}-\d{2}-[0-9A-Za-z]+)-)?(.+?)(?:-run\d+)?\.json$`)

// readResults reads the results of a directory in the order of their names.
func readResults(directory string) ([]*recordedResult, error) {
	if info, err := os.Stat(directory); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("can't read the results: %s is not a directory", directory)
	}
	paths, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("can't list the results: %w", err)
	}
	slices.Sort(paths)
	var results []*recordedResult
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("can't read a result: %w", err)
		}
		result, err := parseResult(filepath.Base(path), raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// parseResult reads one result and refuses what must not be published.
func parseResult(fileName string, raw []byte) (*recordedResult, error) {
	var head struct {
		Scenario    string      `json:"scenario"`
		Interrupted bool        `json:"interrupted"`
		Error       string      `json:"error"`
		Versions    versions    `json:"versions"`
		Environment environment `json:"environment"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("not a result: %w", err)
	}
	parts := resultName.FindStringSubmatch(fileName)
	if parts == nil {
		return nil, fmt.Errorf("not the name of a result")
	}
	result := &recordedResult{release: parts[1], name: parts[2], environment: head.Environment, versions: head.Versions}
	var target any
	switch head.Scenario {
	case "throughput":
		result.throughput = new(throughputResult)
		target = result.throughput
	case "confirm":
		result.confirm = new(confirmResult)
		target = result.confirm
	case "backlog":
		result.backlog = new(backlogResult)
		target = result.backlog
	case "calibrate":
		result.calibrate = new(calibrateResult)
		target = result.calibrate
	default:
		return nil, fmt.Errorf("scenario %q has no table", head.Scenario)
	}
	if err := json.Unmarshal(raw, target); err != nil {
		return nil, fmt.Errorf("not a result of the scenario %s: %w", head.Scenario, err)
	}
	switch e := head.Environment; {
	case e.Kernel == "" || e.CPU.Cores == 0 || e.GoVersion == "" || e.Time.IsZero():
		return nil, fmt.Errorf("a figure without its environment is not shown: kernel, cores, go_version and time are needed")
	case head.Interrupted:
		return nil, fmt.Errorf("a partial result is not shown: the run was interrupted")
	case head.Error != "":
		return nil, fmt.Errorf("a partial result is not shown: the run ended with: %s", head.Error)
	}
	return result, result.check()
}

// check looks for what the rendering relies on, and for results that failed.
func (r *recordedResult) check() error {
	switch {
	case r.throughput != nil:
		if r.throughput.Options == nil {
			return fmt.Errorf("the result does not say its options")
		}
		if r.throughput.VerifyFailures+r.throughput.OutOfOrder > 0 {
			return fmt.Errorf("its verification failed")
		}
	case r.confirm != nil:
		if r.confirm.Options == nil {
			return fmt.Errorf("the result does not say its options")
		}
		for _, row := range r.confirm.Rows {
			if row == nil || row.Latency == nil {
				return fmt.Errorf("a combination has no latency")
			}
		}
		return r.confirm.check()
	case r.backlog != nil:
		b := r.backlog
		if b.Options == nil || b.Fill == nil || b.Filled == nil || b.Drain == nil || b.Drained == nil {
			return fmt.Errorf("the result is not complete")
		}
		return b.check()
	case r.calibrate.Options == nil:
		return fmt.Errorf("the result does not say its options")
	}
	return nil
}

// section is the results of one release and broker in one environment.
type section struct {
	release string
	broker  string // empty while there are only yardsticks
	results []*recordedResult
}

// broker names the broker that was measured; empty for yardsticks.
func (r *recordedResult) broker() string {
	return strings.TrimSpace(r.versions.BrokerProduct + " " + r.versions.BrokerVersion)
}

// takes reports whether a result belongs into the section. Yardsticks go to
// the first section of their machine.
func (s *section) takes(result *recordedResult) bool {
	return s.release == result.release &&
		describeEnvironment(s.results[0]) == describeEnvironment(result) &&
		(s.broker == result.broker() || s.broker == "" || result.broker() == "")
}

// sections groups results; the newest comes first.
func sections(results []*recordedResult) []*section {
	var all []*section
	for _, result := range results {
		index := slices.IndexFunc(all, func(s *section) bool { return s.takes(result) })
		if index < 0 {
			all = append(all, &section{release: result.release})
			index = len(all) - 1
		}
		all[index].results = append(all[index].results, result)
		all[index].broker = cmp.Or(all[index].broker, result.broker())
	}
	slices.SortStableFunc(all, func(a, b *section) int {
		return cmp.Or(b.newest().Compare(a.newest()), cmp.Compare(a.release, b.release))
	})
	return all
}
