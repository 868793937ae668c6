#!/usr/bin/env bash
# Formatting, vet and staticcheck, with and without the io_uring build tag.
set -euo pipefail
cd "$(dirname "$0")/.."

unformatted=$(gofmt -l $(git ls-files '*.go'))
if [ -n "$unformatted" ]; then
	echo "not formatted with gofmt:"
	echo "$unformatted"
	exit 1
fi
if git grep -lE '^basaltmq-signing-key [0-9]' >&2; then
	echo "these are private keys: take them out of the commit, and of trusted-keys if they ever left this machine" >&2
	exit 1
fi
git ls-files '*.sh' .ci/run | while read -r script; do bash -n "$script"; done
# The clients' modules name what the broker's needs, too.
for module in $(git ls-files 'scripts/*/go.mod' 'scripts/**/go.mod' | sort -u); do
	(cd "$(dirname "$module")" && go list -mod=readonly -test -deps ./... >/dev/null) || {
		echo "$module: run go mod tidy there"
		exit 1
	}
done
go vet ./...
go vet -tags uring ./...
go tool staticcheck ./...
go tool staticcheck -tags uring ./...
GOARCH=arm64 go vet -tags uring ./cmd/... ./engine/... ./segstore/... ./wire/... ./perf/...
go run ./cmd/basaltmqperf table bench-results --check
echo "lint: clean"
