package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLogFile: the log goes to a file, in the format asked for, and to a new one
// after the old was moved away and a SIGHUP came.
func TestLogFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "log")
	p := launch(t, "-D", filepath.Join(dir, "data"), "-p", "0", "--loops", "1", "BASALTMQ_LOG_FILE="+path, "BASALTMQ_LOG_FORMAT=json")
	has := func(file, text string) {
		t.Helper()
		deadline := time.Now().Add(patience)
		for {
			content, _ := os.ReadFile(file)
			if strings.Contains(string(content), text) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s does not have %s:\n%s", file, text, content)
			}
			<-time.After(5 * time.Millisecond)
		}
	}
	has(path, `"msg":"BasaltMQ is ready"`)
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	p.signal(syscall.SIGHUP)
	has(path, `"msg":"the configuration is read`)
	p.signal(syscall.SIGTERM)
	has(path, `"msg":"stopped"`)
	p.wait()
	if text := p.stderr(); strings.Contains(text, "is ready") {
		t.Errorf("the log came to standard error, too: %s", text)
	}
}
