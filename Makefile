# BasaltMQ. `make build` and `make test` set up all they need from the Go module
# proxy; see README.md.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The io_uring backends need this tag, and giouring's linknames the linker flag.
TAGS    := uring
LDFLAGS := -checklinkname=0
BUILD   := $(GO) build -trimpath -tags $(TAGS) -ldflags "$(LDFLAGS) -s -w -X main.version=$(VERSION) -X github.com/basaltmq/basaltmq/perf/scenario.Version=$(VERSION)"
TEST    := $(GO) test -tags $(TAGS) -ldflags=$(LDFLAGS)

.PHONY: build demo test race soak fuzz lint arm64 interop interop-scores bench-backlog deb release clean generate

build:
	$(BUILD) -o bin/ ./cmd/...

demo: build
	scripts/demo.sh

# With io_uring compiled in, and then what differs without it.
test: build
	$(GO) build ./...
	$(TEST) -count=1 ./...
	$(GO) test -count=1 -short ./engine ./engine/loop ./segstore ./segstore/disk/... ./segstore/uring

race:
	$(TEST) -race -short -count=1 ./engine/... ./segstore/... ./wire/... ./perf/...

# Crash histories, kill -9 and power loss for as long as one likes: SOAK=1h.
SOAK ?= 10m
soak:
	BASALTMQ_SOAK=$(SOAK) $(TEST) -count=1 -v -timeout 0 -run 'TestHistories|TestKill|TestPowerLoss' ./segstore/histories ./engine/crash

# Every fuzz target in turn; FUZZTIME=1m for a thorough run.
FUZZTIME ?= 10s
fuzz:
	scripts/fuzz.sh $(FUZZTIME)

lint:
	scripts/lint.sh

# Everything builds for arm64; the packages that touch bytes and disks are
# tested there under emulation (Debian: qemu-user-static).
ARM64 := CGO_ENABLED=0 GOOS=linux GOARCH=arm64
arm64:
	$(ARM64) $(GO) build ./...
	$(ARM64) $(GO) build -tags $(TAGS) -ldflags "$(LDFLAGS)" -o /dev/null ./cmd/basaltmq
	$(ARM64) $(GO) test -short -exec qemu-aarch64-static ./wire/... ./segstore \
		./segstore/arena ./segstore/bodies ./segstore/disk/... ./segstore/histogram ./segstore/inspect ./segstore/journal

# Real clients (scripts/interop); interop-scores writes their record anew.
interop: build
	scripts/interop/ci.sh check

interop-scores: build
	scripts/interop/ci.sh update

# Fill a queue, measure, drain it, check every message: N=100000000 by hand.
bench-backlog: build
	scripts/bench/backlog.sh

# A Debian package for this machine, and all that a release has: bin/release.
deb:
	scripts/package/deb.sh

release:
	scripts/package/release.sh

generate:
	$(GO) generate ./...

clean:
	rm -rf bin
