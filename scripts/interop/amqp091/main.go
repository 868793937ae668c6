// Command amqp091 runs the integration tests that ship inside the module
// github.com/rabbitmq/amqp091-go (build tag "integration") against the broker
// at $AMQP_URL. It is a module of its own, so that neither the client nor its
// test dependencies enter the broker's go.sum; go.mod pins the client version.
//
// Which tests run: those that exist only with the build tag (the rest are unit
// tests that never meet a broker), less those in skips.txt.
//
// The run fails when
//  1. a test fails, or the test binary does (goleak, panic, time limit);
//  2. a test skips itself without being listed in skips.txt;
//  3. skips.txt names a test that no longer exists, gives no reason, or is not
//     repeated in ../README.md, the table that users read;
//  4. no test ran.
//
// Tests in races.txt lose against time now and then with any broker, as each
// line says. One of them that fails is run again, alone, up to racesMax times.
//
// The last line is "N passed, N failed, N skipped".
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	_ "github.com/rabbitmq/amqp091-go" // the module under test: keeps the requirement in go.mod
)

const (
	clientPackage = "github.com/rabbitmq/amqp091-go"
	defaultURL    = "amqp://guest:guest@127.0.0.1:5672/"
	testTimeout   = "400s" // whole binary; about 110 s on a quiet machine
	racesMax      = 5
)

// event is the part of test2json's output that matters here.
type event struct {
	Action string
	Test   string
	Output string
}

func main() {
	os.Exit(run())
}

func run() int {
	skips, err := readReasons("skips.txt")
	if err != nil {
		return fatal(err)
	}
	races, err := readReasons("races.txt")
	if err != nil {
		return fatal(err)
	}
	integration, err := integrationTests()
	if err != nil {
		return fatal(err)
	}
	problems := checkSkips(skips, integration, filepath.Join("..", "README.md"))

	var selected []string
	for _, name := range integration {
		if _, skipped := skips[name]; !skipped {
			selected = append(selected, name)
		}
	}
	result, err := runTests(selected)
	if err != nil {
		return fatal(err)
	}
	for name := range races {
		if err := result.again(name); err != nil {
			return fatal(err)
		}
	}
	problems = append(problems, result.problems...)
	if err := report(result, skips); err != nil {
		return fatal(err)
	}

	for _, problem := range problems {
		fmt.Println("FAIL", problem)
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", len(result.passedNames), len(problems), len(skips))
	if len(problems) > 0 || len(result.passedNames) == 0 {
		return 1
	}
	return 0
}

func fatal(err error) int {
	fmt.Println("FAIL amqp091:", err)
	fmt.Println("0 passed, 1 failed")
	return 1
}

// report appends what happened to the file that scores reads (see
// ../scores/doc.go), if it asks for it. What is not the failure of one test
// shows in the exit status.
func report(res result, skips map[string]string) error {
	path := os.Getenv("INTEROP_RESULTS")
	if path == "" {
		return nil
	}
	version, err := goCommand("list", "-m", "-f", "{{.Version}}", clientPackage).Output()
	if err != nil {
		return fmt.Errorf("go list -m: %w", err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "client\tamqp091-go %s\n", bytes.TrimSpace(version))
	for _, name := range res.passedNames {
		fmt.Fprintf(&text, "pass\t%s\n", name)
	}
	for _, name := range res.failedNames {
		fmt.Fprintf(&text, "fail\t%s\tsee its output\n", name)
	}
	for name, reason := range skips {
		fmt.Fprintf(&text, "skip\t%s\t%s\n", name, reason)
	}
	text.WriteString("done\n")
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := file.WriteString(text.String()); err != nil {
		return err
	}
	return file.Close()
}

// readReasons parses lines "TestName reason…"; empty lines and # comments are ignored.
func readReasons(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	reasons := make(map[string]string)
	for number, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, " ")
		reason = strings.TrimSpace(reason)
		if reason == "" {
			return nil, fmt.Errorf("%s:%d: %s has no reason", path, number+1, name)
		}
		if _, double := reasons[name]; double {
			return nil, fmt.Errorf("%s:%d: %s is listed twice", path, number+1, name)
		}
		reasons[name] = reason
	}
	return reasons, nil
}

