package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	scores := flag.String("scores", "scripts/interop/scores.json", "the record")
	list := flag.String("missing", "scripts/interop/expected-missing.txt", "the list of what the broker lacks")
	flag.Parse()
	if flag.NArg() < 2 || flag.Arg(0) != "check" && flag.Arg(0) != "update" {
		fmt.Fprintln(os.Stderr, "usage: scores [flags] check|update DIR…")
		os.Exit(2)
	}
	ok, err := run(os.Stdout, flag.Arg(0) == "update", *scores, *list, flag.Args()[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

// run judges the directories and prints the verdict; with update it writes the
// record. It returns whether the verdict is good.
func run(out io.Writer, update bool, scoresPath, missingPath string, dirs []string) (bool, error) {
	kept, err := readRecord(scoresPath)
	if err != nil {
		return false, err
	}
	missing, err := readMissing(missingPath)
	if err != nil {
		return false, err
	}
	runs, err := readRuns(dirs)
	if err != nil {
		return false, err
	}
	verdict := judge(runs, kept, missing)

	for _, run := range runs {
		if verdict.failing[run.name] {
			printLogs(out, run)
		}
	}
	var total counts
	for _, run := range runs {
		state := "ok"
		if verdict.failing[run.name] {
			state = "FAILED"
		}
		n := counts{run.count(passed), run.count(failed), run.count(skipped)}
		total.Passed += n.Passed
		total.Failed += n.Failed
		total.Skipped += n.Skipped
		fmt.Fprintf(out, "%-11s %4d passed %3d failed %3d skipped  %3d s  %-24s %s\n", run.name, n.Passed, n.Failed, n.Skipped, run.seconds, run.client, state)
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", total.Passed, total.Failed, total.Skipped)
	printAll(out, "note", verdict.notes)
	printAll(out, "better", verdict.improvements)
	printAll(out, "BROKEN", verdict.broken)
	printAll(out, "LOST", verdict.lost)

	if update {
		if len(verdict.broken) > 0 {
			return false, nil
		}
		for _, run := range runs {
			kept[run.name] = recordOf(run, missing[run.name])
		}
		return true, kept.write(scoresPath)
	}
	if len(verdict.improvements) > 0 {
		fmt.Fprintln(out, "update the record with: make interop-scores")
	}
	return len(verdict.broken)+len(verdict.lost) == 0, nil
}

func printAll(out io.Writer, word string, lines []string) {
	for _, line := range lines {
		fmt.Fprintln(out, word, line)
	}
}

// printLogs shows what a failing suite printed, the last lines of it.
func printLogs(out io.Writer, run *suiteRun) {
	const linesMax = 80
	for _, path := range run.logs {
		data, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintf(out, "[%s] no log: %v\n", run.name, err)
			continue
		}
		lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
		if len(lines) > linesMax {
			lines = lines[len(lines)-linesMax:]
		}
		for _, line := range lines {
			fmt.Fprintf(out, "[%s] %s\n", run.name, line)
		}
	}
}
