package process

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOwnBottleneck(t *testing.T) {
	t.Parallel()
	everyThread := func(int) bool { return true }
	busy := func(share float64) map[int]ThreadLoad {
		return map[int]ThreadLoad{7: {Run: time.Duration(share * float64(time.Second))}}
	}
	for _, test := range []struct {
		name    string
		own     []ThreadLoad
		broker  float64
		hasWork func(int) bool
		want    bool
	}{
		{"busy", []ThreadLoad{{Run: 950 * time.Millisecond}}, 0.5, everyThread, true},
		{"busy, partly waiting for a core", []ThreadLoad{{Run: 500 * time.Millisecond, Wait: 450 * time.Millisecond}}, 0.5, everyThread, true},
		{"idle", []ThreadLoad{{Run: 100 * time.Millisecond}}, 0.5, everyThread, false},
		{"one of two idle", []ThreadLoad{{Run: time.Second}, {}}, 0.5, everyThread, false},
		{"one of two without work", []ThreadLoad{{Run: time.Second}, {}}, 0.5, func(i int) bool { return i == 0 }, true},
		{"broker busy too", []ThreadLoad{{Run: time.Second}}, 0.85, everyThread, false},
	} {
		end := Usage{OwnThreads: test.own, BrokerThreads: busy(test.broker)}
		if got := Between(Usage{}, end, time.Second).OwnBottleneck(test.hasWork); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestUsageOfThisProcess(t *testing.T) {
	t.Parallel()
	u := ReadUsage(os.Getpid(), []int{unix.Gettid()})
	if u.OwnCPU <= 0 || len(u.OwnThreads) != 1 || len(u.BrokerThreads) == 0 {
		t.Errorf("%+v", u)
	}
	watch := MemoryWatch{PID: os.Getpid()}
	if watch.Sample(); !watch.Known || watch.Last.RSS == 0 || watch.Max.HWM < watch.Last.RSS {
		t.Errorf("%+v", watch)
	}
	nobody := MemoryWatch{}
	if nobody.Sample(); nobody.Known {
		t.Error("sampled the memory of no process")
	}
}
