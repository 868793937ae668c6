// Command rabbithole runs the tests that ship inside the module
// github.com/michaelklishin/rabbit-hole/v3, a client of RabbitMQ's management API,
// against the broker on 127.0.0.1:5672 with its API on 127.0.0.1:15672: the tests
// name these ports, so that run.sh starts a broker in a network namespace. It is a
// module of its own, so that neither the client nor its test dependencies enter
// the broker's go.sum; go.mod pins the client version.
//
// Users and virtual hosts are prepared as the client's bin/ci scripts do. Tests in
// skips.txt are not run; what skips itself is reported with its own words. The run
// fails when a test fails, skips.txt names a test that does not exist, or none ran.
//
// The last line is "N passed, N failed, N skipped".
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	_ "github.com/michaelklishin/rabbit-hole/v3" // the module under test: keeps the requirement in go.mod
)

const (
	clientPackage = "github.com/michaelklishin/rabbit-hole/v3"
	api           = "http://127.0.0.1:15672/api"
	testTimeout   = "200s" // about 15 s on a quiet machine
)

func main() {
	problems, err := run()
	for _, problem := range problems {
		fmt.Println("FAIL", problem)
	}
	if err != nil {
		fmt.Println("FAIL rabbithole:", err)
	}
	if err != nil || len(problems) > 0 {
		os.Exit(1)
	}
}

// spec is the part of ginkgo's JSON report that matters here.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeType            string
	LeafNodeText            string
	State                   string
	Failure                 struct{ Message string }
}

func run() (problems []string, err error) {
	skips, err := readSkips("skips.txt")
	if err != nil {
		return nil, err
	}
	if err := prepare(); err != nil {
		return nil, err
	}
	specs, err := runTests(skips)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	lines := []string{"client\trabbit-hole " + clientVersion()}
	seen := map[string]int{}
	for _, s := range specs {
		if s.LeafNodeType != "It" {
			continue
		}
		parts := append(append([]string{}, s.ContainerHierarchyTexts...), s.LeafNodeText)
		if len(parts) > 1 {
			parts = parts[1:] // the name of the suite
		}
		name := strings.Join(parts, ": ")
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
		detail := strings.Join(strings.Fields(s.Failure.Message), " ")
		switch s.State {
		case "passed":
			counts["passed"]++
			lines = append(lines, "pass\t"+name)
		case "skipped":
			counts["skipped"]++
			for _, skip := range skips {
				if strings.Contains(full(s), skip.text) {
					detail, skips[skip.text] = skip.reason, skipped{skip.text, skip.reason, true}
				}
			}
			if detail == "" {
				problems = append(problems, name+" was skipped without a reason")
			}
			lines = append(lines, "skip\t"+name+"\t"+detail)
		default:
			counts["failed"]++
			problems = append(problems, name)
			lines = append(lines, "fail\t"+name+"\t"+detail)
		}
	}
	for _, skip := range skips {
		if !skip.found {
			problems = append(problems, "skips.txt: there is no test "+skip.text)
		}
	}
	if counts["passed"] == 0 {
		problems = append(problems, "no test ran")
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", counts["passed"], counts["failed"], counts["skipped"])
	if path := os.Getenv("INTEROP_RESULTS"); path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return problems, err
		}
		defer file.Close()
		if _, err := io.WriteString(file, strings.Join(lines, "\n")+"\ndone\n"); err != nil {
			return problems, err
		}
	}
	return problems, nil
}

// full is the text that ginkgo matches its flag against.
func full(s spec) string {
	return strings.Join(append(append([]string{}, s.ContainerHierarchyTexts...), s.LeafNodeText), " ")
}

type skipped struct {
	text, reason string
	found        bool
}

// readSkips parses lines "text of the test | reason"; empty lines and # comments
// are ignored.
func readSkips(path string) (map[string]skipped, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	skips := map[string]skipped{}
	for number, line := range strings.Split(string(data), "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		text, reason, _ := strings.Cut(line, " | ")
		if reason == "" {
			return nil, fmt.Errorf("%s:%d: there is no reason", path, number+1)
		}
		skips[text] = skipped{text, reason, false}
	}
	return skips, nil
}

// prepare makes what the client's bin/ci/before_build.sh makes.
func prepare() error {
	const all = `{"configure":".*","write":".*","read":".*"}`
	for _, step := range [][2]string{
		{"/users/policymaker", `{"password":"policymaker","tags":"policymaker"}`},
		{"/permissions/%2F/policymaker", all},
		{"/vhosts/rabbit%2Fhole", `{}`},
		{"/permissions/rabbit%2Fhole/guest", all},
		{"/cluster-name", `{"name":"rabbitmq@localhost"}`},
	} {
		request, err := http.NewRequest(http.MethodPut, api+step[0], strings.NewReader(step[1]))
		if err != nil {
			return err
		}
		request.SetBasicAuth("guest", "guest")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		answer, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode >= 300 {
			return fmt.Errorf("PUT %s: %s %s", step[0], response.Status, answer)
		}
	}
	return nil
}

func clientVersion() string {
	out, _ := exec.Command("go", "list", "-m", "-f", "{{.Version}}", clientPackage).Output()
	return string(bytes.TrimSpace(out))
}

func runTests(skips map[string]skipped) ([]spec, error) {
	directory, err := os.MkdirTemp("", "rabbithole-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(directory)
	report := filepath.Join(directory, "report.json")
	arguments := []string{"test", "-count=1", "-timeout", testTimeout, clientPackage, "-args", "-ginkgo.no-color", "-ginkgo.json-report=" + report}
	for text := range skips {
		arguments = append(arguments, "-ginkgo.skip="+regexp.QuoteMeta(text))
	}
	command := exec.Command("go", arguments...)
	command.Env = append(os.Environ(), "GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT=20s")
	output, runErr := command.CombinedOutput()
	data, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("%w (%v): %s", err, runErr, output)
	}
	if runErr != nil {
		fmt.Printf("%s\n", output)
	}
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, err
	}
	var all []spec
	for _, suite := range suites {
		all = append(all, suite.SpecReports...)
	}
	return all, nil
}
