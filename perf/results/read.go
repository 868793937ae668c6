package results

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
)

// Recorded is one JSON file. Exactly one of the pointers is set.
type Recorded struct {
	Release string // of the file's name: date and commit; may be empty
	Name    string // what was measured
	Head    Head

	Throughput *Throughput
	Confirm    *Confirm
	Backlog    *Backlog
	Calibrate  *Calibrate
	Suite      *Suite
	Open       *Open
	Latencies  *Latencies
	Fanout     *Fanout
	Churn      *Churn
	Population *Population
	Gate       *Gate
	Features   *Features
}

// resultName splits the name of a recorded result: date and commit, what was
// measured, and the number of the run. Date and commit may be missing, the
// number too.
var resultName = regexp.MustCompile(`^(?:(\d{4}-\d{2}-\d{2}-[0-9A-Za-z]+)-)?(.+?)(?:-run\d+)?\.json$`)

// Read reads the results of a directory in the order of their names, and
// refuses what must not be published.
func Read(directory string) ([]*Recorded, error) {
	if info, err := os.Stat(directory); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("can't read the results: %s is not a directory", directory)
	}
	paths, err := filepath.Glob(filepath.Join(directory, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("can't list the results: %w", err)
	}
	slices.Sort(paths)
	var results []*Recorded
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("can't read a result: %w", err)
		}
		result, err := Parse(filepath.Base(path), raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// Parse reads one result; its file name says of which release and run it is.
func Parse(fileName string, raw []byte) (*Recorded, error) {
	var head Head
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("not a result: %w", err)
	}
	parts := resultName.FindStringSubmatch(fileName)
	if parts == nil {
		return nil, fmt.Errorf("not the name of a result")
	}
	result := &Recorded{Release: parts[1], Name: parts[2], Head: head}
	var target any
	switch scenario := head.Scenario; {
	case scenario == "throughput":
		target = fresh(&result.Throughput)
	case scenario == "confirm":
		target = fresh(&result.Confirm)
	case scenario == "backlog":
		target = fresh(&result.Backlog)
	case scenario == "calibrate":
		target = fresh(&result.Calibrate)
	case scenario == "suite":
		target = fresh(&result.Suite)
	case scenario == "open":
		target = fresh(&result.Open)
	case scenario == "latency":
		target = fresh(&result.Latencies)
	case scenario == "fanout":
		target = fresh(&result.Fanout)
	case scenario == "gate":
		target = fresh(&result.Gate)
	case scenario == "features":
		target = fresh(&result.Features)
	case isChurn(scenario):
		target = fresh(&result.Churn)
	case isPopulation(scenario):
		target = fresh(&result.Population)
	default:
		return nil, fmt.Errorf("scenario %q has no table", scenario)
	}
	if err := json.Unmarshal(raw, target); err != nil {
		return nil, fmt.Errorf("not a result of the scenario %s: %w", head.Scenario, err)
	}
	if err := head.check(); err != nil {
		return nil, err
	}
	return result, result.check()
}

// fresh makes the value of a pointer, and returns it.
func fresh[T any](field **T) *T {
	*field = new(T)
	return *field
}

// check refuses what must be neither shown nor compared.
func (h Head) check() error {
	switch e := h.Environment; {
	case e.Kernel == "" || e.CPU.Cores == 0 || e.GoVersion == "" || e.Time.IsZero():
		return fmt.Errorf("a figure without its environment is not shown: kernel, cores, go_version and time are needed")
	case h.Interrupted:
		return fmt.Errorf("a partial result is not shown: the run was interrupted")
	case h.Error != "":
		return fmt.Errorf("a partial result is not shown: the run ended with: %s", h.Error)
	}
	return nil
}

var errNoOptions = errors.New("the result does not say its options")

// check looks for what the rendering relies on, and for results that failed.
func (r *Recorded) check() error {
	switch {
	case r.Throughput != nil:
		if r.Throughput.Options == nil {
			return errNoOptions
		}
		if r.Throughput.VerifyFailures+r.Throughput.OutOfOrder > 0 {
			return fmt.Errorf("its verification failed")
		}
	case r.Confirm != nil:
		if r.Confirm.Options == nil {
			return errNoOptions
		}
		for _, row := range r.Confirm.Rows {
			if row == nil || row.Latency == nil {
				return fmt.Errorf("a combination has no latency")
			}
		}
		return r.Confirm.Check()
	case r.Backlog != nil:
		b := r.Backlog
		if b.Options == nil || b.Fill == nil || b.Filled == nil || b.Drain == nil || b.Drained == nil {
			return fmt.Errorf("the result is not complete")
		}
		return b.Check(b.Options.Messages)
	case r.Suite != nil:
		return r.Suite.Check()
	case r.Open != nil:
		return r.Open.check()
	case r.Latencies != nil:
		if r.Latencies.Options == nil {
			return errNoOptions
		}
		return r.Latencies.Check()
	case r.Fanout != nil:
		if r.Fanout.Options == nil {
			return errNoOptions
		}
		return checkRows(r.Fanout.Rows)
	case r.Churn != nil:
		return r.Churn.Check()
	case r.Population != nil:
		return checkRows(r.Population.Rows)
	case r.Gate != nil:
		return r.Gate.check()
	case r.Features != nil:
		return r.Features.Check()
	case r.Calibrate.Options == nil:
		return errNoOptions
	}
	return nil
}
