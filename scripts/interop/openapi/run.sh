#!/usr/bin/env bash
# Validates the document of the management API; see main.go.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
export GOFLAGS="${GOFLAGS:-} -mod=readonly" GOPROXY=off
exec ../with-broker.sh go run .
