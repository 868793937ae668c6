package crash

import (
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// built is the broker under test, compiled once. BASALTMQ_CRASH_BROKER names
// one to use instead.
var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("BASALTMQ_CRASH_BROKER"); path != "" {
		return path, nil
	}
	dir, err := os.MkdirTemp("", "basaltmq-crash-bin-")
	if err != nil {
		return "", err
	}
	builtDir = dir
	return Build(dir, buildTags, buildFlags)
})

var builtDir string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if builtDir != "" {
			_ = os.RemoveAll(builtDir)
		}
		os.Exit(code)
	}))
}
