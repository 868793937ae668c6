package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// record is scores.json: what each suite did when it was last written.
type record map[string]suiteRecord

type suiteRecord struct {
	Client  string            `json:"client"`
	Counts  counts            `json:"counts"`
	Passed  []string          `json:"passed"`
	Failed  map[string]string `json:"failed"`  // test to reason, as in the list
	Skipped map[string]string `json:"skipped"` // test to reason
}

type counts struct {
	Passed  int `json:"passed"`
	Failed  int `json:"failed"`
	Skipped int `json:"skipped"`
}

func readRecord(path string) (record, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, nil
	}
	if err != nil {
		return nil, err
	}
	kept := record{}
	if err := json.Unmarshal(data, &kept); err != nil {
		return nil, fmt.Errorf("scores: %s: %w", path, err)
	}
	return kept, nil
}

func (r record) write(path string) error {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text.String()), 0o644)
}

// recordOf is what update writes for a suite.
func recordOf(run *suiteRun, missing map[string]string) suiteRecord {
	result := suiteRecord{
		Client:  run.client,
		Counts:  counts{run.count(passed), run.count(failed), run.count(skipped)},
		Passed:  []string{},
		Failed:  map[string]string{},
		Skipped: map[string]string{},
	}
	for name, t := range run.tests {
		switch t.outcome {
		case passed:
			result.Passed = append(result.Passed, name)
		case failed:
			result.Failed[name] = missing[name]
		case skipped:
			result.Skipped[name] = t.detail
		}
	}
	slices.Sort(result.Passed)
	return result
}

// readMissing reads lines "suite | test | reason"; the result maps suite to
// test to reason. Empty lines and those that start with # are comments.
func readMissing(path string) (map[string]map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	missing := make(map[string]map[string]string)
	for number, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		suite, rest, _ := strings.Cut(line, " | ")
		name, reason, _ := strings.Cut(rest, " | ")
		suite, name, reason = strings.TrimSpace(suite), strings.TrimSpace(name), strings.TrimSpace(reason)
		if suite == "" || name == "" || reason == "" {
			return nil, fmt.Errorf("scores: %s:%d: expected \"suite | test | reason\", got %q", path, number+1, line)
		}
		if missing[suite] == nil {
			missing[suite] = make(map[string]string)
		}
		if _, double := missing[suite][name]; double {
			return nil, fmt.Errorf("scores: %s:%d: listed twice: %s", path, number+1, name)
		}
		missing[suite][name] = reason
	}
	return missing, nil
}
