# BasaltMQ. `make build` and `make test` set up all they need from the Go module
# proxy; see README.md.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# The io_uring backends need this tag, and giouring's linknames the linker flag.
TAGS    := uring
LDFLAGS := -checklinkname=0
BUILD   := $(GO) build -trimpath -tags $(TAGS) -ldflags "$(LDFLAGS) -s -w -X main.version=$(VERSION)"
TEST    := $(GO) test -tags $(TAGS) -ldflags=$(LDFLAGS)

.PHONY: build demo test race fuzz lint interop bench clean generate

build:
	$(BUILD) -o bin/ ./cmd/...

demo: build
	scripts/demo.sh

test: build
	$(GO) build ./...
	$(TEST) -count=1 ./...
	$(GO) test -count=1 ./engine/... ./segstore/...

race:
	$(TEST) -race -count=1 ./engine/... ./segstore/... ./wire/... ./perf/...

# Every fuzz target in turn; FUZZTIME=30s in CI.
FUZZTIME ?= 10s
fuzz:
	scripts/fuzz.sh $(FUZZTIME)

lint:
	scripts/lint.sh

interop: build
	scripts/interop/ci.sh

generate:
	$(GO) generate ./...

clean:
	rm -rf bin
