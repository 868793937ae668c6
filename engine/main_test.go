package engine_test

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/basaltmq/basaltmq/engine"
	"github.com/basaltmq/basaltmq/engine/amqptest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ioVariable chooses the I/O backends of all tests' brokers: auto, uring, posix.
const ioVariable = "BASALTMQ_TEST_IO"

// start runs a broker on a free port until the test ends.
func start(t testing.TB, change ...func(*engine.Config)) *engine.Engine {
	t.Helper()
	config := engine.Config{DataDir: t.TempDir(), Version: "test", Loops: 2, IO: os.Getenv(ioVariable)}
	for _, f := range change {
		f(&config)
	}
	e, err := engine.Start(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	return e
}

// eventually waits until condition holds. What it waits for is done by other
// threads, perhaps on a single core: it leaves them the processor.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(amqptest.Patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("does not come true: %s", what)
		}
		<-time.After(time.Millisecond)
	}
}
