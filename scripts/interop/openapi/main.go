// Command openapi has kin-openapi judge the OpenAPI document that the broker
// serves at /docs/openapi.json, and compare a few answers with it. It is a module of
// its own, so that the validator stays out of the broker's go.sum.
//
// The last line is "N passed, N failed".
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"runtime/debug"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

const (
	broker    = "http://127.0.0.1:15672"
	validator = "github.com/getkin/kin-openapi"
)

// answers are compared with what the document says of them.
var answers = []string{"/api/overview", "/api/nodes", "/api/vhosts", "/api/exchanges", "/api/users", "/api/permissions", "/api/feature-flags", "/api/health/checks/alarms"}

func main() {
	passed, failed := 0, 0
	lines := []string{"client\tkin-openapi " + version()}
	verdict := func(name string, err error) {
		if err != nil {
			failed++
			fmt.Printf("FAIL %s: %v\n", name, err)
			lines = append(lines, "fail\t"+name+"\t"+strings.Join(strings.Fields(err.Error()), " "))
			return
		}
		passed++
		lines = append(lines, "pass\t"+name)
	}
	data, err := get("/docs/openapi.json")
	var doc *openapi3.T
	if err == nil {
		doc, err = openapi3.NewLoader().LoadFromData(data)
	}
	if err == nil {
		err = doc.Validate(context.Background())
	}
	verdict("the document is valid", err)
	if err == nil {
		for _, path := range answers {
			verdict(path+" is as the document says", compare(doc, path))
		}
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	if path := os.Getenv("INTEROP_RESULTS"); path != "" {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		if err == nil {
			_, err = io.WriteString(file, strings.Join(lines, "\n")+"\ndone\n")
		}
		if err != nil {
			fmt.Println("FAIL", err)
			os.Exit(1)
		}
	}
	if failed > 0 {
		os.Exit(1)
	}
}

func get(path string) ([]byte, error) {
	request, err := http.NewRequest(http.MethodGet, broker+path, nil)
	if err != nil {
		return nil, err
	}
	request.SetBasicAuth("guest", "guest")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", path, response.Status)
	}
	return io.ReadAll(response.Body)
}

func compare(doc *openapi3.T, path string) error {
	data, err := get(path)
	if err != nil {
		return err
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	item := doc.Paths.Find(path)
	if item == nil || item.Get == nil {
		return fmt.Errorf("the document lacks it")
	}
	return item.Get.Responses.Value("200").Value.Content.Get("application/json").Schema.Value.VisitJSON(v)
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == validator {
				return m.Version
			}
		}
	}
	return "of unknown version"
}
