#!/usr/bin/env bash
# Runs rabbit-hole's own tests against a broker of its own; see main.go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export GOFLAGS="${GOFLAGS:-} -mod=readonly" GOPROXY=off
exec ../with-broker.sh go run .