func checkSkips(skips map[string]string, existing []string, readmePath string) (problems []string) {
	readme, err := os.ReadFile(readmePath)
	if err != nil {
		problems = append(problems, err.Error())
	}
	for name := range skips {
		if !slices.Contains(existing, name) {
			problems = append(problems, fmt.Sprintf("skips.txt: %s does not exist any more in this version of the client", name))
		}
		if !bytes.Contains(readme, []byte("`"+name+"`")) {
			problems = append(problems, fmt.Sprintf("skips.txt: %s is missing in the table of %s", name, readmePath))
		}
	}
	slices.Sort(problems)
	return problems
}

// integrationTests returns the names that appear only with the build tag, in source order.
func integrationTests() ([]string, error) {
	tagged, err := listTests("-tags", "integration")
	if err != nil {
		return nil, err
	}
	plain, err := listTests()
	if err != nil {
		return nil, err
	}
	names := slices.DeleteFunc(tagged, func(name string) bool { return slices.Contains(plain, name) })
	if len(names) == 0 {
		return nil, errors.New("the client has no integration tests: was the build tag renamed?")
	}
	return names, nil
}

func listTests(flags ...string) ([]string, error) {
	arguments := append([]string{"test", "-list", "^Test"}, flags...)
	command := goCommand(append(arguments, clientPackage)...)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("go test -list: %w\n%s%s", err, output, stderr.Bytes())
	}
	return regexp.MustCompile(`(?m)^Test\w+$`).FindAllString(string(output), -1), nil
}

type result struct {
	passedNames []string
	failedNames []string // tests, unlike problems
	problems    []string
}

// again runs a test that failed once more, until it passes or has failed racesMax times.
func (r *result) again(name string) error {
	for attempt := 1; slices.Contains(r.failedNames, name) && attempt <= racesMax; attempt++ {
		second, err := runTests([]string{name})
		if err != nil {
			return err
		}
		if len(second.problems) > 0 {
			continue
		}
		fmt.Printf("%s failed and passed when run again (%d of at most %d): see races.txt\n", name, attempt, racesMax)
		is := func(s string) bool { return s == name }
		r.failedNames = slices.DeleteFunc(r.failedNames, is)
		r.problems = slices.DeleteFunc(r.problems, is)
		r.passedNames = append(r.passedNames, name)
	}
	return nil
}

func runTests(names []string) (result, error) {
	pattern := "^(" + strings.Join(names, "|") + ")$"
	command := goCommand("test", "-json", "-count=1", "-timeout", testTimeout, "-tags", "integration", "-run", pattern, clientPackage)
	command.Stderr = os.Stdout
	pipe, err := command.StdoutPipe()
	if err != nil {
		return result{}, err
	}
	if err := command.Start(); err != nil {
		return result{}, err
	}

	var res result
	finished := make(map[string]bool)
	output := make(map[string]*strings.Builder) // by top-level test; "" is the binary itself
	lines := bufio.NewScanner(pipe)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Println(lines.Text())
			continue
		}
		parent, _, isSubtest := strings.Cut(e.Test, "/")
		if output[parent] == nil {
			output[parent] = new(strings.Builder)
		}
		if e.Action == "output" {
			output[parent].WriteString(e.Output)
		}
		if isSubtest || e.Test == "" {
			continue
		}
		switch e.Action {
		case "pass":
			res.passedNames = append(res.passedNames, e.Test)
			finished[e.Test] = true
		case "fail":
			finished[e.Test] = true
			fmt.Print(output[parent])
			res.failedNames = append(res.failedNames, e.Test)
			res.problems = append(res.problems, e.Test)
		case "skip":
			finished[e.Test] = true
			fmt.Print(output[parent])
			res.problems = append(res.problems, e.Test+" skipped itself but is not listed in skips.txt")
		}
	}
	if err := lines.Err(); err != nil {
		return res, err
	}
	exit := command.Wait()
	for _, name := range names {
		if !finished[name] {
			if output[name] != nil { // with the stacks, when time ran out
				fmt.Print(output[name])
			}
			res.failedNames = append(res.failedNames, name)
			res.problems = append(res.problems, name+" did not finish")
		}
	}
	if exit != nil && len(res.problems) == 0 {
		if output[""] != nil {
			fmt.Print(output[""])
		}
		res.problems = append(res.problems, fmt.Sprintf("test binary: %v although each test passed (a leaked goroutine?)", exit))
	}
	return res, nil
}

// goCommand runs the go tool with AMQP_URL set, the variable the tests read.
func goCommand(arguments ...string) *exec.Cmd {
	command := exec.Command("go", arguments...)
	command.Env = os.Environ()
	if os.Getenv("AMQP_URL") == "" {
		command.Env = append(command.Env, "AMQP_URL="+defaultURL)
	}
	return command
}
